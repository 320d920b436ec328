#include "cli/render/render.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/render/check_objects.h"
#include "cli/render/containers.h"
#include "cli/render/devices.h"
#include "cli/render/evaluate.h"
#include "cli/render/framework.h"
#include "cli/render/helper.h"
#include "cli/render/job_type.h"
#include "cli/render/limits.h"
#include "cli/render/merge.h"
#include "cli/render/outputs.h"
#include "cli/render/pod.h"
#include "cli/render/runtime_config.h"
#include "cli/render/warnings.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

constexpr std::size_t longest_host_name = 63;

json or_null(const json& object, const char* key) {
  if (!object.contains(key)) return nullptr;
  return object[key].empty() ? json() : object[key];
}

std::vector<Helper> helpers_of(const Framework& framework, const std::optional<OutputsPlace>& outputs) {
  std::vector<Helper> out;
  if (framework.helper) out.push_back(mpi_helper);
  if (outputs) out.push_back(pod_helper);
  return out;
}

// Renders one run. Stores the inputs, since every object of the run needs them.
class Renderer {
 public:
  Renderer(const Experiment& experiment, const FileContents& files, const Templates& templates,
           const RenderOptions& options)
      : experiment_(experiment),
        effective_(experiment.effective),
        files_(files),
        templates_(templates),
        options_(options),
        type_(load_job_type(templates, experiment.mode)),
        framework_(load_framework(templates, experiment.effective.value("framework", ""))),
        helpers_(helpers_of(framework_, outputs_place(experiment.effective, files.outputs_claim))),
        user_(choose_user(experiment, files.user)),
        digests_(digests_of(experiment, files)),
        identity_(options.identity ? *options.identity
                                   : identify(experiment, digests_, templates, options.attempt)) {}

  Rendered render() {
    answer_roles();
    fill_scope();
    Rendered out;
    out.run = identity_.run;
    out.hash = identity_.hash;
    out.owner = shape("owner");
    check_owner(out.owner, identity_.run, shape_name("owner"));
    if (experiment_.has_train) out.objects.push_back(object("config"));
    if (has_key()) out.objects.push_back(object("secret"));
    if (options_.files_of.empty()) {
      add_data(out.objects);
      add_code(out.objects);
      add_helpers(out.objects);
    }
    out.objects.push_back(merge(object("service"), patch(effective_, "service")));
    check_head(out.objects.back(), "patch.service");
    add_own_objects(out.objects);
    for (std::size_t i = 0; i < roles_.size(); ++i) out.objects.push_back(job(type_.roles[i], roles_[i]));
    check_distinct(out.owner, out.objects);
    out.warnings = warnings_of(experiment_, files_, options_, roles_);
    return out;
  }

 private:
  bool has_key() const { return experiment_.has_train || framework_.key; }

  json shape(const std::string& name) const {
    return evaluate(*parse_template(templates_, shape_path(name)), scope_);
  }

  static std::string shape_path(const std::string& name) { return "shapes/" + name + ".yaml"; }
  std::string shape_name(const std::string& name) const {
    return name_of_template(templates_, shape_path(name));
  }
  // The name of the job type in messages.
  std::string type_name() const { return name_of_template(templates_, "jobs/" + experiment_.mode + ".yaml"); }

  std::string framework_name() const {
    return name_of_template(templates_, "frameworks/" + framework_.name + ".yaml");
  }

  // Renders a template of templates/shapes/ that is a whole object, and checks the head of the object.
  json object(const std::string& name) const {
    json out = shape(name);
    check_head(out, shape_name(name));
    return out;
  }

  static json patch(const json& section, const char* key) {
    if (!section.contains("patch") || !section["patch"].contains(key)) return json::object();
    return section["patch"][key];
  }

  void answer_roles() {
    for (const RoleTemplate& role : type_.roles) {
      RoleInRun in_run;
      in_run.name = role.name;
      in_run.ends_run = role.ends_run;
      in_run.final_codes = experiment_.has_train ? role.final_for_train : role.final_for_run;
      in_run.size.count = in_run.size.min = role.count;
      const auto given = experiment_.roles.find(role.name);
      if (given != experiment_.roles.end()) in_run.size = given->second;
      const std::string longest = fmt::format("{}-{}-{}", identity_.run, role.name, in_run.size.count - 1);
      if (longest.size() > longest_host_name) {
        throw Error(
            ExitCode::usage,
            fmt::format("{} is longer than the {} characters of a host name", longest, longest_host_name),
            "shorten `name`");
      }
      roles_.push_back(std::move(in_run));
    }
    for (const auto& [name, unused] : experiment_.roles) {
      if (std::none_of(roles_.begin(), roles_.end(),
                       [&n = name](const RoleInRun& role) { return role.name == n; })) {
        throw Error(ExitCode::usage, fmt::format("job type {} has no role '{}'", experiment_.mode, name));
      }
    }
  }

