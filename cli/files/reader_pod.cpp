#include "cli/files/reader_pod.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/containers.h"
#include "cli/render/evaluate.h"
#include "cli/render/helper.h"
#include "cli/render/mounts.h"
#include "cli/render/own.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes time_to_run{2};

// Whether the volume of a pod has files that mlk pull brings: outputs or checkpoints.
bool is_volume_with_files(const std::string& name) {
  return name == checkpoint_volume || name == outputs_volume;
}

json named_entries(const json& list, const std::function<bool(const std::string&)>& wanted) {
  json out = json::array();
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (wanted(text_of(each, {"name"}))) out.push_back(each);
  }
  return out;
}

// Why the container of the pod does not run yet, in Kubernetes' words.
std::string reason_of(const json& pod) {
  const json& statuses = at_path(pod, {"status", "containerStatuses"});
  for (const json& status : statuses.is_array() ? statuses : json::array()) {
    const json& waiting = at_path(status, {"state", "waiting"});
    const std::string reason = text_of(waiting, {"reason"}), message = text_of(waiting, {"message"});
    if (!reason.empty()) return reason + (message.empty() ? "" : ": " + message);
  }
  const json& conditions = at_path(pod, {"status", "conditions"});
  for (const json& condition : conditions.is_array() ? conditions : json::array()) {
    if (const std::string message = text_of(condition, {"message"}); !message.empty()) return message;
  }
  return text_of(pod, {"status", "phase"});
}

}  // namespace

const json* pod_with_helper(const std::vector<json>& pods) {
  const auto found = std::find_if(pods.begin(), pods.end(), [](const json& pod) {
    const json& volumes = at_path(pod, {"spec", "volumes"});
    return text_of(pod, {"status", "phase"}) == "Running" &&
           text_of(pod, {"metadata", "deletionTimestamp"}).empty() &&
           !named_entries(volumes, [](const std::string& name) { return name == pod_helper.volume; })
                .empty() &&
           !named_entries(volumes, is_volume_with_files).empty();
  });
  return found == pods.end() ? nullptr : &*found;
}

ReaderObjects render_reader(const json& owner, const json& pod_of_job, const std::string& name,
                            const Templates& templates) {
  json spec = at_path(pod_of_job, {"spec"});
  const json* program = main_container(spec);
  const json container = program == nullptr ? json::object() : *program;
  json volumes = named_entries(spec.value("volumes", json()), is_volume_with_files);
  json mounts = named_entries(container.value("volumeMounts", json()), is_volume_with_files);
  for (json& mount : mounts) mount["readOnly"] = true;
  constexpr int for_all_to_execute = 0555;
  volumes.push_back({{"name", std::string(pod_helper.volume)},
                     {"configMap", {{"name", name}, {"defaultMode", for_all_to_execute}}}});
  mounts.push_back({{"name", std::string(pod_helper.volume)},
                    {"mountPath", std::string(pod_helper.mount)},
                    {"readOnly", true}});
  const auto or_null = [](const json& object, const char* key) { return object.value(key, json()); };
  json scope = {{"run", kube::name_of(owner)}, {"namespace", or_null(owner["metadata"], "namespace")}};
  scope["reader"] = {{"name", name},
                     {"service_account", or_null(spec, "serviceAccountName")},
                     {"image_pull_secrets", or_null(spec, "imagePullSecrets")},
                     {"node_selector", or_null(spec, "nodeSelector")},
                     {"tolerations", or_null(spec, "tolerations")},
                     {"security", or_null(spec, "securityContext")},
                     {"image", or_null(container, "image")},
                     {"image_pull_policy", or_null(container, "imagePullPolicy")},
                     {"volumes", std::move(volumes)},
                     {"mounts", std::move(mounts)}};
  scope["helper"] = helper_scope(pod_helper);
  ReaderObjects out;
  out.pod = evaluate(*parse_template(templates, "shapes/reader.yaml"), scope);
  out.helper = evaluate(*parse_template(templates, "shapes/helper.yaml"), scope);
  out.helper["metadata"]["name"] = name;
  // Runs share the ConfigMap of a helper. This one is of the reader alone, and ends with it.
  out.helper["metadata"]["labels"].erase("mlk.dev/shared");
  out.helper["metadata"]["labels"]["mlk.dev/reader"] = kube::name_of(owner);
  out.helper["metadata"]["ownerReferences"] = owner_references(kube::name_of(owner), kube::uid_of(owner));
  return out;
}

ReaderPod::ReaderPod(kube::Client& client, std::string name_space, ReaderObjects objects,
                     const std::function<void(const std::string&)>& wait)
    : client_(client), name_space_(std::move(name_space)), name_(kube::name_of(objects.pod)) {
  const json helper = client_.create(kube::resources::config_maps, name_space_, objects.helper);
  exists_ = true;
  try {
    objects.pod["metadata"]["ownerReferences"] = owner_references(name_, kube::uid_of(helper));
    (void)client_.create(kube::resources::pods, name_space_, objects.pod);
    wait_until_it_runs(wait);
  } catch (...) {
    remove();
    throw;
  }
}

void ReaderPod::wait_until_it_runs(const std::function<void(const std::string&)>& wait) {
  const Clock::time_point end = Clock::now() + time_to_run;
  while (true) {
    const json pod = client_.get(kube::resources::pods, name_space_, name_);
    const std::string phase = text_of(pod, {"status", "phase"});
    if (phase == "Running") return;
    const std::string reason = printable(reason_of(pod));
    if (phase == "Failed" || phase == "Succeeded" || Clock::now() > end)
      throw Error(ExitCode::cannot_start,
                  fmt::format("pod {}, which reads the files, does not run: {}", name_, reason));
    wait(reason);
  }
}

ReaderPod::~ReaderPod() {
  if (exists_) remove();
}

void ReaderPod::remove() {
  exists_ = false;
  try {
    // The cluster deletes the pod with its owner. A pod that stays because this fails ends by itself.
    client_.remove(kube::resources::config_maps, name_space_, name_);
  } catch (const Error&) {
  }
}

}  // namespace mlk
