// The outputs about a pod's process: its status, its log, its address.
#include <algorithm>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/node/addresses.h"
#include "cli/local/node/log_writer.h"
#include "cli/local/node/pod_folder.h"
#include "cli/local/node/pod_log.h"
#include "cli/local/node/pod_status.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/pods");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

json plain_pod() {
  return {{"metadata", {{"name", "p"}, {"uid", "u"}}},
          {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}, {"resources", json::object()}}}}}},
          {"status", {{"phase", "Pending"}}}};
}

bool condition(const json& status, const std::string& type) {
  for (const json& c : status.at("conditions")) {
    if (c.at("type") == type) return c.at("status") == "True";
  }
  return false;
}

}  // namespace

TEST_CASE("a pod is Pending until its process runs, then Running, then Succeeded or Failed") {
  PodState state;
  state.address = "127.64.0.1";
  const json waiting = pod_status(plain_pod(), state, noon);
  CHECK(waiting.at("phase") == "Pending");
  CHECK(waiting.at("containerStatuses").at(0).at("state").at("waiting").at("reason") == "ContainerCreating");
  CHECK(!condition(waiting, "Ready"));
  state.running_since = "2026-11-21T12:00:00Z";
  const json running = pod_status(plain_pod(), state, noon);
  CHECK(running.at("phase") == "Running");
  CHECK(running.at("podIP") == "127.64.0.1");
  CHECK(condition(running, "Ready"));
  state.running_since.reset();
  state.exit = Exit{137, 9, "2026-11-21T12:00:01Z", "2026-11-21T12:00:00Z", "", ""};
  const json failed = pod_status(plain_pod(), state, noon);
  CHECK(failed.at("phase") == "Failed");
  CHECK(failed.at("containerStatuses").at(0).at("state").at("terminated").at("exitCode") == 137);
  CHECK(failed.at("containerStatuses").at(0).at("state").at("terminated").at("reason") == "Error");
  CHECK(!condition(failed, "DisruptionTarget"));
  state.exit->code = 0;
  CHECK(pod_status(plain_pod(), state, noon).at("phase") == "Succeeded");
}

TEST_CASE(
    "a pod has the condition DisruptionTarget if it was lost, or was stopped together with the cluster") {
  for (const char* reason : {"Lost", "shutdown"}) {
    PodState state;
    state.exit = Exit{143, 15, "2026-11-21T12:00:01Z", "2026-11-21T12:00:00Z", reason, "gone"};
    CHECK(condition(pod_status(plain_pod(), state, noon), "DisruptionTarget"));
  }
}

TEST_CASE("a condition keeps its time if nothing has changed") {
  PodState state;
  state.running_since = "2026-11-21T12:00:00Z";
  json pod = plain_pod();
  pod["status"] = pod_status(pod, state, noon);
  CHECK(pod_status(pod, state, noon + std::chrono::hours(1)) == pod["status"]);
}

TEST_CASE("a pod is not scheduled if it requests a resource that the node does not have") {
  json pod = plain_pod();
  CHECK(!why_unschedulable(pod));
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"cpu", "1000"}, {"memory", "1Ti"}};
  CHECK(!why_unschedulable(pod));
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"nvidia.com/gpu", 1}};
  CHECK(*why_unschedulable(pod) == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.");
  CHECK(!why_unschedulable(pod, 1));
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"nvidia.com/gpu", "2"}};
  CHECK(why_unschedulable(pod, 1));
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"amd.com/gpu", "1"}};
  CHECK(*why_unschedulable(pod, 1) == "0/1 nodes are available: 1 Insufficient amd.com/gpu.");
}

TEST_CASE("clean_text() replaces bytes that are not UTF-8") {
  CHECK(clean_text("good", 10) == "good");
  CHECK(clean_text("a\xff"
                   "b",
                   10) ==
        "a\xef\xbf\xbd"
        "b");
  CHECK(json(clean_text("\xe2\x82", 10)).dump().size() > 2);
}

TEST_CASE("parse_log_line() reads a line of a log as containerd writes it") {
  const auto line = parse_log_line("2026-11-21T07:40:25.123456789Z stdout F a b");
  REQUIRE(line.has_value());
  CHECK(line->text == "a b");
  CHECK(line->full);
  CHECK(parse_log_line("2026-11-21T07:40:25.1Z stderr P")->text.empty());
  CHECK(!parse_log_line("2026-11-21T07:40:25.1Z stderr P")->full);
  for (const char* bad : {"", "x", "2026-11-21T07:40:25Z", "2026-11-21T07:40:25Z stdout",
                          "2026-11-21T07:40:25Z stdout X y", "yesterday stdout F y"}) {
    CHECK(!parse_log_line(bad));
  }
}