  json parameters() const {
    json out = type_.parameters.kind == YamlNode::Kind::null ? json::object() : to_json(type_.parameters);
    std::vector<std::string> known;
    for (const auto& [name, unused] : out.items()) known.push_back(name);
    for (const auto& [name, value] : effective_["parameters"].items()) {
      if (!out.contains(name)) {
        throw Error(ExitCode::usage, fmt::format("job type {} has no parameter '{}'{}", experiment_.mode,
                                                 name, did_you_mean(name, known)));
      }
      const bool both_numbers = out[name].is_number() && value.is_number();
      if (!out[name].is_null() && out[name].type() != value.type() && !both_numbers) {
        throw Error(ExitCode::usage, fmt::format("parameters.{} must be a {}, like its default, not a {}",
                                                 name, out[name].type_name(), value.type_name()));
      }
      out[name] = value;
    }
    return out;
  }

  void fill_scope() {
    json roles = json::object();
    json counts = json::object();
    for (const RoleInRun& role : roles_) {
      roles[role.name] = {{"count", role.size.count}, {"min", role.size.min}};
      counts[role.name] = role.size.count;
    }
    scope_ = {{"run", identity_.run}, {"name", experiment_.name}, {"mode", experiment_.mode}};
    constexpr std::size_t label_digits = 16;
    scope_["hash"] = identity_.hash.substr(0, label_digits);
    scope_["namespace"] = options_.name_space.empty() ? json() : json(options_.name_space);
    scope_["version"] = options_.version;
    scope_["image"] = !files_.image.empty()       ? files_.image
                      : experiment_.image.empty() ? local_image
                                                  : experiment_.image;
    scope_["roles"] = roles;
    scope_["roles_text"] = counts.dump();
    scope_["parameters"] = parameters();
    scope_["framework"] = framework_scope(framework_, identity_.run, roles_, "");
    scope_["experiment_text"] = effective_.dump();
    scope_["digests_text"] = digests_.dump();
    const bool has_source = files_.code && !files_.code->source.empty();
    scope_["code_text"] = has_source ? json(files_.code->source) : json();
    const bool has_steps =
        experiment_.has_train && effective_["train"].contains("steps");  // otherwise the run counts epochs
    scope_["steps_text"] = has_steps ? json(effective_["train"]["steps"].dump()) : json();
    scope_["user_text"] =
        user_.source.empty() ? json() : json(json{{"number", user_.number}, {"from", user_.source}}.dump());
    const auto outputs = outputs_place(effective_, files_.outputs_claim);
    scope_["outputs_text"] = outputs ? json(outputs->volume.dump()) : json();
    scope_["tags_text"] = effective_["tags"].empty() ? json() : json(effective_["tags"].dump());
    scope_["note"] = or_null(effective_, "note");
    scope_["config_text"] = experiment_.has_train ? json(runtime_config(experiment_).dump()) : json();
    scope_["secret"] = {{"base64", nullptr}, {"placeholder", nullptr}};
    if (options_.secret.empty()) {
      scope_["secret"]["placeholder"] = "placeholder: 64 hexadecimal digits, made by mlk submit";
    } else {
      scope_["secret"]["base64"] = base64_encode(options_.secret);
    }
  }

  void add_data(std::vector<json>& objects) {
    for (const DataEntry& entry : experiment_.data) {
      if (entry.files.empty()) continue;
      json encoded = json::object();
      for (const auto& [file, content] : files_.folders.at(entry.name))
        encoded[file] = base64_encode(content);
      scope_["data"] = {{"name", entry.name}, {"files", std::move(encoded)}};
      objects.push_back(object("data"));
    }
    scope_.erase("data");
  }

  void add_code(std::vector<json>& objects) {
    if (!files_.code || files_.code->bytes.empty()) return;
    scope_["code"] = code_scope(*files_.code);
    objects.push_back(object("code"));
    scope_.erase("code");
  }

  void add_helpers(std::vector<json>& objects) {
    for (const Helper& helper : helpers_) {
      scope_["helper"] = helper_scope(helper);
      objects.push_back(object("helper"));
    }
    scope_.erase("helper");
  }

