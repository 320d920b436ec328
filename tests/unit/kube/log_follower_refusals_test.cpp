// What a log follower does when the API server or the node refuses a log.
#include <doctest/doctest.h>

#include "cli/kube/log_follower.h"
#include "tests/unit/kube/followed_log.h"

TEST_SUITE_BEGIN("kube/log_follower_refusals");

using namespace mlk::kube;
using namespace mlk::kube::samples;
using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

namespace {

// The answer of an API server whose kubelet has not read its pods yet.
const LogServer::Answer without_pods{"the server could not find the requested resource ( pods/log p)", "",
                                     404};

}  // namespace

TEST_CASE("a 403 ends a follower only if it persists, since a starting API server refuses everything") {
  LogServer logs;
  logs.answers = {{"forbidden", "", 403}, {"forbidden", "", 403}, {stamp("01", "a")}, {"forbidden", "", 403}};
  logs.repeat_last = true;
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.longest_wait = milliseconds(10);
  times.refusal = milliseconds(1000);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("running"), [&] { return !follower.problem().empty(); }));
  CHECK_FALSE(follower.finished());
  REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get() == Texts{"a"}; }));
  REQUIRE(drive(follower, pod_with("running"), [&] { return follower.finished(); }));
  CHECK(follower.problem() == "forbidden");
}

TEST_CASE("a follower reports the deletion of a pod as a problem if the last stream broke") {
  for (const bool broke : {false, true}) {
    CAPTURE(broke);
    LogServer logs;
    logs.answers = {{stamp("01", "a"), broke ? "cut" : ""}, {R"(pods \"p\" not found)", "", 404}};
    Client client(logs.start());
    Lines lines;
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
    REQUIRE(drive(follower, pod_with("running"), [&] { return follower.finished(); }));
    CHECK(lines.get() == Texts{"a"});
    CHECK(follower.problem() == (broke ? "deleted with the pod" : ""));
  }
}

TEST_CASE("a follower continues after a restart of the kubelet, which does not know its pods at first") {
  for (const char* then : {"", "cut"}) {
    CAPTURE(then);
    LogServer logs;
    logs.answers = {
        {stamp("01", "a"), then}, without_pods, without_pods, {stamp("01", "a") + stamp("02", "b"), "stay"}};
    Client client(logs.start());
    Lines lines;
    LogTimes times = quick_follower();
    times.refusal = milliseconds(0);  // while the container runs, the follower waits for longer than this
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
    REQUIRE(drive(follower, pod_with("running"), [&] { return !follower.problem().empty(); }));
    REQUIRE(drive(follower, pod_with("running"), [&] { return lines.get().size() == 2; }));
    CHECK(lines.get() == Texts{"a", "b"});
    CHECK_FALSE(follower.finished());
    CHECK(follower.problem().empty());
  }
}

TEST_CASE("a follower retries for a while if the log is refused by a server that has just started") {
  for (const LogServer::Answer& refusal : {without_pods, LogServer::Answer{"forbidden", "", 403}}) {
    CAPTURE(refusal.text);
    LogServer logs;
    logs.answers = {refusal, {stamp("01", "the end")}};
    Client client(logs.start());
    Lines lines;
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
    REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
    CHECK(lines.get() == Texts{"the end"});
  }
  LogServer logs;
  logs.answers = {without_pods};
  logs.repeat_last = true;
  Client client(logs.start());
  Lines lines;
  LogTimes times = quick_follower();
  times.refusal = milliseconds(0);
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
  REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
  CHECK(follower.problem() == "the node does not know the pod");
}

TEST_CASE("problem() gives the reason of a refused log, and a deleted pod ends the follower") {
  LogServer logs;
  logs.answers = {{"container is waiting to start", "", 400}, {"pods not found", "", 404}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return !follower.problem().empty(); }));
  CHECK(follower.problem() == "container is waiting to start");
  REQUIRE(drive(follower, pod_with("running"), [&] { return follower.finished(); }));
  CHECK(follower.problem() == "deleted with the pod");
}

TEST_CASE("after the end of the container, a follower ends if the node no longer has the log") {
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

TEST_CASE("after the end of the container, a follower retries if the server is busy") {
  for (const int status : {429, 500, 503}) {
    LogServer logs;
    logs.answers = {{"too many requests", "", status}, {stamp("01", "the end")}};
    Client client(logs.start());
    Lines lines;
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
    REQUIRE(drive(follower, pod_with("terminated"), [&] { return follower.finished(); }));
    CHECK(lines.get() == Texts{"the end"});
  }
}

TEST_CASE("a missing log of the previous incarnation does not delay the next log") {
  LogServer logs;
  logs.answers = {{stamp("01", "a")},
                  {"previous terminated container not found", "", 400},
                  {stamp("05", "fresh"), "stay"}};
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  follower.update(pod_with("running"));
  REQUIRE(eventually([&] { return lines.get().size() == 1; }));
  REQUIRE(drive(follower, pod_with("running", 1, true), [&] { return lines.get().size() == 2; }));
  CHECK(logs.seen().size() == 3);
  CHECK(follower.problem().empty());
}

TEST_CASE("a follower requests the previous log again for a while if the node does not know the pod yet") {
  for (const bool patient : {true, false}) {
    CAPTURE(patient);
    LogServer logs;
    logs.answers = {{stamp("01", "a")}, without_pods};
    if (patient) logs.answers.push_back({stamp("01", "a") + stamp("02", "b")});
    logs.answers.push_back({stamp("05", "fresh"), "stay"});
    Client client(logs.start());
    Lines lines;
    LogTimes times = quick_follower();
    if (!patient) times.refusal = milliseconds(0);
    LogFollower follower(client, "n", "p", "main", {}, lines.sink(), times);
    follower.update(pod_with("running"));
    REQUIRE(eventually([&] { return lines.get().size() == 1; }));
    REQUIRE(drive(follower, pod_with("running", 1, true),
                  [&] { return !lines.get().empty() && lines.get().back() == "fresh"; }));
    CHECK(lines.get() == (patient ? Texts{"a", "b", "fresh"} : Texts{"a", "fresh"}));
  }
}

TEST_CASE("a follower ends if the server refuses the credentials") {
  LogServer logs;
  logs.answers = {{"Unauthorized", "", 401}};
  logs.repeat_last = true;
  Client client(logs.start());
  Lines lines;
  LogFollower follower(client, "n", "p", "main", {}, lines.sink(), quick_follower());
  REQUIRE(drive(follower, pod_with("running"), [&] { return follower.finished(); }));
  CHECK(follower.problem().find("does not accept the credentials of user \"researcher\"") !=
        std::string::npos);
}
