// The loop behind the API: what wakes it, how long it waits, and that it ends.
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/controllers.h"
#include "cli/util/error.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/controllers_loop");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

bool within_patience(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Time now_by_clock() { return std::chrono::system_clock::now(); }

// A state folder with a script as the supervisor. The script runs until the test is over.
struct Looped {
  static inline const std::string uid = "controllers-loop-test-" + std::to_string(::getpid());
  Folder folder;
  Paths paths{folder.path()};
  Store store{paths.objects()};
  PodLogs logs{paths.pods()};
  std::filesystem::path program = folder.path() / "supervisor";

  Looped() {
    write_text(program, "#!/bin/sh\nwhile [ -d \"$3\" ]; do sleep 0.05; done\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  void create_pod() {
    store.create("pods",
                 {{"apiVersion", "v1"},
                  {"kind", "Pod"},
                  {"metadata", {{"name", "p"}, {"namespace", "default"}, {"uid", uid}}},
                  {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"work"}}}}}}}});
  }
  bool has_event(const std::string& name) const { return store.find("events", "ns", name) != nullptr; }
  void create_event(const std::string& name, Time last) {
    store.create("events", {{"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", "u-" + name}}},
                            {"lastTimestamp", format_time(last)}});
  }
  json phase() const {
    const Object pod = store.find("pods", "default", "p");
    return pod ? pod->value("/status/phase"_json_pointer, json()) : json();
  }
};

TEST_CASE("the fifo of notices has mode 0600, and the controllers accept an existing fifo") {
  Looped looped;
  for (int i = 0; i < 2; ++i) {
    const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
    struct stat info{};
    REQUIRE(::stat(looped.paths.fifo().c_str(), &info) == 0);
    CHECK(S_ISFIFO(info.st_mode));
    CHECK((info.st_mode & 0777) == 0600);
  }
  CHECK(std::filesystem::exists(looped.paths.fifo()));
}

TEST_CASE("the controllers cannot start if the path of the fifo is a folder, and the error says so") {
  Looped looped;
  const Paths occupied(looped.folder.path() / "occupied");
  std::filesystem::create_directories(occupied.fifo());
  try {
    const Controllers controllers(looped.store, looped.logs, occupied, looped.program);
    FAIL("was made");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::failure);
    CHECK(std::string(error.what()) == "cannot open " + occupied.fifo().string() + ": Is a directory");
  }
}

TEST_CASE("the loop handles the Jobs that exist at the start, and each Job that is created later") {
  Looped looped;
  looped.store.create("jobs", job(1, {{"completions", 0}}));
  const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
  const auto ended = [&](const std::string& name) {
    const Object job = looped.store.find("jobs", "default", name);
    return job && job->value("/status/completionTime"_json_pointer, json()).is_string();
  };
  CHECK(within_patience([&] { return ended("j"); }));
  for (int i = 0; i < 5; ++i) {
    json next = job(1, {{"completions", 0}});
    next["metadata"]["name"] = "j" + std::to_string(i);
    next["metadata"]["uid"] = "uid-" + std::to_string(i);
    looped.store.create("jobs", next);
    CHECK(within_patience([&] { return ended("j" + std::to_string(i)); }));
  }
}

TEST_CASE("the loop deletes garbage and old events, and keeps new events") {
  Looped looped;
  looped.create_event("old", now_by_clock() - std::chrono::hours(2));
  looped.create_event("new", now_by_clock());
  const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
  CHECK(within_patience([&] { return !looped.has_event("old"); }));
  looped.store.create("configmaps", R"({"metadata": {"name": "a", "namespace": "ns", "uid": "u",
                                        "ownerReferences": [{"uid": "gone"}]}})"_json);
  CHECK(within_patience([&] { return !looped.store.find("configmaps", "ns", "a"); }));
  CHECK(looped.has_event("new"));
}

