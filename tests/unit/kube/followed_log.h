// Pods with a container "main", and a receiver for the lines of the log of that container.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cli/kube/log_follower.h"
#include "tests/unit/kube/log_server.h"

namespace mlk::kube::samples {

// A pod with the containers "other" and "main"; `state` is the state of "main".
inline json pod_with(const std::string& state, int restarts = 0, bool before = false) {
  json status = {{"name", "main"}, {"restartCount", restarts}, {"state", {{state, json::object()}}}};
  if (before) status["lastState"] = {{"terminated", json::object()}};
  return {{"status", {{"containerStatuses", {{{"name", "other"}}, status}}}}};
}

// The lines that a follower delivered.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> texts;
  LogFollower::Reader sink() {
    return {.line = [this](const LogLine& line) {
      const std::lock_guard lock(mutex);
      texts.push_back(line.text);
    }};
  }
  std::vector<std::string> get() {
    const std::lock_guard lock(mutex);
    return texts;
  }
};

// Short waits, so that a test is quick.
inline LogTimes quick_follower() {
  LogTimes times;
  times.first_wait = std::chrono::milliseconds(10);
  times.longest_wait = std::chrono::milliseconds(2000);
  return times;
}

// Updates the follower with the pod until the condition is true.
inline bool drive(LogFollower& follower, const json& pod, const std::function<bool()>& condition) {
  return eventually([&] {
    follower.update(pod);
    return condition();
  });
}

}  // namespace mlk::kube::samples
