#include "cli/kube/log_follower.h"

#include <atomic>

#include <doctest/doctest.h>

#include "tests/unit/kube/followed_log.h"

TEST_SUITE_BEGIN("kube/log_follower");

using namespace mlk::kube;
using namespace mlk::kube::samples;
using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

TEST_CASE("a follower reconnects without losing or repeating a line, and ends with the container") {
  LogServer logs;
  logs.answers = {{stamp("01", "a") + stamp("02", "b"), "cut"},
                  {stamp("02", "b") + stamp("02", "c")},  // this stream ends in good order, but too early
                  {stamp("02", "b") + stamp("02", "c") + stamp("03", "d"), "cut"},
                  {stamp("03", "d") + stamp("03", "e")}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {.tail_lines = 7}, lines.sink(), quick_follower());
  follower.update(pod_with("waiting"));
  CHECK(logs.seen().empty());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get() == Texts{"a", "b", "c", "d"}; }));
  CHECK_FALSE(follower.finished());
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  CHECK(lines.get() == Texts{"a", "b", "c", "d", "e"});
  const Texts seen = logs.seen();
  REQUIRE(seen.size() == 4);
  CHECK(seen[0] == "timestamps=true&container=main&follow=true&tailLines=7");
  CHECK(seen[1] == "timestamps=true&container=main&follow=true&sinceTime=2026-11-21T07%3A40%3A02Z");
  CHECK(seen[3] == "timestamps=true&container=main&sinceTime=2026-11-21T07%3A40%3A03Z");
}

TEST_CASE("a follower reconnects after the shortest wait if the broken stream had delivered lines") {
  LogServer logs;
  for (int second = 11; second < 41; ++second) {
    const std::string now = std::to_string(second), before = std::to_string(second - 1);
    logs.answers.push_back({stamp(before, before) + stamp(now, now), "cut"});
  }
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  CHECK(drive(follower, pod_with("running"), [&] { return lines.get().size() == 31; }));
}

TEST_CASE(
    "a follower with `since` = 0 requests the log of the last second, because the API accepts no less") {
  LogServer logs;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {.since = std::chrono::seconds(0)}, lines.sink(),
                       quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return !logs.seen().empty(); }));
  CHECK(logs.seen()[0] == "timestamps=true&container=main&follow=true&sinceSeconds=1");
}

TEST_CASE("a follower first reads the previous incarnation's log to the end if the container was restarted") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")}, {stamp("01", "a") + stamp("01", "b")}, {stamp("01", "fresh"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return lines.get().size() == 1; }));
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return lines.get().size() == 3; }));
  CHECK(lines.get() == Texts{"a", "b", "fresh"});
  CHECK(logs.seen()[1].find("previous=true") != std::string::npos);
  CHECK(logs.seen()[2] == "timestamps=true&container=main&follow=true");
}

TEST_CASE("a follower reopens a silent stream, also after the container has ended") {
  LogServer logs;
  logs.answers = {{stamp("01", "a"), "stay"},
                  {stamp("01", "a") + stamp("02", "b"), "stay"},
                  {stamp("02", "b") + stamp("02", "c")}};
  logs.repeat_last = true;  // on a slow machine the stream may be silent more often
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.silence = times.linger = milliseconds(1000);  // long enough for a busy machine to answer
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 2; }));
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  CHECK(lines.get() == Texts{"a", "b", "c"});
}

TEST_CASE("a follower turns lines without a time into notes, and keeps the position in the log") {
  const std::string full = "failed to create fsnotify watcher: too many open files\n";
  LogServer logs;
  logs.answers = {
      {stamp("01.1", "a") + stamp("01.2", "b") + full},
      {stamp("01.1", "a") + stamp("01.2", "b") + stamp("01.3", "c")},
      {stamp("01.1", "a") + stamp("01.2", "b") + stamp("01.3", "c") + stamp("02.1", "d"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.poll = milliseconds(10);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 4; }));
  CHECK(lines.get() == Texts{"a", "b", "c", "d"});
  CHECK(follower.notes() ==
        Texts{"it is out of inotify instances, so its logs are asked for again and again"});
  CHECK(follower.problem().empty());
  const Texts seen = logs.seen();
  CHECK(seen[0].find("follow=true") != std::string::npos);
  CHECK(seen[1].find("follow") == std::string::npos);  // the node cannot follow, so the follower polls it
}

TEST_CASE("when a follower reopens the log, it leaves out the end of a line that was already delivered") {
  LogServer logs;
  logs.answers = {{stamp("02", "b")},
                  {"rest of a long line\n" + stamp("02", "b") + stamp("03", "c"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 2; }));
  CHECK(lines.get() == Texts{"b", "c"});
  CHECK(follower.notes().empty());
}

