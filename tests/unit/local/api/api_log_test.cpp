// The requests for the log of a pod: refused requests, and the effects of the options.
#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_log");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const std::string log_path = pods + "/p/log";

// A cluster with a pod that runs and has printed four lines, the first two before noon.
struct Talking {
  Cluster cluster;
  std::string uid;

  Talking() {
    uid = cluster.ask("POST", pods, pod_without_job()).at("metadata").at("uid");
    cluster.store.modify("pods", "default", "p", [](json& pod) {
      pod["spec"]["nodeName"] = "local";
      pod["status"] = R"({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]})"_json;
    });
    say("2026-11-21T11:59:58.900000000Z stdout F one\n2026-11-21T11:59:59.500000000Z stderr F two\n"
        "2026-11-21T12:00:00.000000000Z stdout F three\n2026-11-21T12:00:01.250000000Z stdout F four\n");
  }
  void say(const std::string& lines) const {
    const std::filesystem::path file = cluster.folder.path() / "pods" / uid / "log";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::app) << lines;
  }
  std::string read(const std::string& query) {
    const Answer answer = cluster.send("GET", log_path + query);
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "text/plain");
    CHECK(answer.body.empty());
    REQUIRE(answer.stream);
    std::string text;
    answer.stream({[&](std::string_view part) {
                     text += part;
                     return true;
                   },
                   [] { return true; }});
    return text;
  }
  void end() {
    cluster.store.modify("pods", "default", "p", [](json& pod) {
      pod["status"]["containerStatuses"][0]["state"] = R"({"terminated": {"exitCode": 0}})"_json;
    });
  }
};

TEST_CASE("a request reads the whole log, or only the part that tailLines or limitBytes selects") {
  Talking talking;
  CHECK(talking.read("") == "one\ntwo\nthree\nfour\n");
  CHECK(talking.read("?container=main") == "one\ntwo\nthree\nfour\n");
  CHECK(talking.read("?tailLines=2") == "three\nfour\n");
  CHECK(talking.read("?tailLines=0") == "");
  CHECK(talking.read("?limitBytes=5") == "one\nt");
  CHECK(talking.read("?tailLines=1&timestamps=true") == "2026-11-21T12:00:01.250000000Z four\n");
  CHECK(talking.read("?timestamps=false&limitBytes=1") == "o");
}

TEST_CASE("a log can be read from a given time (sinceTime), or for the last seconds (sinceSeconds)") {
  Talking talking;
  CHECK(talking.read("?sinceSeconds=1") == "two\nthree\nfour\n");
  CHECK(talking.read("?sinceSeconds=2") == "one\ntwo\nthree\nfour\n");
  CHECK(talking.read("?sinceTime=2026-11-21T12:00:00Z") == "three\nfour\n");
  CHECK(talking.read("?sinceTime=2026-11-21T12:00:01.9Z") == "four\n");
  CHECK(talking.read("?sinceTime=2026-11-21T12:00:02Z") == "");
}