TEST_CASE("the loop syncs the pod that a notice is about, even if the notice arrives in parts") {
  for (const char* parts : {"whole", "halves", "among others", "after nonsense"}) {
    CAPTURE(parts);
    Looped looped;
    looped.create_pod();
    const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
    const PodFolder record(looped.paths.pods() / Looped::uid);
    REQUIRE(within_patience([&] { return record.start().has_value(); }));
    ProcessId nobody = ProcessId::of_this_process();
    nobody.pid = 4000000;  // above all possible process ids
    record.write(Started{"2026-11-21T12:00:05Z", 4000000, nobody});
    const int fifo = ::open(looped.paths.fifo().c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(fifo >= 0);
    const auto say = [&](const std::string& text) {
      CHECK(::write(fifo, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    };
    const std::string how = parts, line = Looped::uid + "\n";
    if (how == "whole") say(line);
    if (how == "halves") {
      say(line.substr(0, 7));
      say(line.substr(7));
    }
    if (how == "among others") say("another\n" + line + "\nmore");
    if (how == "after nonsense") say(std::string(20'000, 'x') + "\n" + line);
    CHECK(within_patience([&] { return looped.phase() == "Running"; }));
    ::close(fifo);
  }
}

TEST_CASE("the loop handles a change or a notice at once, before its next sweep") {
  Looped looped;
  const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
  const PodFolder record(looped.paths.pods() / Looped::uid);
  const int fifo = ::open(looped.paths.fifo().c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fifo >= 0);
  const auto notice = [&] {
    const std::string line = Looped::uid + "\n";
    CHECK(::write(fifo, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  };
  const auto plant = [&](const std::string& name) {
    looped.create_event(name, now_by_clock() - std::chrono::hours(2));
  };
  // Old events expire only in a sweep. So an old event that still exists shows that no sweep has happened
  // meanwhile. A round with a sweep proves nothing.
  bool between = false;
  for (int round = 0; round < 20; ++round) {
    const std::string old = "old-" + std::to_string(round);
    looped.create_pod();
    REQUIRE(within_patience([&] { return record.start().has_value(); }));
    plant(old + "-before");
    REQUIRE(within_patience([&] { return !looped.has_event(old + "-before"); }));
    plant(old);
    for (int i = 0; i < 3; ++i) {
      const std::string name = "j-" + std::to_string(round) + "-" + std::to_string(i);
      json next = job(1, {{"completions", 0}});
      next["metadata"]["name"] = name;
      next["metadata"]["uid"] = "uid-" + name;
      looped.store.create("jobs", next);
      REQUIRE(within_patience([&] {
        return looped.store.get("jobs", "default", name)->at("status").contains("completionTime");
      }));
    }
    ProcessId nobody = ProcessId::of_this_process();
    nobody.pid = 4000000;  // above all possible process ids
    record.write(Started{"2026-11-21T12:00:05Z", 4000000, nobody});
    notice();
    REQUIRE(within_patience([&] { return looped.phase() == "Running"; }));
    record.write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    notice();
    REQUIRE(within_patience([&] { return looped.phase() == "Succeeded"; }));
    between = looped.has_event(old);
    if (between) break;
    looped.store.remove("pods", "default", "p");
    REQUIRE(within_patience([&] { return !std::filesystem::exists(record.path()); }));
  }
  CHECK(between);
  ::close(fifo);
}

TEST_CASE("the controllers change nothing after their loop has ended") {
  Looped looped;
  looped.create_pod();
  {
    const Controllers controllers(looped.store, looped.logs, looped.paths, looped.program);
    const PodFolder record(looped.paths.pods() / Looped::uid);
    REQUIRE(within_patience([&] { return record.start().has_value(); }));
  }
  CHECK(looped.phase() == "Pending");
  json next = job(1, {{"completions", 0}});
  looped.store.create("jobs", next);
  CHECK_FALSE(looped.store.get("jobs", "default", "j")->at("status").contains("completionTime"));
}

}  // namespace
}  // namespace mlk::local
