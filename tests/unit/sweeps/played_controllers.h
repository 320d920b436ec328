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
  // `code`: of the trial with that learning rate.
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
  void step() {
    const nlohmann::json jobs = cluster_.ask("GET", jobs_path);
    for (const nlohmann::json& job : jobs["items"]) {
      const std::string name = job["metadata"]["name"], run = job["metadata"]["labels"]["mlk.dev/run"];
      if (job["metadata"]["labels"]["mlk.dev/role"] == "trial") continue;  // its indexes are trials
      if (job["status"].contains("conditions") || job["spec"].value("suspend", false)) continue;
      const nlohmann::json owner = cluster_.ask("GET", config_maps_path + "/" + run);
      if (!owner.contains("data")) continue;
      const nlohmann::json experiment = nlohmann::json::parse(owner["data"]["experiment"].get<std::string>());
      const double lr = experiment["train"]["optimizer"]["lr"];
      const int code = code_(lr);
      nlohmann::json pod = pod_of(run, code == 0 ? "Succeeded" : "Failed");
      pod["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"];
      const nlohmann::json result = {
          {"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", 1 - lr}}}, {"done", code == 0}};
      pod["status"]["containerStatuses"] = {{{"name", "main"},
                                             {"state",
                                              {{"terminated",
                                                {{"exitCode", code},
                                                 {"message", code == 0 ? result.dump() : "broken"},
                                                 {"finishedAt", "2026-11-23T10:00:05Z"}}}}}}};
      if (!cluster_.has("pods", pod["metadata"]["name"])) cluster_.store.create("pods", pod);
      nlohmann::json status = {{"conditions",
                                {{{"type", code == 0 ? "Complete" : "Failed"},
                                  {"status", "True"},
                                  {"reason", code == 0 ? "SuccessPolicy" : "PodFailurePolicy"},
                                  {"lastTransitionTime", "2026-11-23T10:00:06Z"}}}}};
      status[code == 0 ? "completedIndexes" : "failedIndexes"] = "0";
      cluster_.ask("PATCH", jobs_path + "/" + name + "/status", {{"status", status}},
                   "application/merge-patch+json");
    }
  }

  FakeCluster& cluster_;
  const std::function<int(double lr)> code_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace mlk::test
