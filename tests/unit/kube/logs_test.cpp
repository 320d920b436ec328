#include "cli/kube/logs.h"

#include <atomic>
#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/access.h"
#include "tests/unit/kube/fake_server.h"

using namespace mlk::kube;
using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

namespace {

json pod_with(const std::string& state, int restarts = 0, bool before = false) {
  json status = {{"name", "main"}, {"restartCount", restarts}, {"state", {{state, json::object()}}}};
  if (before) status["lastState"] = {{"terminated", json::object()}};
  return {{"status", {{"containerStatuses", {{{"name", "other"}}, status}}}}};
}

// The n-th request for a log gets answers[n]; "stay" keeps it open, "cut" breaks it.
struct LogServer {
  struct Answer {
    std::string text;
    std::string then{};
    int status = 200;
  };
  std::vector<Answer> answers;
  bool repeat_last = false;
  std::mutex mutex;
  Texts targets;
  FakeServer server;  // last: its handlers use all of the above

  Config start() {
    server.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      Answer now{"", "stay"};
      {
        const std::lock_guard lock(mutex);
        if (targets.size() < answers.size()) {
          now = answers[targets.size()];
        } else if (repeat_last) {
          now = answers.back();
        }
        targets.push_back(request.target.substr(request.target.find('?') + 1));
      }
      if (now.status != 200)
        return answer(response, now.status, status_body(now.status, "BadRequest", now.text));
      response.set_chunked_content_provider("text/plain", [this, now](std::size_t, httplib::DataSink& sink) {
        if (!now.text.empty()) sink.write(now.text.data(), now.text.size());
        if (now.then == "stay") server.hang();
        if (now.then.empty()) sink.done();
        return now.then.empty();
      });
    });
    return server.start();
  }
  Texts seen() {
    const std::lock_guard lock(mutex);
    return targets;
  }
};

struct Lines {
  std::mutex mutex;
  Texts texts;
  LogFollower::Reader sink() {
    return {.line = [this](const LogLine& line) {
      const std::lock_guard lock(mutex);
      texts.push_back(line.text);
    }};
  }
  Texts get() {
    const std::lock_guard lock(mutex);
    return texts;
  }
};

LogTimes quick_follower() {
  LogTimes times;
  times.first_wait = milliseconds(10);
  times.longest_wait = milliseconds(2000);
  return times;
}

// Keeps telling the follower about the pod until it is so.
bool drive(LogFollower& follower, const json& pod, const std::function<bool()>& condition) {
  return eventually([&] {
    follower.update(pod);
    return condition();
  });
}

std::string stamp(const std::string& second, const std::string& text) {
  return "2026-11-21T07:40:" + second + "Z " + text + "\n";
}

}  // namespace

TEST_CASE("a line of a log is a time and a text") {
  const auto line = parse_log_line("2026-11-21T07:40:25.000000001Z  two  blanks ");
  REQUIRE(line);
  CHECK(line->text == " two  blanks ");
  CHECK(mlk::format_time(line->time) == "2026-11-21T07:40:25Z");
  CHECK(parse_log_line("2026-11-21T07:40:25Z ")->text.empty());
  CHECK_FALSE(parse_log_line("plain text"));
  CHECK_FALSE(parse_log_line(""));
}

TEST_CASE("of a line that rewrites itself, as a progress bar does, its last state is shown") {
  CHECK(last_rewrite("") == "");
  CHECK(last_rewrite("plain") == "plain");
  CHECK(last_rewrite("from windows\r") == "from windows");
  CHECK(last_rewrite("\r 1%\r 50%\r100%") == "100%");
  CHECK(last_rewrite(" 1%\r 50%\r\r") == " 50%");
  CHECK(last_rewrite("\r\r") == "");
  const std::string stamp = "2026-11-21T07:40:25Z ";
  const auto lines = parse_log(stamp + "1%\r2%\rmlk step=3\n" + stamp + "next\nno time\rat all");
  REQUIRE(lines.size() == 2);  // without a time it is none of the program's
  CHECK(lines[0].text == "mlk step=3");
  CHECK(lines[1].text == "next");
}

TEST_CASE("coming back, as many lines of the last second are skipped as are known") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    auto line = parse_log_line("2026-11-21T07:40:" + text);
    return position.take(*line);
  };
  CHECK_FALSE(position.since());
  CHECK(take("01.1Z a"));
  CHECK(take("02.1Z b"));
  CHECK(take("02.2Z c"));
  position.resume();
  CHECK(mlk::format_time(*position.since()) == "2026-11-21T07:40:02Z");
  CHECK_FALSE(take("02.1Z b"));
  CHECK_FALSE(take("02.2Z c"));
  CHECK(take("02.3Z d"));
  position.resume();
  CHECK_FALSE(take("02.1Z b"));
  CHECK(take("05.0Z e"));  // the log was rotated meanwhile: nothing new is lost
  CHECK(take("05.1Z f"));
}

