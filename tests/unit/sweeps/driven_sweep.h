// A driven sweep as the API server gives it. The test plays the driver of this sweep and the Job controller.
#pragma once

#include <stdexcept>
#include <string>

#include "cli/run/facts/labels.h"
#include "sweeps/space/ledger.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/sweep_row.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/fake_cluster.h"

namespace mlk::test {

using nlohmann::json;

// A sweep of two trials. The trials are registered, but not started yet.
struct DrivenSweep {
  sweeps::SweepObjects objects;

  DrivenSweep() {
    objects.owner = owner_of("s-abcde", "s");
    json& metadata = objects.owner["metadata"];
    metadata["uid"] = "u";
    metadata["labels"]["mlk.dev/sweep"] = "s-abcde";
    metadata["annotations"][annotations::roles] = R"({"trial": 2})";
    objects.owner["data"]["sweep"] =
        R"({"objective": {"maximize": "accuracy"}, "trials": 2, "max_failures": 0, "driven": true})";
    std::string points;
    for (int i = 0; i < 2; ++i) points += json{{"trial", i}, {"parameters", {{"lr", i}}}}.dump() + "\n";
    objects.config_maps.push_back(
        {{"metadata", {{"name", "s-abcde-trials-0"}}}, {"data", {{"points.jsonl", points}}}});
  }

  static std::string run_name(int number) {
    return sweeps::trial_run("s-abcde", sweeps::hash_of(sweeps::Point{{"lr", number}}));
  }
  // Starts a run for the trial. Without `pod_phase` the run has no pod, so the trial waits.
  void start(int number, const std::string& pod_phase = "") {
    const std::string run = run_name(number);
    json owner = owner_of(run, "s"), job = job_of(run);
    owner["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"] = "s-abcde";
    owner["metadata"]["annotations"][annotations::trial] = std::to_string(number);
    owner["metadata"]["annotations"][annotations::roles] = R"({"worker": 1})";
    objects.config_maps.push_back(owner);
    objects.jobs.push_back(job);
    if (pod_phase.empty()) return;
    json pod = pod_of(run, pod_phase);
    pod["metadata"]["labels"]["mlk.dev/sweep"] = "s-abcde";
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-11-23T10:00:00Z"}}}}}}};
    objects.pods.push_back(pod);
  }
  json& job(int number) {
    for (json& job : objects.jobs) {
      if (job["metadata"]["labels"]["mlk.dev/run"] == run_name(number)) return job;
    }
    throw std::runtime_error("it has no Job");
  }
  // Writes the end of the trial's Job as the Job controller does.
  void end(int number, bool well) {
    job(number)["status"] = {{well ? "completedIndexes" : "failedIndexes", "0"},
                             {"conditions",
                              {{{"type", well ? "Complete" : "Failed"},
                                {"status", "True"},
                                {"reason", well ? "CompletionsReached" : "FailedIndexes"},
                                {"lastTransitionTime", "2026-11-23T10:01:00Z"}}}}};
    std::erase_if(objects.pods, [&](const json& pod) {
      return pod["metadata"]["labels"]["mlk.dev/run"] == run_name(number);
    });
  }
  void mark(const char* annotation, const std::string& value = "2026-11-23T10:00:00Z") {
    objects.owner["metadata"]["annotations"][annotation] = value;
  }
  // Adds the Job of a driver that has no pod yet.
  void add_driver() {
    json driver = job_of("s-abcde", "driver");
    driver["metadata"]["labels"]["mlk.dev/sweep"] = "s-abcde";
    objects.drivers.push_back(driver);
  }
  sweeps::SweepStatus status() const {
    return sweeps::observe_sweep(objects, std::chrono::system_clock::now());
  }
  RunStatus row() const {
    RunObjects of_sweep{objects.owner, objects.jobs, {}, {}, {}};
    return sweeps::row_of_sweep(of_sweep);
  }
};

}  // namespace mlk::test
