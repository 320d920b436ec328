// The resources that a sweep will need, and the room in the cluster, before the sweep starts. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/render/render.h"
#include "sweeps/start/start.h"

namespace mlk::sweeps {

// An amount for each resource: cores, bytes or devices.
using Amounts = std::map<std::string, double>;

// Pods with equal needs.
struct PodNeed {
  int count = 1;
  Amounts requests, limits;
  std::map<std::string, std::string> node_labels;  // labels that the node must have
  nlohmann::json tolerations;                      // as in a pod
};

// The needs of one running trial.
struct TrialNeed {
  std::vector<PodNeed> pods;

  int pod_count() const;
  double requested(const std::string& resource) const;  // of all pods of the trial
  double gpus() const;                                  // of any vendor
};

// The needs of a trial, from the Jobs among the objects of its run.
TrialNeed need_of(const Rendered& rendered);

// Trials with equal needs.
struct TrialGroup {
  TrialNeed need;
  int trials = 0;
};
// Groups these points by the needs of their trials. Throws Error{usage} for a point that cannot be run, and
// the exception of `check_interrupted`.
std::vector<TrialGroup> groups_of(const StartRequest& request, const SubmitHooks& hooks,
                                  const std::vector<Point>& points);

struct Cost {
  double cpu_hours = 0, gpu_hours = 0,
         hours = 0;  // `hours`: from the start of the first trial to the end of the last
};
// The cost, if each trial takes `minutes` and `parallel` trials run at a time.
Cost cost_of(const std::vector<TrialGroup>& groups, double minutes, int parallel);

// The number of trials that fit at a time, and the resource that limits this number.
struct Room {
  int trials = 0;
  std::string limit;  // "requests.cpu of quota team: 6 of 8 used"; empty if all fit
};

// The room that ResourceQuotas leave for at most `most` trials. nullopt if no quota limits a resource that
// trials need. Quotas with scopes are ignored, since they count only some pods.
std::optional<Room> room_in_quotas(const std::vector<nlohmann::json>& quotas, const TrialNeed& need,
                                   int most);

// The room that the existing `pods` leave on the nodes: each pod of a trial goes to the first node with room.
// Ignores nodes that are cordoned, lack a label that the pods of a trial need, or have a taint that these
// pods do not tolerate.
Room room_on_nodes(const std::vector<nlohmann::json>& nodes, const std::vector<nlohmann::json>& pods,
                   const TrialNeed& need, int most);

// "2.5", "512 MiB": for people.
std::string text_of_amount(const std::string& resource, double amount);

}  // namespace mlk::sweeps
