// Controllers that a test plays on its own cluster.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "cli/util/text.h"
#include "tests/unit/fake_cluster.h"

namespace mlk::test {

// Plays the Job controllers: ends every Job of a run as soon as the Job exists, with a pod that reports a
// result or has a log.
class PlayedControllers {
 public:
  static constexpr int runs_on = -1;

  // `code`: the exit code of the trial with that learning rate; runs_on: the trial runs until its Job is
  // suspended. `log`: the output of the program of the trial with that learning rate. If `log` is given, the
  // trials leave no result. `ended`: the time at which all trials have ended.
  PlayedControllers(FakeCluster& cluster, std::function<int(double lr)> code,
                    std::function<std::string(double lr)> log = {},
                    std::string ended = "2026-11-23T10:00:05Z")
      : cluster_(cluster),
        code_(std::move(code)),
        log_(std::move(log)),
        ended_(std::move(ended)),
        thread_([this] {
          while (!done_) {
            step();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~PlayedControllers() {
    done_ = true;
    thread_.join();
  }

  // Answers a request for the log of a pod. The test passes this function to FakeCluster::before().
  std::optional<local::Answer> answer(const local::Request& asked) {
    const std::size_t end = asked.path.find("-worker-0-abcde/log");
    if (!log_ || asked.method != "GET" || end == std::string::npos) return std::nullopt;
    const std::size_t begin = asked.path.find("/pods/") + 6;
    const json owner = cluster_.ask("GET", config_maps_path + "/" + asked.path.substr(begin, end - begin));
    local::Answer out;
    out.status = 200;
    for (const std::string& line : split(log_(rate_of(owner)), '\n'))
      out.body += "2026-11-23T10:00:01.0Z " + line + "\n";
    return out;
  }

 private:
  using json = nlohmann::json;

  static double rate_of(const json& owner) {
    return json::parse(owner["data"]["experiment"].get<std::string>())["train"]["optimizer"]["lr"];
  }

  void step() {
    // Reads the store directly, since 50 requests a second would need more processor time than the tested
    // code.
    for (const local::Object& job : cluster_.store.list("jobs", "default")) play(*job);
  }

  void play(const json& job) {
    const std::string name = job["metadata"]["name"], run = job["metadata"]["labels"]["mlk.dev/run"];
    const std::string role = job["metadata"]["labels"].value("mlk.dev/role", "");
    if (role == "driver" || role == "trial") return;  // a Job of a sweep, not of a run
    const std::string pod_name = pod_of(run, "")["metadata"]["name"];
    if (job["spec"].value("suspend", false)) {
      if (cluster_.has("pods", pod_name))
        cluster_.ask("DELETE", pods_path + "/" + pod_name, {{"gracePeriodSeconds", 0}});
      return;
    }
    if (job["status"].contains("conditions")) return;
    const json owner = cluster_.ask("GET", config_maps_path + "/" + run);
    if (!owner.contains("data")) return;
    const double lr = rate_of(owner);
    const int code = code_(lr);
    json pod = pod_of(run, code == runs_on ? "Running" : code == 0 ? "Succeeded" : "Failed");
    pod["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"];
    const json running = {{"running", {{"startedAt", "2026-11-23T10:00:00Z"}}}};
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", code == runs_on ? running : json{{"terminated", end_of(code, lr)}}}}};
    if (!cluster_.has("pods", pod_name)) {
      cluster_.store.create("pods", pod);
    } else if (code != runs_on) {  // the trial has run until now
      cluster_.store.modify("pods", "default", pod_name,
                            [&](json& there) { there["status"] = pod["status"]; });
    }
    if (code != runs_on)
      cluster_.ask("PATCH", jobs_path + "/" + name + "/status", {{"status", status_of(code)}},
                   "application/merge-patch+json");
  }

  json end_of(int code, double lr) const {
    const json result = {
        {"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", 1 - lr}}}, {"done", code == 0}};
    return {{"exitCode", code},
            {"message", code != 0 ? "broken"
                        : log_    ? ""
                                  : result.dump()},
            {"startedAt", "2026-11-23T10:00:00Z"},
            {"finishedAt", ended_}};
  }

  json status_of(int code) const {
    json status = {{"conditions",
                    {{{"type", code == 0 ? "Complete" : "Failed"},
                      {"status", "True"},
                      {"reason", code == 0 ? "SuccessPolicy" : "PodFailurePolicy"},
                      {"lastTransitionTime", ended_}}}}};
    status[code == 0 ? "completedIndexes" : "failedIndexes"] = "0";
    return status;
  }

  FakeCluster& cluster_;
  const std::function<int(double lr)> code_;
  const std::function<std::string(double lr)> log_;
  const std::string ended_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace mlk::test
