// What a sweep will take, and what there is room for, before it starts. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/render/render.h"
#include "sweeps/start.h"

namespace mlk::sweeps {

// By resource: cores, bytes, devices.
using Amounts = std::map<std::string, double>;

// Pods that are alike.
struct PodNeed {
  int count = 1;
  Amounts requests, limits;
  std::map<std::string, std::string> node_labels;  // that its node must have
  nlohmann::json tolerations;                      // as in a pod
};

// What one trial needs while it runs.
struct TrialNeed {
  std::vector<PodNeed> pods;

  int pod_count() const;
  double requested(const std::string& resource) const;  // of all its pods
  double gpus() const;                                  // of any vendor
};

// Of the Jobs among a run's objects.
TrialNeed need_of(const Rendered& rendered);

// Trials that need the same.
struct TrialGroup {
  TrialNeed need;
  int trials = 0;
};
// Of these points. Throws Error{usage} for one that cannot be run, and the one of `check_interrupted`.
std::vector<TrialGroup> groups_of(const StartRequest& request, const SubmitHooks& hooks,
                                  const std::vector<Point>& points);

struct Cost {
  double cpu_hours = 0, gpu_hours = 0,
         hours = 0;  // the last one: from the first trial's start to the last end
};
// Of trials that take so many minutes each, `parallel` at a time.
Cost cost_of(const std::vector<TrialGroup>& groups, double minutes, int parallel);

// How many trials there is room for at a time, and what there is too little of for more.
struct Room {
  int trials = 0;
  std::string limit;  // "requests.cpu of quota team: 6 of 8 used"; empty when all fit
};

// What ResourceQuotas leave, for at most `most` trials; nothing when none of them counts what trials need.
// One with scopes counts only some pods: it is left out.
std::optional<Room> room_in_quotas(const std::vector<nlohmann::json>& quotas, const TrialNeed& need,
                                   int most);

// What the nodes leave, less what their pods request; one after another, each pod on the first node that has
// room. Nodes that are cordoned, or tainted in a way that the pods do not tolerate, are left out.
Room room_on_nodes(const std::vector<nlohmann::json>& nodes, const std::vector<nlohmann::json>& pods,
                   const TrialNeed& need, int most);

// "2.5", "512 MiB": for people.
std::string text_of_amount(const std::string& resource, double amount);

}  // namespace mlk::sweeps
