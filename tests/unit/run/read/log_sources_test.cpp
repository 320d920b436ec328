// Tests which logs are read for a run, and how the last lines of a rank are distributed among its logs.
#include "cli/run/read/log_sources.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("run/read/log_sources");

namespace mlk {
namespace {

using json = nlohmann::json;

json pod_with_log(const std::string& role, int index, const json& annotations = json::object()) {
  const std::string name = role + "-" + std::to_string(index);
  json pod = {{"metadata",
               {{"name", name},
                {"uid", "uid-" + name},
                {"labels", {{"mlk.dev/role", role}}},
                {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}}}}},
              {"spec", {{"nodeName", "n" + std::to_string(index)}, {"containers", {{{"name", "main"}}}}}},
              {"status", {{"phase", "Running"}}}};
  pod["metadata"]["annotations"].update(annotations);
  return pod;
}

std::vector<std::string> chosen(const std::vector<json>& pods, const LogFilter& filter = {}) {
  std::vector<std::string> out;
  for (const auto& [source, pod] : choose_sources(pods, filter))
    out.push_back(source.who.pod + "/" + source.container);
  return out;
}

using Chosen = std::vector<std::string>;

TEST_CASE("the source of a log names the role, rank and attempt of the pod") {
  const std::vector<json> pods = {
      pod_with_log("worker", 1,
                   {{"mlk.dev/trials", "4-6"},
                    {"batch.kubernetes.io/job-index-failure-count", "2"},
                    {"batch.kubernetes.io/job-index-ignored-failure-count", "1"}})};
  const auto sources = choose_sources(pods, {});
  REQUIRE(sources.size() == 1);
  const LogSource& source = sources[0].first;
  CHECK(source.who.role == "worker");
  CHECK(source.who.rank == 5);  // the number of the trial in its sweep
  CHECK(source.who.attempt == 4);
  CHECK(source.who.pod == "worker-1");
  CHECK(source.who.uid == "uid-worker-1");
  CHECK(source.who.container.empty());
  CHECK(source.container == "main");
  CHECK(source.node == "n1");
  CHECK(sources[0].second == &pods[0]);
  const RunLogLine line = line_of(source, Time{} + std::chrono::seconds(3), "said");
  CHECK(line.pod == "worker-1");
  CHECK(line.attempt == 4);
  CHECK(line.time == Time{} + std::chrono::seconds(3));
  CHECK(line.text == "said");
}

TEST_CASE(
    "logs are chosen by role, by rank and by container, in the order of "
    "the pods") {
  std::vector<json> pods = {pod_with_log("worker", 1), pod_with_log("server", 0), pod_with_log("worker", 0)};
  CHECK(chosen(pods) == Chosen{"worker-1/main", "server-0/main", "worker-0/main"});
  CHECK(chosen(pods, {.role = "worker"}) == Chosen{"worker-1/main", "worker-0/main"});
  CHECK(chosen(pods, {.rank = 0}) == Chosen{"server-0/main", "worker-0/main"});
  CHECK(chosen(pods, {.role = "worker", .rank = 0}) == Chosen{"worker-0/main"});
  CHECK(chosen(pods, {.rank = 2}).empty());
  CHECK(chosen(pods, {.role = "chief"}).empty());
  pods[0]["spec"]["containers"].push_back({{"name", "agent"}});
  CHECK(chosen(pods, {.container = "agent"}) == Chosen{"worker-1/agent"});
  CHECK(choose_sources(pods, {.container = "agent"}).at(0).first.who.container == "agent");
  CHECK(chosen(pods, {.container = "main"}).size() == 3);
  CHECK(chosen({}).empty());
}

TEST_CASE("container_names() lists the containers of the programs first") {
  std::vector<json> pods = {pod_with_log("worker", 0), pod_with_log("worker", 1), pod_with_log("server", 0)};
  pods[0]["spec"]["containers"].push_back({{"name", "agent"}});
  pods[1]["spec"]["containers"].push_back({{"name", "agent"}});
  pods[2]["spec"]["containers"] = {{{"name", "serve"}}};
  CHECK(container_names(pods) == Chosen{"main", "serve", "agent"});
  CHECK(container_names({}).empty());
}

TEST_CASE("two logs share a rank if they have the same role and the same rank number") {
  const auto source = [](const char* role, int rank, int attempt) {
    LogSource one;
    one.who.role = role;
    one.who.rank = rank;
    one.who.attempt = attempt;
    return one;
  };
  CHECK(shares_rank({source("worker", 0, 1), source("server", 0, 1), source("worker", 1, 1)}) ==
        std::vector<bool>{false, false, false});
  CHECK(shares_rank({source("worker", 0, 1), source("server", 0, 1), source("worker", 0, 2)}) ==
        std::vector<bool>{true, false, true});
  CHECK(shares_rank({}).empty());
  const std::vector<LogSource> three = {source("worker", 0, 1), source("worker", 0, 2),
                                        source("server", 0, 1)};
  CHECK(tails_of(three, {5, 5, 5}, 5) == std::vector<long>{0, 5, 5});
  CHECK(tails_of(three, {5, 4, 5}, 5) == std::vector<long>{1, 5, 5});
  CHECK(tails_of(three, {5, 6, 5}, 5) == std::vector<long>{0, 5, 5});
  CHECK(tails_of(three, {5, 0, 5}, 0) == std::vector<long>{0, 0, 0});
  CHECK(tails_of({}, {}, 5).empty());
}

}  // namespace
}  // namespace mlk
