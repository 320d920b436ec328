#include "sweeps/start/preview.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/quantity.h"
#include "sweeps/space/trial_values.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr double rounding = 1e-6;  // quantities are decimal, but doubles are not

Amounts amounts_of(const json& resources) {
  Amounts out;
  if (!resources.is_object()) return out;
  for (const auto& [name, value] : resources.items()) out[name] = quantity_of(value).value_or(0);
  return out;
}

void add_amounts(Amounts& to, const Amounts& more) {
  for (const auto& [name, amount] : more) to[name] += amount;
}

// The requests of a container. If a resource has a limit and no request, the limit is also the request: the
// API server does the same.
Amounts requests_of(const json& container) {
  Amounts out = amounts_of(at_path(container, {"resources", "limits"}));
  for (const auto& [name, amount] : amounts_of(at_path(container, {"resources", "requests"})))
    out[name] = amount;
  return out;
}

Amounts requests_of_pod(const json& spec) {
  Amounts out;
  for (const json& container : at_path(spec, {"containers"})) add_amounts(out, requests_of(container));
  return out;
}

PodNeed need_of_pod(const json& spec, int count) {
  PodNeed out;
  out.count = count;
  out.requests = requests_of_pod(spec);
  for (const json& container : at_path(spec, {"containers"}))
    add_amounts(out.limits, amounts_of(at_path(container, {"resources", "limits"})));
  if (const json& selector = at_path(spec, {"nodeSelector"}); selector.is_object()) {
    for (const auto& [label, value] : selector.items())
      if (value.is_string()) out.node_labels[label] = value.get<std::string>();
  }
  out.tolerations = at_path(spec, {"tolerations"});
  return out;
}

// The needs of a trial, under the names that quotas use.
Amounts counted_by_quotas(const TrialNeed& need) {
  Amounts out;
  for (const PodNeed& pod : need.pods) {
    out["pods"] += pod.count;
    out["count/pods"] += pod.count;
    for (const auto& [name, amount] : pod.requests) {
      out["requests." + name] += pod.count * amount;
      if (name == "cpu" || name == "memory") out[name] += pod.count * amount;
    }
    for (const auto& [name, amount] : pod.limits) out["limits." + name] += pod.count * amount;
  }
  return out;
}

bool tolerates(const json& tolerations, const json& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const json& each) {
    const std::string key = text_of(each, {"key"}), effect = text_of(each, {"effect"});
    if (!effect.empty() && effect != text_of(taint, {"effect"})) return false;
    if (text_of(each, {"operator"}) == "Exists") return key.empty() || key == text_of(taint, {"key"});
    return key == text_of(taint, {"key"}) && text_of(each, {"value"}) == text_of(taint, {"value"});
  });
}

bool takes(const json& node, const PodNeed& pod) {
  if (at_path(node, {"spec", "unschedulable"}) == true) return false;
  for (const json& taint : at_path(node, {"spec", "taints"})) {
    if (text_of(taint, {"effect"}) != "PreferNoSchedule" && !tolerates(pod.tolerations, taint)) return false;
  }
  return std::all_of(pod.node_labels.begin(), pod.node_labels.end(),
                     [&](const auto& label) { return kube::label_of(node, label.first) == label.second; });
}

// The free resources of a node.
class FreeNode {
 public:
  explicit FreeNode(const json& node)
      : node_(node), free_(amounts_of(at_path(node, {"status", "allocatable"}))) {}

  void use(const Amounts& requests) {
    for (const auto& [name, amount] : requests) {
      const auto found = free_.find(name);
      if (found != free_.end()) found->second -= amount;
    }
    free_["pods"] -= 1;
  }
  bool fits(const PodNeed& pod) const {
    // A node that does not list a device has no such device. A node that does not list memory, as in the
    // embedded cluster, has enough memory.
    const auto left = [&](const std::string& name) {
      const bool device = name.find('/') != std::string::npos;
      const auto found = free_.find(name);
      return found != free_.end() ? found->second : device ? 0 : std::numeric_limits<double>::infinity();
    };
    return left("pods") >= 1 && takes(node_, pod) &&
           std::all_of(pod.requests.begin(), pod.requests.end(),
                       [&](const auto& request) { return left(request.first) >= request.second - rounding; });
  }

 private:
  const json& node_;
  Amounts free_;
};

// Whether there is room for all pods of a trial. Occupies the room, even if only some of the pods fit.
bool place(std::vector<FreeNode>& nodes, const TrialNeed& need) {
  for (const PodNeed& pod : need.pods) {
    for (int i = 0; i < pod.count; ++i) {
      const auto node =
          std::find_if(nodes.begin(), nodes.end(), [&](const FreeNode& each) { return each.fits(pod); });
      if (node == nodes.end()) return false;
      node->use(pod.requests);
    }
  }
  return true;
}

}  // namespace

int TrialNeed::pod_count() const {
  int out = 0;
  for (const PodNeed& pod : pods) out += pod.count;
  return out;
}

