#include "cli/render/pod.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/values.h"
#include "cli/render/outputs.h"
#include "cli/render/packages.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

// MLK_SEEDS_* name at most this number of pods, and these pods tell the addresses of the others.
constexpr int most_seeds = 64;
constexpr char config_folder[] = "/etc/mlk/config";
constexpr char secret_folder[] = "/etc/mlk/secret";

// Leaves out an empty value, because the API server drops such a value, and submit compares the object in the
// answer with the object that it sent.
json variable(const std::string& name, const std::string& value) {
  json out = {{"name", name}};
  if (!value.empty()) out["value"] = value;
  return out;
}

json field(const std::string& name, const std::string& path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

std::string seeds(const std::string& run, const RoleInRun& role) {
  std::vector<std::string> addresses;
  for (int rank = 0; rank < std::min(role.size.count, most_seeds); ++rank) {
    addresses.push_back(pod_address(run, role.name, std::to_string(rank)));
  }
  return join(addresses, ",");
}

json user_variable(const std::string& name, const json& value) {
  if (value.is_string()) return variable(name, value.get<std::string>());
  const std::vector<std::string> reference = split(value["secret"].get<std::string>(), '/');
  return {{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", reference[0]}, {"key", reference[1]}}}}}};
}

// The number of threads of each computing process. Without OMP_NUM_THREADS, libraries start a thread for each
// processor of the node.
long long threads_of(const Experiment& experiment, const Role& size) {
  const long long processes = experiment.has_train ? 1 : size.processes;  // the runtime splits threads itself
  return std::max(1LL, cpu_millis(size.cpu).value_or(1000) / 1000 / processes);
}

void put(json& environment, json variable) {
  const auto same = std::find_if(environment.begin(), environment.end(),
                                 [&](const json& other) { return other["name"] == variable["name"]; });
  if (same == environment.end()) {
    environment.push_back(std::move(variable));
  } else {
    *same = std::move(variable);
  }
}

// Converts an entry of `data:`, or `checkpoint.volume`, to the source of a volume.
json volume_source(const json& entry, bool read_only) {
  if (entry.contains("pvc")) return {{"persistentVolumeClaim", {{"claimName", entry["pvc"]}}}};
  if (entry.contains("hostPath")) return {{"hostPath", {{"path", entry["hostPath"]}}}};
  if (entry.contains("configMap")) return {{"configMap", {{"name", entry["configMap"]}}}};
  if (entry.contains("emptyDir")) return {{"emptyDir", entry["emptyDir"]}};
  const char* kind = entry.contains("nfs") ? "nfs" : "csi";
  json source = entry[kind];
  if (read_only) source["readOnly"] = true;
  return {{kind, source}};
}

void add_volume(Volumes& out, const std::string& name, json source, const std::string& path, bool read_only) {
  source["name"] = name;
  out.volumes.push_back(std::move(source));
  json mount = {{"name", name}, {"mountPath", path}};
  if (read_only) mount["readOnly"] = true;
  out.mounts.push_back(std::move(mount));
}

void mark_codes(const std::vector<std::string>& rules, std::array<bool, 256>& codes, bool as) {
  for (const std::string& rule : rules) {
    if (rule == "preemption") continue;
    const std::vector<std::string> ends = split(rule, '-');
    const std::size_t first = rule == "any" ? 1 : std::stoul(ends.front());
    const std::size_t last = rule == "any" ? 255 : std::stoul(ends.back());
    for (std::size_t code = first; code <= last; ++code) codes[code] = as;
  }
}

}  // namespace

std::string pod_address(const std::string& run, const std::string& role, const std::string& rank) {
  return fmt::format("{0}-{1}-{2}.{0}:{3}", run, role, rank, pod_port);
}

std::string checkpoint_folder(const std::string& run, const std::string& owner_uid) {
  constexpr std::size_t uid_digits = 8;
  return owner_uid.empty() ? run : run + "-" + owner_uid.substr(0, uid_digits);
}

std::string run_path(const std::string& mount, const std::string& run, const std::string& owner_uid) {
  return fmt::format("{}/{}", mount, checkpoint_folder(run, owner_uid));
}

json pod_environment(const PodContext& context, const RoleInRun& role, const json& of_templates) {
  const Experiment& experiment = context.experiment;
  const json metrics = experiment.effective.value("metrics", json::object());
  json out = json::array();
  out.push_back(variable("MLK_RUN", context.run));
  out.push_back(variable("MLK_ROLE", role.name));
  out.push_back(field("MLK_RANK", "metadata.annotations['batch.kubernetes.io/job-completion-index']"));
  out.push_back(field("MLK_INCARNATION", "metadata.uid"));
  out.push_back(variable("MLK_ADDRESS", pod_address(context.run, role.name, "$(MLK_RANK)")));
  out.push_back(variable("MLK_WORLD_SIZE", std::to_string(role.size.count)));
  for (const RoleInRun& other : context.roles) {
    out.push_back(variable("MLK_COUNT_" + as_variable_name(other.name), std::to_string(other.size.count)));
    out.push_back(variable("MLK_SEEDS_" + as_variable_name(other.name), seeds(context.run, other)));
  }
  const json key = variable("MLK_SECRET", fmt::format("{}/key", secret_folder));
  if (experiment.has_train) {
    out.push_back(
        field("MLK_FAILURES", "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"));
    out.push_back(variable("MLK_CONFIG", fmt::format("{}/config.json", config_folder)));
    out.push_back(variable("MLK_DATA", experiment.effective["train"]["data"]["path"].get<std::string>()));
    out.push_back(key);
    const json& model = experiment.effective["train"]["model"];
    if (role.name == "worker" && model.contains("weights"))
      out.push_back(variable("MLK_WEIGHTS", model["weights"].get<std::string>()));
    if (role.name == "worker" && role.size.gpu > 0)
      out.push_back(variable("MLK_GPUS", std::to_string(role.size.gpu)));
  }
  if (context.key && !experiment.has_train) out.push_back(key);
  out.push_back(variable("OMP_NUM_THREADS", std::to_string(threads_of(experiment, role.size))));
  if (!experiment.has_train)
    out.push_back(variable("PYTHONUNBUFFERED", "1"));  // otherwise Python prints its lines late
  if (const PodUser& user = context.user; !user.name.empty()) {
    for (const char* name : {"USER", "LOGNAME"}) out.push_back(variable(name, user.name));
    if (!user.home.empty()) out.push_back(variable("HOME", user.home));
  }
  if (experiment.effective["checkpoint"].contains("volume")) {
    const std::string folder = run_path(checkpoint_mount, context.run, "");
    out.push_back(variable("MLK_CHECKPOINTS", folder));
    if (metrics.value("tensorboard", false))
      out.push_back(variable("MLK_TENSORBOARD", folder + "/tensorboard"));
  }
  if (const auto place = outputs_place(experiment.effective, context.outputs_claim)) {
    const std::string of_run = run_path(place->mount, context.run, "");
    const std::string of_rank = outputs_folder_of_rank(role.name, "$(MLK_RANK)");
    out.push_back(variable("MLK_OUTPUTS", fmt::format("{}/{}/{}", of_run, outputs_folder, of_rank)));
  }
  if (metrics.contains("port")) out.push_back(variable("MLK_METRICS_PORT", metrics["port"].dump()));
  out.push_back(variable("MLK_RESULT", "/dev/termination-log"));
  for (const auto& [name, value] : of_templates.items()) {
    put(out, variable(name, text_or_json(value)));
  }
  for (const auto& [name, value] : experiment.effective["env"].items()) put(out, user_variable(name, value));
  if (experiment.effective.contains("code") && experiment.effective["code"].contains("python")) {
    const json source = context.code ? json_or_null(context.code->source) : json();
    const std::string of_base = source.is_object() ? source.value(base_python_path, "") : "";
    find_packages(out, of_base, !context.python_on_machine.empty());
  }
  return out;
}

Volumes pod_volumes(const PodContext& context) {
  const Experiment& experiment = context.experiment;
  Volumes out{json::array(), json::array()};
  if (experiment.has_train)
    add_volume(out, "mlk-config", {{"configMap", {{"name", context.run + "-config"}}}}, config_folder, true);
  if (context.key) {
    // Without `train`, mlk may not know the user and group of the image. So all users may read the key.
    const int mode = experiment.has_train ? 0440 : 0444;
    add_volume(out, "mlk-secret", {{"secret", {{"secretName", context.run}, {"defaultMode", mode}}}},
               secret_folder, true);
  }
  for (const Helper& helper : context.helpers)
    add_volume(out, std::string(helper.volume), helper_volume(helper), std::string(helper.mount), true);
  for (const json& entry : experiment.effective["data"]) {
    const auto name = entry["name"].get<std::string>();
    const bool read_only = entry["read_only"].get<bool>();
    json source = entry.contains("files")
                      ? json{{"configMap", {{"name", fmt::format("{}-data-{}", context.files_of, name)}}}}
                      : volume_source(entry, read_only);
    add_volume(out, "data-" + name, std::move(source), entry["mount"].get<std::string>(), read_only);
  }
  if (const std::optional<CodeArchive>& code = context.code; code && !code->is_layer()) {
    const json source = code->on_machine.empty() ? json{{"configMap", {{"name", code_map_name(*code)}}}}
                                                 : json{{"hostPath", {{"path", code->on_machine}}}};
    add_volume(out, "mlk-code", source, code_mount, true);
    add_volume(out, "mlk-workspace", {{"emptyDir", json::object()}}, code_folder, false);
  }
  const std::string& home = context.user.home;
  if (!home.empty() && !experiment.effective["env"].contains("HOME"))
    add_volume(out, "mlk-home", {{"emptyDir", json::object()}}, home, false);
  if (const std::string& packages = context.python_on_machine; !packages.empty())
    add_volume(out, "mlk-python", {{"hostPath", {{"path", packages}}}}, python_folder, true);
  const json& checkpoint = experiment.effective["checkpoint"];
  if (checkpoint.contains("volume")) {
    add_volume(out, checkpoint_volume, volume_source(checkpoint["volume"], false), checkpoint_mount, false);
  }
  const auto outputs = outputs_place(experiment.effective, context.outputs_claim);
  if (outputs && !outputs->is_of_checkpoints)
    add_volume(out, outputs_volume, volume_source(outputs->volume, false), outputs->mount, false);
  return out;
}

json pod_resources(const Role& size) {
  json out = {{"cpu", size.cpu}, {"memory", size.memory}};
  if (size.gpu > 0) out["nvidia.com/gpu"] = std::to_string(size.gpu);
  return out;
}

json pod_tolerations(const Experiment& experiment) {
  constexpr int patience_seconds = 30;
  json out = json::array();
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    out.push_back({{"key", taint},
                   {"operator", "Exists"},
                   {"effect", "NoExecute"},
                   {"tolerationSeconds", patience_seconds}});
  }
  for (const json& toleration : experiment.effective["scheduling"]["node"]["tolerations"])
    out.push_back(toleration);
  return out;
}

// The exit codes of ranks that mlk stops: 143 if the rank ends in time, and 137 if the rank is killed after
// its grace period. The Job controller treats the end of a suspended pod like any other end. So these codes
// must not fail the run, because the user may resume the run.
constexpr std::size_t ended_by_sigterm = 143, ended_by_sigkill = 137;

json failure_rules(const Experiment& experiment, const RoleInRun& role) {
  std::array<bool, 256> final{};
  bool retry_disruptions = true;
  const json& restart = experiment.effective["restart"];
  if (restart.contains("on")) {
    const auto on = restart["on"].get<std::vector<std::string>>();
    retry_disruptions = std::find(on.begin(), on.end(), "preemption") != on.end();
    final.fill(true);
    mark_codes(on, final, false);
    // With `train:`, a code of the runtime after which a retry is useless stays final, even if restart.on has
    // this code.
    if (experiment.has_train) mark_codes(role.final_codes, final, true);
    final[ended_by_sigterm] = final[ended_by_sigkill] = false;
  } else {
    mark_codes(role.final_codes, final, true);
  }
  json codes = json::array();
  for (std::size_t code = 1; code < final.size(); ++code) {
    if (final[code]) codes.push_back(code);
  }
  json rules = json::array();
  // The first matching rule decides. The rule for disruptions must be the first rule, because a disrupted pod
  // also has an exit code.
  rules.push_back({{"action", retry_disruptions ? "Ignore" : "FailJob"},
                   {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}});
  if (!codes.empty())
    // The rule applies only to the program's container, because codes of other containers mean other things.
    rules.push_back({{"action", "FailJob"},
                     {"onExitCodes", {{"containerName", "main"}, {"operator", "In"}, {"values", codes}}}});
  return rules;
}

}  // namespace mlk