TEST_CASE("if a node cannot follow a log, a follower asks the node again after the time `follow_again`") {
  LogServer logs;
  logs.answers = {
      {"failed to create fsnotify watcher: too many open files\n"}, {""}, {stamp("01.1", "a"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.poll = milliseconds(10);
  times.follow_again = milliseconds(0);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() == 1; }));
  for (const std::string& target : logs.seen()) CHECK(target.find("follow=true") != std::string::npos);
}

TEST_CASE("a follower gives a note if the node has rotated the log between two streams") {
  LogServer logs;
  logs.answers = {{stamp("01.1", "a") + stamp("01.2", "b")}, {stamp("05.1", "c"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 3; }));
  CHECK(follower.notes() == Texts{"it has rotated the log of p: lines may be missing"});
}

TEST_CASE("a container's state is treated as missing if it has fields of wrong types") {
  LogServer logs;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  for (const char* status :
       {R"({"name": 3})", R"({"name": "main", "restartCount": "x", "state": [1]})", "7",
        R"({"name": "main", "restartCount": 18446744073709551615, "state": {"waiting": 1}})"}) {
    follower.update({{"status", {{"containerStatuses", {json::parse(status)}}}}});
    follower.update({{"status", {{"containerStatuses", json::parse(status)}}}});
    follower.update({{"status", json::parse(status)}});
  }
  CHECK_FALSE(follower.finished());
}

TEST_CASE("a follower can be destroyed while it reads") {
  LogServer logs;
  logs.answers.assign(20, {stamp("01", "a"), "stay"});
  Client client(logs.start());
  for (int i = 0; i < 10; ++i) {
    Lines lines;
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
    follower.update(pod_with("running"));
    if (i % 2 == 0) REQUIRE(eventually([&] { return !lines.get().empty(); }));
  }
}

namespace {

// A reader that has room for `most` lines.
struct FullReader {
  Lines lines;
  std::atomic<std::size_t> most = 2;
  std::atomic<bool> refused = false;

  LogFollower::Reader reader() {
    LogFollower::Reader out = lines.sink();
    out.room = [this] {
      const bool room = lines.get().size() < most;
      refused = refused || !room;
      return room;
    };
    return out;
  }
};

}  // namespace

TEST_CASE(
    "a follower continues at the line for which there was no room, also if the container was restarted") {
  LogServer logs;
  const std::string first = stamp("01", "a") + stamp("01", "b") + stamp("02", "c");
  logs.answers = {
      {first, "stay"}, {first}, {stamp("02", "c") + stamp("03", "d")}, {stamp("04", "fresh"), "stay"}};
  Client client(logs.start());
  FullReader full;
  LogFollower follower(client, "n", "p", "main", {}, full.reader(), quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return full.refused.load(); }));
  follower.resume();  // there is no room
  follower.update(pod_with("running"));
  CHECK(logs.seen().size() == 1);
  CHECK(full.lines.get() == Texts{"a", "b"});

  full.most = 9;
  REQUIRE(eventually([&] {
    follower.resume();
    return full.lines.get().size() == 3;
  }));
  CHECK(logs.seen()[1] == "timestamps=true&container=main&follow=true&sinceTime=2026-11-21T07%3A40%3A01Z");
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return full.lines.get().size() == 5; }));
  CHECK(full.lines.get() == Texts{"a", "b", "c", "d", "fresh"});
  CHECK(logs.seen()[2].find("previous=true") != std::string::npos);
}

TEST_CASE("a follower delivers the end of a line once if the line began before the requested time") {
  LogServer logs;
  logs.answers = {{"46%\n", "stay"},
                  {"46%\n", "cut"},
                  {"47%\n" + stamp("01", "a"), "cut"},
                  {"48%\n" + stamp("01", "a") + stamp("02", "b"), "stay"}};
  Client client(logs.start());
  FullReader full;
  full.most = 0;
  LogFollower follower(client, "n", "p", "main", {.since = std::chrono::seconds(60)}, full.reader(),
                       quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return full.refused.load(); }));
  full.most = 9;
  REQUIRE(drive(follower, pod_with("running"), [&] { return full.lines.get().size() >= 3; }));
  CHECK(full.lines.get() == Texts{"46%", "a", "b"});
  CHECK(follower.notes().empty());
}