double TrialNeed::requested(const std::string& resource) const {
  double out = 0;
  for (const PodNeed& pod : pods) {
    const auto found = pod.requests.find(resource);
    if (found != pod.requests.end()) out += pod.count * found->second;
  }
  return out;
}

double TrialNeed::gpus() const {
  double out = 0;
  for (const PodNeed& pod : pods) {
    for (const auto& [name, amount] : pod.requests) {
      if (name.ends_with("/gpu")) out += pod.count * amount;
    }
  }
  return out;
}

TrialNeed need_of(const Rendered& rendered) {
  TrialNeed out;
  for (const json& object : rendered.objects) {
    if (object["kind"] == "Job")
      out.pods.push_back(need_of_pod(at_path(object, {"spec", "template", "spec"}),
                                     number_of(object, {"spec", "parallelism"}, 1)));
  }
  return out;
}

std::vector<TrialGroup> groups_of(const StartRequest& request, const SubmitHooks& hooks,
                                  const std::vector<Point>& points) {
  const Definition& definition = request.definition;
  const TemplateNames template_names = request.templates.names();
  const Experiments experiments(definition.base, definition.spec.space, template_names, request.file_context);
  std::map<std::string, TrialGroup> groups;
  std::size_t looked_at = 0;
  for (const Point& point : points) {
    if (looked_at++ % 256 == 0) hooks.check_interrupted();
    const Experiment experiment = experiments.of(point);
    json decides;  // the values that decide the pods and their number
    for (const char* key : {"mode", "roles", "parameters", "patch", "scheduling"})
      decides[key] = experiment.effective.value(key, json());
    const auto [group, is_new] = groups.try_emplace(json_text(decides));
    if (is_new)
      group->second.need =
          need_of(render(experiment, definition.files, request.templates, render_options(request)));
    ++group->second.trials;
  }
  std::vector<TrialGroup> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

Cost cost_of(const std::vector<TrialGroup>& groups, double minutes, int parallel) {
  Cost out;
  int trials = 0;
  const double hours = minutes / 60;
  for (const TrialGroup& group : groups) {
    out.cpu_hours += group.trials * group.need.requested("cpu") * hours;
    out.gpu_hours += group.trials * group.need.gpus() * hours;
    trials += group.trials;
  }
  out.hours = hours * std::ceil(static_cast<double>(trials) / std::max(1, parallel));
  return out;
}

std::optional<Room> room_in_quotas(const std::vector<json>& quotas, const TrialNeed& need, int most) {
  const Amounts counted = counted_by_quotas(need);
  std::optional<Room> out;
  for (const json& quota : quotas) {
    if (!at_path(quota, {"spec", "scopes"}).empty() || !at_path(quota, {"spec", "scopeSelector"}).empty())
      continue;
    const Amounts used = amounts_of(at_path(quota, {"status", "used"}));
    for (const auto& [resource, hard] : amounts_of(at_path(quota, {"status", "hard"}))) {
      const auto needed = counted.find(resource);
      if (needed == counted.end() || needed->second <= 0) continue;
      const auto found = used.find(resource);
      const double taken = found == used.end() ? 0 : found->second;
      const double fits = std::floor(std::max(0.0, hard - taken) / needed->second + rounding);
      if (!out) out = Room{most, ""};
      if (fits >= out->trials) continue;
      *out = {static_cast<int>(fits),
              fmt::format("{} of quota {}: {} of {} used", resource, kube::name_of(quota),
                          text_of_amount(resource, taken), text_of_amount(resource, hard))};
    }
  }
  return out;
}

Room room_on_nodes(const std::vector<json>& nodes, const std::vector<json>& pods, const TrialNeed& need,
                   int most) {
  std::vector<FreeNode> free(nodes.begin(), nodes.end());
  std::map<std::string, FreeNode*> by_name;
  for (std::size_t i = 0; i < nodes.size(); ++i) by_name[kube::name_of(nodes[i])] = &free[i];
  for (const json& pod : pods) {
    const std::string phase = text_of(pod, {"status", "phase"});
    const auto node = by_name.find(text_of(pod, {"spec", "nodeName"}));
    if (phase != "Succeeded" && phase != "Failed" && node != by_name.end())
      node->second->use(requests_of_pod(at_path(pod, {"spec"})));
  }
  Room out;
  while (out.trials < most && place(free, need)) ++out.trials;
  if (out.trials < most) out.limit = "CPUs, memory, devices or places for pods of the nodes";
  return out;
}

std::string text_of_amount(const std::string& resource, double amount) {
  const bool bytes = resource.ends_with("memory") || resource.ends_with("storage");
  if (!bytes) return fmt::format("{:.6g}", amount);
  constexpr double mebi = 1 << 20, gibi = 1 << 30;
  return amount >= gibi ? fmt::format("{:.4g} GiB", amount / gibi) : fmt::format("{:.4g} MiB", amount / mebi);
}

}  // namespace mlk::sweeps
