// The objects of a run, as the API server gives them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"

namespace mlk {

// Everything of one run, as the API server gives it. Jobs, pods and events in any order.
struct RunObjects {
  nlohmann::json owner;
  std::vector<nlohmann::json> jobs, pods, events;
  std::map<std::string, MetricsLine> lines{};  // the newest line of each log that was read, by the pod's uid
  std::map<std::string, std::string>
      endings{};  // more of the end of a log than the pod's status has, likewise
  std::map<std::string, std::string>
      last_words{};  // the end of the logs of containers beside main that failed, by last_words_key()
  std::map<std::string, nlohmann::json> nodes{};  // those that were read, by name; null: there is none
  bool service_is_gone = false;                   // it was looked for
};

// Of RunObjects::last_words.
std::string last_words_key(const std::string& pod_uid, const std::string& container);

}  // namespace mlk
