// A sweep whose trials are indexes of Jobs, as the API server gives it.
#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"
#include "sweeps/objects/objects.h"

namespace mlk::test {

using nlohmann::json;

// A sweep of four trials in one Job.
struct Sweep {
  sweeps::SweepObjects objects;

  Sweep() {
    objects.owner = {
        {"metadata",
         {{"name", "s-abcde"},
          {"uid", "u"},
          {"labels", {{"mlk.dev/run", "s-abcde"}, {"mlk.dev/sweep", "s-abcde"}, {"mlk.dev/name", "s"}}},
          {"annotations", json::object()}}},
        {"data", {{"sweep", R"({"objective": {"maximize": "accuracy"}, "trials": 4, "max_failures": 1})"}}}};
    std::string points;
    for (int i = 0; i < 4; ++i) points += json{{"trial", i}, {"parameters", {{"lr", i}}}}.dump() + "\n";
    add_map(0, points);
    objects.jobs.push_back(job(0, 4));
  }

  void add_map(int number, const std::string& points) {
    objects.config_maps.push_back({{"metadata", {{"name", "s-abcde-trials-" + std::to_string(number)}}},
                                   {"data", {{"points.jsonl", points}}}});
  }
  static json job(int number, int completions) {
    return {{"metadata",
             {{"name", "s-abcde-trials-" + std::to_string(number)},
              {"uid", "j"},
              {"labels", {{"mlk.dev/role", "trial"}}}}},
            {"spec", {{"completions", completions}, {"parallelism", 2}, {"backoffLimitPerIndex", 0}}},
            {"status", {{"startTime", "2026-11-23T10:00:00Z"}}}};
  }
  void add_pod(int index, const std::string& phase, const json& terminated = nullptr, int job = 0) {
    const std::string name = "s-abcde-trials-" + std::to_string(job);
    json pod = {{"metadata",
                 {{"name", name + "-" + std::to_string(index) + "-x"},
                  {"uid", "p" + std::to_string(index) + std::to_string(job)},
                  {"creationTimestamp", "2026-11-23T10:00:00Z"},
                  {"labels", {{"batch.kubernetes.io/job-name", name}, {"mlk.dev/role", "trial"}}},
                  {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}}}}},
                {"status", {{"phase", phase}, {"startTime", "2026-11-23T10:00:01Z"}}}};
    const json running = {{"running", {{"startedAt", "2026-11-23T10:00:01Z"}}}};
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", terminated.is_null() ? running : json{{"terminated", terminated}}}}};
    objects.pods.push_back(std::move(pod));
  }
  static json ended(int code, const std::string& message) {
    return {{"exitCode", code},
            {"message", message},
            {"reason", code == 0 ? "Completed" : "Error"},
            {"startedAt", "2026-11-23T10:00:01Z"},
            {"finishedAt", "2026-11-23T10:00:05Z"}};
  }
  static std::string result(double accuracy) {
    return json{{"schema", 1},
                {"step", 7},
                {"metrics", {{"accuracy", accuracy}}},
                {"curve", {{1, 0.5}, {7, 0.1}}},
                {"done", true}}
        .dump();
  }
  void finish(const char* type, const char* reason) {
    objects.jobs[0]["status"]["conditions"] = {{{"type", type},
                                                {"status", "True"},
                                                {"reason", reason},
                                                {"lastTransitionTime", "2026-11-23T10:01:00Z"}}};
  }
};

// The time at this second of the minute in which the Job of the sweep starts.
inline Time second_of(int second) {
  return *parse_time("2026-11-23T10:00:" + std::string(second < 10 ? "0" : "") + std::to_string(second) +
                     "Z");
}

}  // namespace mlk::test