TEST_CASE("a request for a log can select lines, limit the bytes, and ask for timestamps") {
  const Folder folder;
  write_text(folder.path() / "p/log.1", "2026-11-21T12:00:00.000000001Z stdout F one\n");
  write_text(folder.path() / "p/log",
             "2026-11-21T12:00:01.000000001Z stdout P tw\n2026-11-21T12:00:01.000000002Z stdout F o\n"
             "2026-11-21T12:00:02.000000001Z stderr F three\n2026-11-21T12:00:03.000000001Z stdout F unfini");
  CHECK(read_log(folder.path(), {}) == "one\ntwo\nthree\n");
  LogOptions stamps;
  stamps.timestamps = true;
  CHECK(read_log(folder.path(), stamps) ==
        "2026-11-21T12:00:00.000000001Z one\n2026-11-21T12:00:01.000000001Z "
        "two\n2026-11-21T12:00:02.000000001Z three\n");
  LogOptions tail;
  tail.tail_lines = 1;
  CHECK(read_log(folder.path(), tail) == "three\n");
  tail.tail_lines = 0;
  CHECK(read_log(folder.path(), tail).empty());
  LogOptions since;
  since.since = noon + std::chrono::seconds(2);
  CHECK(read_log(folder.path(), since) == "three\n");
  LogOptions limited;
  limited.limit_bytes = 5;
  CHECK(read_log(folder.path(), limited) == "one\nt");
  CHECK(read_log(folder.path() / "none", {}).empty());
}

TEST_CASE("a follower of a log gets new lines, also after a rotation, and stops when the pod has ended") {
  const Folder folder;
  write_text(folder.path() / "p/log", "2026-11-21T12:00:00.000000001Z stdout F 0\n");
  PodLogs logs(folder.path());
  std::atomic<bool> ended{false};
  std::atomic<int> seen{0};
  std::string text;
  std::thread reader([&] {
    LogOptions follow;
    follow.follow = true;
    logs.read(
        "p", follow,
        [&](std::string_view part) {
          text += part;
          seen += static_cast<int>(std::ranges::count(part, '\n'));
          return true;
        },
        [] { return true; }, [&] { return ended.load(); });
  });
  {
    LogFile file(folder.path() / "p/log", 200);  // a file holds a few lines
    LogStream out(file, "stdout");
    for (int i = 1; i <= 20; ++i) {
      out.feed(std::to_string(i) + "\n");
      logs.announce("p");
      // If a reader is two files behind the writer, it loses lines. So the writer waits for the reader here.
      for (int wait = 0; seen <= i && wait < 1000; ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ended = true;
  logs.announce("p");
  reader.join();
  std::string all;
  for (int i = 0; i <= 20; ++i) all += std::to_string(i) + "\n";
  CHECK(text == all);
}

TEST_CASE("a long line is divided in the log file, and joined again for the reader") {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / "p");
  const std::string line(40000, 'x');
  {
    LogFile file(folder.path() / "p/log", 1 << 20);
    LogStream out(file, "stdout");
    out.feed(line + "\nrest");
    out.finish();
  }
  CHECK(read_log(folder.path(), {}) == line + "\nrest\n");
  {
    LogFile file(folder.path() / "p/log", 100000);
    LogStream out(file, "stdout");
    for (int i = 0; i < 20; ++i) out.feed(line + "\n");
  }
  CHECK(std::filesystem::file_size(folder.path() / "p/log") +
            std::filesystem::file_size(folder.path() / "p/log.1") <
        150000);
}

TEST_CASE("each host has its own address, and keeps this address") {
  const Folder folder;
  std::set<std::string> seen;
  std::string first;
  {
    Addresses addresses(folder.path() / "a.json");
    first = addresses.address_of("default", "w-0");
    for (int i = 0; i < 3000; ++i)
      CHECK(seen.insert(addresses.address_of("default", "w-" + std::to_string(i))).second);
    addresses.save();
  }
  Addresses again(folder.path() / "a.json");
  CHECK(again.address_of("default", "w-0") == first);
  CHECK(again.address_of("other", "w-0") != first);
  CHECK(Addresses(folder.path() / "none.json").address_of("default", "w-0") == first);
}

TEST_CASE("port_of() returns another port if the wanted one is taken, and keeps it until forget_ports()") {
  const Folder folder;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in all{};
  all.sin_family = AF_INET;
  socklen_t size = sizeof all;
  REQUIRE(::bind(fd, reinterpret_cast<struct sockaddr*>(&all), sizeof all) == 0);
  REQUIRE(::listen(fd, 1) == 0);
  ::getsockname(fd, reinterpret_cast<struct sockaddr*>(&all), &size);
  const int taken = ntohs(all.sin_port);
  Addresses addresses(folder.path() / "a.json");
  const int first = addresses.port_of("default", "run", "run-worker-0", taken);
  CHECK(first != taken);
  ::close(fd);
  CHECK(addresses.port_of("default", "run", "run-worker-0", taken) == first);
  addresses.save();
  Addresses later(folder.path() / "a.json");
  CHECK(later.port_of("default", "run", "run-worker-0", taken) == first);
  later.forget_ports("default", "other");
  CHECK(later.port_of("default", "run", "run-worker-0", taken) == first);
  later.forget_ports("default", "run");
  CHECK(later.port_of("default", "run", "run-worker-0", taken) == taken);
  CHECK(later.port_of("default", "run", "run-worker-1", 1 << 20) == 1 << 20);
}

TEST_CASE("an address file that mlk has not written is ignored") {
  const Folder folder;
  for (const char* text :
       {"", "[]", R"({"default/w-0": 5, "ports": 7})", R"({"ports": {"default/run": {"x": "y"}}})"}) {
    CAPTURE(text);
    write_text(folder.path() / "a.json", text);
    Addresses addresses(folder.path() / "a.json");
    CHECK(addresses.address_of("default", "w-0").starts_with("127."));
  }
}
