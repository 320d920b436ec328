// Controllers that a test plays on a cluster which it holds.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/unit/fake_cluster.h"

namespace mlk::test {

// Ends every Job of a run as soon as it is there, with a pod that tells a result; as the controllers would.
class PlayedControllers {
 public:
  static constexpr int runs_on = -1;

  // `code`: of the trial with that learning rate; runs_on: until its Job is suspended.
  PlayedControllers(FakeCluster& cluster, std::function<int(double lr)> code)
      : cluster_(cluster), code_(std::move(code)), thread_([this] {
          while (!done_) {
            step();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~PlayedControllers() {
    done_ = true;
    thread_.join();
  }

 private:
  using json = nlohmann::json;

  void step() {
    const json jobs = cluster_.ask("GET", jobs_path);
    for (const json& job : jobs["items"]) play(job);
  }

  void play(const json& job) {
    const std::string name = job["metadata"]["name"], run = job["metadata"]["labels"]["mlk.dev/run"];
    const std::string role = job["metadata"]["labels"].value("mlk.dev/role", "");
    if (role == "driver" || role == "trial") return;  // of a sweep, which is no run
    const std::string pod_name = pod_of(run, "")["metadata"]["name"];
    if (job["spec"].value("suspend", false)) {
      if (cluster_.has("pods", pod_name))
        cluster_.ask("DELETE", pods_path + "/" + pod_name, {{"gracePeriodSeconds", 0}});
      return;
    }
    if (job["status"].contains("conditions")) return;
    const json owner = cluster_.ask("GET", config_maps_path + "/" + run);
    if (!owner.contains("data")) return;
    const json experiment = json::parse(owner["data"]["experiment"].get<std::string>());
    const double lr = experiment["train"]["optimizer"]["lr"];
    const int code = code_(lr);
    json pod = pod_of(run, code == runs_on ? "Running" : code == 0 ? "Succeeded" : "Failed");
    pod["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"];
    if (code != runs_on)
      pod["status"]["containerStatuses"] = {
          {{"name", "main"}, {"state", {{"terminated", end_of(code, lr)}}}}};
    if (!cluster_.has("pods", pod_name)) cluster_.store.create("pods", pod);
    if (code != runs_on)
      cluster_.ask("PATCH", jobs_path + "/" + name + "/status", {{"status", status_of(code)}},
                   "application/merge-patch+json");
  }

  static json end_of(int code, double lr) {
    const json result = {
        {"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", 1 - lr}}}, {"done", code == 0}};
    return {{"exitCode", code},
            {"message", code == 0 ? result.dump() : "broken"},
            {"startedAt", "2026-11-23T10:00:00Z"},
            {"finishedAt", "2026-11-23T10:00:05Z"}};
  }

  static json status_of(int code) {
    json status = {{"conditions",
                    {{{"type", code == 0 ? "Complete" : "Failed"},
                      {"status", "True"},
                      {"reason", code == 0 ? "SuccessPolicy" : "PodFailurePolicy"},
                      {"lastTransitionTime", "2026-11-23T10:00:06Z"}}}}};
    status[code == 0 ? "completedIndexes" : "failedIndexes"] = "0";
    return status;
  }

  FakeCluster& cluster_;
  const std::function<int(double lr)> code_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace mlk::test