  // The further objects of job types and frameworks get the labels and the namespace of the run.
  void add_own_objects(std::vector<json>& objects) const {
    json common = {{"metadata",
                    {{"labels",
                      {{"app.kubernetes.io/managed-by", "mlk"},
                       {"mlk.dev/run", identity_.run},
                       {"mlk.dev/name", experiment_.name}}}}}};
    if (const json& value = scope_["namespace"]; !value.is_null()) common["metadata"]["namespace"] = value;
    const auto add = [&](const YamlNode& list, const std::string& source) {
      for (std::size_t i = 0; i < list.items.size(); ++i) {
        json own = evaluate(list.items[i], scope_);
        if (own.is_null()) continue;  // the $if of the object has left the object out
        check_head(own, fmt::format("{}: objects[{}]", source, i));
        objects.push_back(merge(std::move(own), common));
      }
    };
    add(type_.objects, type_name());
    add(framework_.objects, framework_name());
  }

  static json fragment(const YamlNode& node, const json& scope) {
    json out = evaluate(node, scope);
    return out.is_null() ? json::object() : out;  // null: there is no fragment, or its $if is false
  }

  // A fragment that is merged over the pod or the Job of a role.
  struct Layer {
    json overlay;
    std::string source;
  };

  // Returns the layers in the order of merging. The patch of the role is the last layer, because this patch
  // is the most specific. `key`: "pod" or "job".
  std::vector<Layer> layers(const char* key, const std::string& role, const YamlNode& of_framework,
                            const YamlNode& of_type) const {
    const json& roles = effective_["roles"];
    const json of_role = roles.contains(role) ? patch(roles[role], key) : json::object();
    std::vector<Layer> out{
        {fragment(of_type, scope_), fmt::format("{}: {} of role {}", type_name(), key, role)},
        {patch(effective_, key), fmt::format("patch.{}", key)},
        {of_role, fmt::format("roles.{}.patch.{}", role, key)}};
    if (!framework_.name.empty())
      out.insert(out.begin(), {fragment(of_framework, scope_), fmt::format("{}: {}", framework_name(), key)});
    return out;
  }

  json job(const RoleTemplate& role, const RoleInRun& in_run) {
    const Role& size = in_run.size;
    json& scope = scope_["role"];
    scope = {{"name", in_run.name}, {"count", size.count}, {"min", size.min}, {"ends_run", in_run.ends_run}};
    scope["processes"] = size.processes;
    scope["trains"] = in_run.ends_run && experiment_.has_train;
    scope["start_timeout"] = experiment_.start_timeout.count();
    scope["retries"] = effective_["restart"]["retries"];
    const bool limited = in_run.ends_run && experiment_.time_limit;
    scope["deadline"] = limited ? json(experiment_.time_limit->count()) : json();
    scope["may_fail"] = in_run.ends_run ? json(size.count - size.min) : json();
    scope["failure_rules"] = in_run.ends_run ? failure_rules(experiment_, in_run) : json();

    scope_["framework"] = framework_scope(framework_, identity_.run, roles_, in_run.name);

    // The pod is checked after each layer, so that the message names the layer at fault.
    json pod = pod_template(role, in_run);
    check_pod(pod, identity_.run, shape_name("pod"));
    if (!framework_.name.empty()) pod["metadata"]["annotations"][port_annotation] = std::to_string(pod_port);
    for (const Layer& layer : layers("pod", in_run.name, framework_.pod, role.pod)) {
      pod = merge(std::move(pod), layer.overlay);
      check_pod(pod, identity_.run, layer.source);
    }
    scope_["pod"] = std::move(pod);
    json out = shape("job");
    check_job(out, identity_.run, shape_name("job"));
    for (const Layer& layer : layers("job", in_run.name, framework_.job, role.job)) {
      out = merge(std::move(out), layer.overlay);
      check_job(out, identity_.run, layer.source);
    }
    fit_to_devices(out["spec"]["template"]);
    capture_last_words(out["spec"]["template"]);
    scope_.erase("pod");
    scope_.erase("role");
    return out;
  }