TEST_CASE("invalid options of a log request are refused with the right messages") {
  Talking talking;
  Cluster& cluster = talking.cluster;
  const auto refused = [&](const std::string& query) { return cluster.ask("GET", log_path + query); };
  const auto bad = [](const std::string& message) {
    return json{{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
                {"status", "Failure"}, {"message", message}, {"reason", "BadRequest"},
                {"code", 400}};
  };
  const auto invalid_option = [](const std::string& field, const std::string& message) {
    return json{{"kind", "Status"},
                {"apiVersion", "v1"},
                {"metadata", json::object()},
                {"status", "Failure"},
                {"message", "PodLogOptions \"p\" is invalid: " + field + ": " + message},
                {"reason", "Invalid"},
                {"code", 422},
                {"details",
                 {{"name", "p"},
                  {"kind", "PodLogOptions"},
                  {"causes", {{{"reason", "FieldValueInvalid"}, {"message", message}, {"field", field}}}}}}};
  };
  CHECK(refused("?container=side") == bad("container side is not valid for pod p"));
  CHECK(refused("?previous=1") == bad("previous terminated container \"main\" in pod \"p\" not found"));
  for (const std::string name : {"tailLines", "limitBytes", "sinceSeconds"}) {
    CHECK(refused("?" + name + "=-1") == bad("invalid value for " + name + ": \"-1\""));
    CHECK(refused("?" + name + "=x") == bad("invalid value for " + name + ": \"x\""));
  }
  CHECK(refused("?sinceTime=noon") == bad("unable to parse sinceTime: \"noon\""));
  CHECK(refused("?limitBytes=0") == invalid_option("limitBytes", "Invalid value: 0: must be greater than 0"));
  CHECK(refused("?sinceSeconds=0") ==
        invalid_option("sinceSeconds", "Invalid value: must be greater than 0"));
  CHECK(refused("?sinceSeconds=5&sinceTime=2026-11-21T12:00:00Z") ==
        invalid_option("sinceSeconds", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
  CHECK(cluster.ask("GET", pods + "/none/log").at("message") == "pods \"none\" not found");
  CHECK(cluster.ask("PUT", log_path).at("code") == 405);
}

TEST_CASE("the log of a pod is refused with the reason if the pod waits to start on its node") {
  Talking talking;
  Cluster& cluster = talking.cluster;
  const auto why = [&](const json& status) {
    cluster.store.modify("pods", "default", "p", [&](json& pod) { pod["status"] = status; });
    return cluster.ask("GET", log_path);
  };
  const std::string waits = "container \"main\" in pod \"p\" is waiting to start: ";
  const json creating = {{"kind", "Status"},
                         {"apiVersion", "v1"},
                         {"metadata", json::object()},
                         {"status", "Failure"},
                         {"message", waits + "ContainerCreating"},
                         {"reason", "BadRequest"},
                         {"code", 400}};
  CHECK(why(R"({"phase": "Pending"})"_json) == creating);
  CHECK(why(R"({"containerStatuses": [{"state": {"waiting": {}}}]})"_json) == creating);
  CHECK(
      why(R"({"containerStatuses": [{"state": {"waiting": {"reason": "NoVolume"}}}]})"_json).at("message") ==
      waits + "NoVolume");
  cluster.store.modify("pods", "default", "p", [](json& pod) { pod["spec"].erase("nodeName"); });
  const Answer nothing = cluster.send("GET", log_path);
  CHECK(nothing.status == 200);
  CHECK(nothing.content_type == "text/plain");
  CHECK(nothing.body.empty());
  CHECK_FALSE(nothing.stream);
}

TEST_CASE("a follower of a log gets lines until the pod ends, is deleted, or is replaced by another pod") {
  for (const char* how : {"ended", "gone", "replaced", "stopped"}) {
    CAPTURE(how);
    Talking talking;
    const Answer answer = talking.cluster.send("GET", log_path + "?follow=true");
    REQUIRE(answer.stream);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::atomic<bool> begun{false}, abandoned{false};
    std::string text;
    std::thread client([&] {
      answer.stream({[&](std::string_view part) {
                       text += part;
                       begun = true;
                       return true;
                     },
                     [&] {
                       if (std::chrono::steady_clock::now() > give_up) abandoned = true;
                       return !abandoned;
                     }});
    });
    while (!begun) std::this_thread::yield();
    talking.say("2026-11-21T12:00:05.000000000Z stdout F five\n");
    const std::string end = how;
    if (end == "ended") talking.end();
    if (end == "gone") talking.cluster.store.remove("pods", "default", "p");
    if (end == "replaced")
      talking.cluster.store.modify("pods", "default", "p", [](json& pod) { pod["metadata"]["uid"] = "new"; });
    if (end == "stopped") talking.cluster.api.stop();
    talking.cluster.logs.announce(talking.uid);
    client.join();
    CHECK_FALSE(abandoned);
    CHECK(text.starts_with("one\ntwo\nthree\nfour\n"));
    if (end != "stopped") CHECK(text.substr(19) == "five\n");
  }
}

}  // namespace
}  // namespace mlk::local