TEST_CASE("a follower delivers the rest of the previous incarnation's log when the reader has room again") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")},
                  {stamp("01", "a") + stamp("02", "b") + stamp("02", "c")},
                  {stamp("02", "b") + stamp("02", "c")},
                  {stamp("04", "fresh"), "stay"}};
  Client client(logs.start());
  FullReader full;
  LogFollower follower(client, "n", "p", "main", {}, full.reader(), quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return full.lines.get().size() == 1; }));
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return full.refused.load(); }));
  full.most = 9;
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return full.lines.get().size() == 4; }));
  CHECK(full.lines.get() == Texts{"a", "b", "c", "fresh"});
}

TEST_CASE("a container has no log if its pod ended before the container started") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")}};
  Client client(logs.start());
  for (const char* phase : {"Failed", "Succeeded"}) {
    for (const bool waits : {false, true}) {
      Lines lines;
      LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
      json pod = waits ? pod_with("waiting") : json{{"status", json::object()}};
      pod["status"]["phase"] = phase;
      follower.update(pod);
      CHECK(follower.finished());
    }
  }
  Lines lines;
  LogFollower begun(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  json pod = pod_with("waiting", 1, true);
  pod["status"]["phase"] = "Failed";
  begun.update(pod);
  CHECK_FALSE(begun.finished());
  pod = pod_with("waiting");
  pod["status"]["phase"] = "Running";
  begun.update(pod);
  CHECK_FALSE(begun.finished());
  CHECK(logs.seen().empty());
  pod = pod_with("terminated");
  pod["status"]["phase"] = "Failed";
  REQUIRE(drive(begun, pod, [&] { return begun.finished(); }));
  CHECK(lines.get() == Texts{"a"});
}

TEST_CASE("a follower follows the log of an init container") {
  LogServer logs;
  logs.answers = {{stamp("01", "a"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "first", {}, lines.sink(), quick_follower());
  const json pod =
      json::parse(R"({"status": {"containerStatuses": [{"name": "main", "state": {"waiting": {}}}],
    "initContainerStatuses": [{"name": "first", "state": {"running": {}}}]}})");
  CHECK(drive(follower, pod, [&] { return lines.get() == Texts{"a"}; }));
  CHECK(logs.seen()[0] == "timestamps=true&container=first&follow=true");
}

TEST_CASE("a follower does not request logs of incarnations that the node no longer has") {
  for (const bool twice : {true, false}) {
    CAPTURE(twice);
    LogServer logs;
    logs.answers = {{stamp("01", "a")}, {stamp("05", "fresh"), "stay"}};
    Client client(logs.start());
    Lines lines;
    LogFollower follower(client, "n", "p", "main", {.tail_lines = 3}, lines.sink(), quick_follower());
    follower.update(pod_with("running"));
    REQUIRE(eventually([&] { return lines.get().size() == 1; }));
    const json later = twice ? pod_with("running", 2, true) : pod_with("running", 1, false);
    REQUIRE(drive(follower, later, [&] { return lines.get().size() == 2; }));
    CHECK(lines.get() == Texts{"a", "fresh"});
    CHECK(logs.seen()[1] == "timestamps=true&container=main&follow=true");  // from the start of the new log
  }
}

TEST_CASE("a finished follower continues if its container is restarted") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")}, {stamp("01", "a")}, {stamp("05", "fresh"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  follower.update(pod_with("terminated"));
  CHECK(logs.seen().size() == 1);
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return lines.get().size() == 2; }));
  CHECK_FALSE(follower.finished());
  CHECK(lines.get() == Texts{"a", "fresh"});
  CHECK(logs.seen()[1].find("previous=true") != std::string::npos);
}

TEST_CASE("a follower reads the previous incarnation's log again if the stream broke") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")},
                  {stamp("01", "a") + stamp("02", "b"), "cut"},
                  {stamp("02", "b") + stamp("02", "c")},
                  {stamp("05", "fresh"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return lines.get().size() == 1; }));
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return lines.get().size() == 4; }));
  CHECK(lines.get() == Texts{"a", "b", "c", "fresh"});
}

TEST_CASE("notes() returns each message of a node once, and at most twenty messages") {
  std::string said = "\n";  // an empty line gives no note
  for (int i = 0; i < 25; ++i) said += "sentence " + std::to_string(i) + "\nsentence 0\n";
  LogServer logs;
  logs.answers = {{said + stamp("01", "a"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get() == Texts{"a"}; }));
  const Texts notes = follower.notes();
  REQUIRE(notes.size() == 20);
  CHECK(notes.front() == "it says of the log: sentence 0");
  CHECK(notes.back() == "it says of the log: sentence 19");
}
