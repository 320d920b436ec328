// A run of a few plain objects. A test changes one value of these objects at a time.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "cli/run/state/status.h"

namespace mlk::test {

using json = nlohmann::json;

inline const Time now = *parse_time("2026-01-03T12:00:00Z");

// A run of three workers and a server. All four are running.
struct Run {
  RunObjects objects;

  Run() {
    objects.owner = {{"metadata",
                      {{"name", "r"},
                       {"uid", "owner-uid"},
                       {"creationTimestamp", "2026-01-03T11:00:00Z"},
                       {"labels", {{"mlk.dev/run", "r"}, {"mlk.dev/name", "exp"}, {"mlk.dev/mode", "ps"}}},
                       {"annotations", {{"mlk.dev/roles", R"({"worker":3,"server":1})"}}}}}};
    for (const auto& [role, count] : {std::pair{"worker", 3}, {"server", 1}}) {
      objects.jobs.push_back(
          {{"metadata",
            {{"name", std::string("r-") + role},
             {"uid", std::string("uid-of-") + role},
             {"labels", {{"mlk.dev/run", "r"}, {"mlk.dev/role", role}}}}},
           {"spec", {{"completions", count}, {"parallelism", count}, {"backoffLimitPerIndex", 3}}},
           {"status", {{"startTime", "2026-01-03T11:00:00Z"}}}});
      for (int rank = 0; rank < count; ++rank) add_pod(role, rank);
    }
  }

  json& add_pod(const std::string& role, int rank, const std::string& created = "2026-01-03T11:00:01Z") {
    const std::string name =
        "r-" + role + "-" + std::to_string(rank) + "-" + std::to_string(objects.pods.size());
    objects.pods.push_back(
        {{"metadata",
          {{"name", name},
           {"uid", name},
           {"creationTimestamp", created},
           {"labels", {{"batch.kubernetes.io/job-name", "r-" + role}, {"mlk.dev/role", role}}},
           {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)}}}}},
         {"spec", {{"nodeName", "n1"}, {"containers", {{{"name", "main"}, {"image", "image:1"}}}}}},
         {"status",
          {{"phase", "Running"},
           {"containerStatuses",
            {{{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-01-03T11:00:02Z"}}}}}}}}}}});
    return objects.pods.back();
  }
  json& job(const std::string& role = "worker") { return objects.jobs.at(role == "worker" ? 0 : 1); }
  json& pod(int rank) { return objects.pods.at(static_cast<std::size_t>(rank)); }
  json& server() { return objects.pods.at(3); }
  void fail(json& pod, int code, const std::string& at = "2026-01-03T11:59:55Z") {
    pod["status"] = {
        {"phase", "Failed"},
        {"containerStatuses",
         {{{"name", "main"},
           {"state",
            {{"terminated",
              {{"exitCode", code}, {"startedAt", "2026-01-03T11:00:02Z"}, {"finishedAt", at}}}}}}}}};
  }
  void finish(json& pod) {
    fail(pod, 0);
    pod["status"]["phase"] = "Succeeded";
  }
  void pending(json& pod, bool scheduled = true) {
    pod["status"] = {{"phase", "Pending"}};
    if (!scheduled) pod["spec"].erase("nodeName");
  }
  void condition(const std::string& type, const std::string& reason = "Because",
                 const std::string& role = "worker") {
    job(role)["status"]["conditions"].push_back({{"type", type},
                                                 {"status", "True"},
                                                 {"reason", reason},
                                                 {"message", "in words"},
                                                 {"lastTransitionTime", "2026-01-03T11:58:00Z"}});
  }
  void stop() { objects.owner["metadata"]["annotations"][annotations::stopped] = "2026-01-03T11:30:00Z"; }

  RunStatus observed(Time at = now) const { return observe(objects, at); }
  std::string phase() const { return std::string(to_string(observed().phase)); }
  std::string why() const { return observed().why; }
  std::string state(std::size_t rank) const { return observed().ranks.at(rank).state; }
};

inline Failure failure(int rank, const std::string& message = "") {
  Failure one;
  one.role = "worker";
  one.rank = rank;
  one.message = message;
  return one;
}

}  // namespace mlk::test