  json pod_template(const RoleTemplate& role, const RoleInRun& in_run) {
    const PodContext context{experiment_,
                             identity_.run,
                             roles_,
                             options_.files_of.empty() ? identity_.run : options_.files_of,
                             files_.code,
                             files_.python_on_machine,
                             has_key(),
                             helpers_,
                             files_.outputs_claim,
                             user_};
    const Volumes volumes = pod_volumes(context);
    const bool own_program = !experiment_.has_train;
    json& pod = scope_["pod"];
    pod = json::object();
    pod["env"] = pod_environment(context, in_run, environment_of_templates(role));
    pod["volumes"] = volumes.volumes.empty() ? json() : volumes.volumes;
    pod["mounts"] = volumes.mounts.empty() ? json() : volumes.mounts;
    pod["resources"] = pod_resources(in_run.size);
    pod["tolerations"] = pod_tolerations(experiment_);
    pod["node_selector"] = or_null(effective_["scheduling"]["node"], "selector");
    pod["priority"] = or_null(effective_["scheduling"], "priority");
    pod["service_account"] = or_null(effective_, "service_account");
    const json metrics = effective_.value("metrics", json::object());
    pod["metrics_port"] = or_null(metrics, "port");
    pod["metrics_port_text"] = metrics.contains("port") ? json(metrics["port"].dump()) : json();
    pod["image_pull_policy"] = effective_["image_pull_policy"];
    pod["image_pull_secrets"] = nullptr;
    for (const json& name : effective_["image_pull_secrets"])
      pod["image_pull_secrets"].push_back({{"name", name}});
    pod["command"] = own_program ? json(own_command(in_run)) : json::array({"mlk-runtime"});
    pod["workdir"] = workdir();
    pod["share_processes"] = own_program ? json(true) : json();
    pod["non_root"] = user_.must_not_be_root ? json(true) : json();
    pod["user"] = user_.number;
    pod["group"] = user_.group;
    pod["files_group"] = user_.files_group;
    pod["files_group_policy"] = user_.files_group.is_null() ? json() : json("OnRootMismatch");
    pod["message_policy"] = own_program ? "FallbackToLogsOnError" : "File";
    return shape("pod");
  }

  std::vector<std::string> own_command(const RoleInRun& in_run) const {
    std::vector<std::string> words = outputs_words(effective_, files_.outputs_claim);
    for (std::string& word : launched(experiment_, framework_, in_run.size, scope_))
      words.push_back(std::move(word));
    return prepared(experiment_, files_.code, words);
  }

  json workdir() const {
    if (!files_.code) return or_null(effective_, "workdir");
    const std::string inside = effective_.value("workdir", ".");
    return files_.code->is_layer() && inside != "." ? fmt::format("{}/{}", code_folder, inside) : code_folder;
  }

  // The variables of the job type replace those of the framework, because a job type is more specific.
  json environment_of_templates(const RoleTemplate& role) const {
    json out = fragment(framework_.environment, scope_);
    for (const auto& [name, value] : out.items()) {
      constexpr std::size_t most_bytes = 128 << 10;  // limit of Linux for one variable
      const std::size_t bytes = value.is_string() ? value.get_ref<const std::string&>().size() : 0;
      if (bytes + name.size() + 2 > most_bytes)
        throw Error(ExitCode::usage,
                    fmt::format("{}: {} has {}, and a variable has at most {}: there are too many pods",
                                framework_name(), name, human_size(bytes), human_size(most_bytes)));
    }
    out.update(fragment(role.environment, scope_));
    return out;
  }

  const Experiment& experiment_;
  const json& effective_;
  const FileContents& files_;
  const Templates& templates_;
  const RenderOptions& options_;
  JobType type_;
  Framework framework_;
  std::vector<Helper> helpers_;  // the programs of mlk in the pods
  PodUser user_;
  json digests_;
  Identity identity_;
  std::vector<RoleInRun> roles_;
  json scope_;  // the values that templates may use
};

}  // namespace

json digests_of(const Experiment& experiment, const FileContents& files) {
  json out = json::object();
  std::size_t total = 0;
  for (const DataEntry& entry : experiment.data) {
    if (entry.files.empty()) continue;
    const auto found = files.folders.find(entry.name);
    if (found == files.folders.end() || found->second.empty()) {
      throw Error(ExitCode::usage, fmt::format("data '{}': {} holds no files", entry.name, entry.files));
    }
    std::size_t bytes = 0;
    for (const auto& [file, content] : found->second) {
      const bool valid = file.size() <= 253 && file != "." && !file.starts_with("..") &&
                         std::all_of(file.begin(), file.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                         });
      if (!valid) {
        throw Error(ExitCode::usage, fmt::format("data '{}': the file '{}' in {} cannot travel with the run: "
                                                 "its name may have letters, digits, '-', '_' and '.' only",
                                                 entry.name, printable(file), entry.files));
      }
      bytes += content.size() + file.size();
      out[entry.name][file] = sha256_hex(content);
    }
    total += bytes;
    if (total > most_config_map_bytes) {
      throw Error(ExitCode::usage,
                  fmt::format("data '{}': {} holds {}, and at most {} can travel with a run in all `files:`",
                              entry.name, entry.files, human_size(bytes), human_size(most_config_map_bytes)),
                  "put it on a volume: pvc, nfs, hostPath or csi instead of files");
    }
  }
  if (files.code) out[code_file] = files.code->digest;
  if (files.code && !files.code->python_files.empty()) out[python_files_name] = files.code->python_files;
  return out;
}

Rendered render(const Experiment& experiment, const FileContents& files, const Templates& templates,
                const RenderOptions& options) {
  return Renderer(experiment, files, templates, options).render();
}

}  // namespace mlk