TEST_CASE("coming back, no line is doubled or lost after the node's clock was set back") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    auto line = parse_log_line("2026-11-21T07:40:" + text);
    return position.take(*line);
  };
  for (const char* line : {"03.1Z a", "04.1Z b", "05.1Z c", "05.2Z d", "04.2Z e"}) CHECK(take(line));
  position.resume();
  CHECK(mlk::format_time(*position.since()) == "2026-11-21T07:40:04Z");
  for (const char* line : {"04.1Z b", "05.1Z c", "05.2Z d", "04.2Z e"}) CHECK_FALSE(take(line));
  CHECK(take("04.3Z f"));
  CHECK(take("05.3Z g"));
  position.resume();
  CHECK_FALSE(take("05.1Z c"));
  CHECK_FALSE(take("05.2Z d"));
  CHECK_FALSE(take("05.3Z g"));
  CHECK(take("05.4Z h"));
}

TEST_CASE("a log is read at once, with its options") {
  LogServer logs;
  logs.answers = {{stamp("01", "one") + stamp("02", "") + "without a time\n" + stamp("03", "last")},
                  {"waiting to start", "", 400}};
  Client client(logs.start());
  const auto lines =
      read_log(client, "n", "p", {.container = "main", .tail_lines = 5, .previous = true, .limit_bytes = 99});
  REQUIRE(lines.size() == 3);  // what has no time is the kubelet's
  CHECK(lines[0].text == "one");
  CHECK(lines[1].text.empty());
  CHECK(lines[2].text == "last");
  CHECK(logs.seen()[0] == "timestamps=true&container=main&tailLines=5&previous=true&limitBytes=99");
  try {
    read_log(client, "n", "p");
    FAIL("no error");
  } catch (const ApiError& error) {
    CHECK(error.status() == 400);
    CHECK(std::string(error.what()) == "log of pods/p in namespace n: waiting to start");
  }
}

TEST_CASE(
    "a follower comes back after breaks without losing or repeating a line, and ends with the container") {
  LogServer logs;
  logs.answers = {{stamp("01", "a") + stamp("02", "b"), "cut"},
                  {stamp("02", "b") + stamp("02", "c")},  // an orderly end that is none
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

TEST_CASE("after each break of a log that had said something the wait is as short as after the first") {
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

TEST_CASE("who wants a log from now on asks for its last second: the API knows no smaller number") {
  LogServer logs;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {.since = std::chrono::seconds(0)}, lines.sink(),
                       quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return !logs.seen().empty(); }));
  CHECK(logs.seen()[0] == "timestamps=true&container=main&follow=true&sinceSeconds=1");
}

TEST_CASE("a container that was restarted is read to the end of its last life first") {
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

TEST_CASE("a silent stream is opened anew, and one that lingers after the end is left") {
  LogServer logs;
  logs.answers = {{stamp("01", "a"), "stay"},
                  {stamp("01", "a") + stamp("02", "b"), "stay"},
                  {stamp("02", "b") + stamp("02", "c")}};
  logs.repeat_last = true;  // a slow machine may find it silent more often
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.silence = times.linger = milliseconds(1000);  // long enough for a busy machine to answer
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 2; }));
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  CHECK(lines.get() == Texts{"a", "b", "c"});
}

TEST_CASE("lines without a time are told as the node's, and count for nothing when the log is opened again") {
  const std::string full = "failed to create fsnotify watcher: too many open files\n";
  LogServer logs;
  logs.answers = {{stamp("01.1", "a") + stamp("01.2", "b") + full}, {stamp("01.1", "a") + stamp("01.2", "b") + stamp("01.3", "c")},
                  {stamp("01.1", "a") + stamp("01.2", "b") + stamp("01.3", "c") + stamp("02.1", "d"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.poll = milliseconds(10);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 4; }));
  CHECK(lines.get() == Texts{"a", "b", "c", "d"});
  CHECK(follower.notes() == Texts{"it is out of inotify instances, so its logs are asked for again and again"});
  CHECK(follower.problem().empty());
  const Texts seen = logs.seen();
  CHECK(seen[0].find("follow=true") != std::string::npos);
  CHECK(seen[1].find("follow") == std::string::npos);  // the node cannot: it is asked again and again
}

TEST_CASE("a node that could not follow is asked to follow again after a time") {
  LogServer logs;
  logs.answers = {{"failed to create fsnotify watcher: too many open files\n"}, {""}, {stamp("01.1", "a"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.poll = milliseconds(10);
  times.follow_again = milliseconds(0);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() == 1; }));
  for (const std::string& target : logs.seen()) CHECK(target.find("follow=true") != std::string::npos);
}

TEST_CASE("a log that was rotated between two streams is told") {
  LogServer logs;
  logs.answers = {{stamp("01.1", "a") + stamp("01.2", "b")}, {stamp("05.1", "c"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() >= 3; }));
  CHECK(follower.notes() == Texts{"it has rotated the log of p: lines may be missing"});
}

TEST_CASE("what people read of a failing log is the same for all pods of a node") {
  LogServer logs;
  logs.answers = {{R"(Get \"https://10.0.0.1:10250/containerLogs/n/p/main?follow=true\": dial tcp: refused)", "", 500}};
  logs.repeat_last = true;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return !follower.problem().empty(); }));
  CHECK(follower.problem() == "dial tcp: refused");
}

TEST_CASE("a refused log says why, and a pod that is gone ends the follower") {
  LogServer logs;
  logs.answers = {{"container is waiting to start", "", 400}, {"pods not found", "", 404}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return !follower.problem().empty(); }));
  CHECK(follower.problem() == "container is waiting to start");
  REQUIRE(drive(follower, pod_with("running"), [&] { return follower.finished(); }));
  CHECK(follower.problem().find("pods not found") != std::string::npos);
}

TEST_CASE("a log that its node has no more ends the follower of a container that has ended") {
  LogServer logs;
  logs.answers = {{"previous terminated container not found", "", 400}};
  logs.repeat_last = true;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  CHECK(follower.problem().find("not found") != std::string::npos);
  CHECK(logs.seen().size() == 1);
}

TEST_CASE("a container's state of wrong types counts as none") {
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

TEST_CASE("access is asked for several things at once, and the answers keep their order") {
  FakeServer server;
  std::mutex mutex;
  json spec;
  server.http->Post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    [&](const httplib::Request& request, auto& response) {
                      const json body = json::parse(request.body);
                      const json& attributes = body["spec"]["resourceAttributes"];
                      const std::lock_guard lock(mutex);
                      if (attributes["resource"] == "jobs") spec = attributes;
                      answer(response, 201,
                             json({{"status", {{"allowed", attributes["resource"] == "jobs"}}}}).dump());
                    });
  server.http->Post("/apis/authentication.k8s.io/v1/selfsubjectreviews", [](const auto&, auto& response) {
    answer(response, 201, R"({"status":{"userInfo":{"username":"jane","groups":["g"]}}})");
  });
  Client client(server.start());
  CHECK(
      may_all(client, "n",
              {{"create", resources::pods}, {"create", resources::jobs}, {"get", resources::pods, "log"}}) ==
      std::vector<bool>{false, true, false});
  CHECK(may(client, "n", "create", resources::jobs));
  CHECK(spec == json({{"verb", "create"},
                      {"group", "batch"},
                      {"version", "v1"},
                      {"resource", "jobs"},
                      {"namespace", "n"}}));
  CHECK(whoami(client).name == "jane");
  CHECK(whoami(client).groups == Texts{"g"});
}

TEST_CASE("access is asked for another user in that one's name, and in no other request") {
  FakeServer server;
  std::mutex mutex;
  Texts names;
  server.http->Post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    [&](const httplib::Request& request, auto& response) {
                      const std::lock_guard lock(mutex);
                      names.push_back(request.get_header_value("Impersonate-User"));
                      answer(response, 201, R"({"status":{"allowed":true}})");
                    });
  Client client(server.start());
  const std::vector<AccessQuestion> many(20, {"create", resources::pods});
  CHECK(may_all(client, "n", many, "system:serviceaccount:n:a") == std::vector<bool>(20, true));
  CHECK(names == Texts(20, "system:serviceaccount:n:a"));
  names.clear();
  CHECK(may(client, "n", "create", resources::jobs));
  CHECK(names == Texts{""});
}

TEST_CASE("an old cluster is refused by its version") {
  FakeServer server;
  std::string version = R"({"major":"1","minor":"30+","gitVersion":"v1.30.1-gke"})";
  server.http->Get("/version", [&](const auto&, auto& response) { answer(response, 200, version); });
  Client client(server.start());
  const ServerVersion old = server_version(client);
  CHECK(old.minor == 30);
  CHECK(old.text == "v1.30.1-gke");
  try {
    require_version(old, 1, 31);
    FAIL("no error");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()) == "cluster runs Kubernetes 1.30; mlk needs 1.31 or newer");
    CHECK(error.code() == mlk::ExitCode::cluster);
  }
  require_version({1, 31, ""}, 1, 31);
  require_version({2, 0, ""}, 1, 31);
  version = R"({"hello":"world"})";
  CHECK_THROWS_AS(server_version(client), ApiError);
}

namespace {

// Takes so many lines and no more.
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
    "a log that was let go for lack of room goes on where it was, also after the container was restarted") {
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

TEST_CASE("what is left of a container's last life is read when there is room again") {
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
