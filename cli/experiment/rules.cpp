#include "cli/experiment/rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/arguments.h"
#include "cli/experiment/outputs.h"
#include "cli/experiment/values.h"
#include "cli/experiment/variants.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

constexpr int peer_port = 7070;  // port of every pod, see templates/shapes/pod.yaml

struct Found {
  const YamlNode* node;
  Place place;  // place of its key, or of the entry in a list
};

struct Step {
  std::string key;
  std::optional<std::size_t> index;
};

// A name may have any character, so "data[1]" may be a name. If the node has no such name, "data[1]" means
// entry 1 of the list `data`.
Step step_of(const std::string& text, const YamlNode& node) {
  if (node.find(text) != nullptr) return {text, std::nullopt};
  constexpr std::size_t most_digits = 9;
  const std::size_t open = text.rfind('[');
  if (open == std::string::npos || !text.ends_with(']')) return {text, std::nullopt};
  const std::string digits = text.substr(open + 1, text.size() - open - 2);
  const bool is_index = !digits.empty() && digits.size() <= most_digits &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_index) return {text, std::nullopt};
  return {text.substr(0, open), std::stoul(digits)};
}

// Finds the node at a path such as "data[1].mount". If the file lacks this node, finds the last node
// on the way to it.
Found find_path(const YamlNode& root, const std::string& path) {
  const YamlNode* node = &root;
  Place place = root.place;
  for (const std::string& part : split(path, '.')) {
    const Step step = step_of(part, *node);
    const auto entry = std::find_if(node->entries.begin(), node->entries.end(),
                                    [&](const YamlEntry& e) { return e.key == step.key; });
    if (entry == node->entries.end()) return {node, place};
    node = &entry->value;
    place = entry->place;
    if (!step.index) continue;
    if (*step.index >= node->items.size()) return {node, place};
    node = &node->items[*step.index];
    place = node->place;
  }
  return {node, place};
}

constexpr int most_servers = 64;  // limit of the bundled runtime, see runtime/CONTRACT.md

bool is_below(const std::string& path, const std::string& folder) {
  return folder == "/" || path == folder || path.starts_with(folder + "/");
}

// Whether `mount` would hide a mount of the system or of mlk, or would lie inside such a mount. `mount` is
// lexically normal.
bool is_taken(const std::string& mount) {
  constexpr std::array taken{"/etc/mlk", "/mlk", "/dev", "/proc", "/sys"};
  return std::any_of(taken.begin(), taken.end(),
                     [&](const char* folder) { return is_below(mount, folder) || is_below(folder, mount); });
}

class Rules {
 public:
  Rules(const YamlNode& root, json& effective, const TemplateNames& template_names,
        const FileContext& file_context, Problems& problems)
      : root_(root),
        effective_(effective),
        template_names_(template_names),
        file_context_(file_context),
        problems_(problems) {
    mode_ = text_of(effective_, {"mode"});
    const std::vector<std::string>& known_types = template_names_.job_types;
    const bool known = std::find(known_types.begin(), known_types.end(), mode_) != known_types.end();
    own_job_type_ = known && mode_ != "single" && mode_ != "ps" && mode_ != "allreduce";
    if (!mode_.empty() && !known) {
      refuse_name("mode", "job type", mode_, known_types);
      mode_.clear();
    }
  }

  void apply() {
    check_program();
    if (!mode_.empty()) {  // these rules depend on the mode
      check_parameters();
      check_roles();
      check_consistency();
    }
    check_length();
    check_model();
    check_optimizer();
    check_data();
    check_checkpoint();
    check_outputs();
    check_metrics();
    check_scheduling();
  }

 private:
  void refuse(const std::string& path, std::string what) {
    problems_.add(find_path(root_, path).place, std::move(what));
  }
  bool is_map(const std::string& path) const {
    return find_path(root_, path).node->kind == YamlNode::Kind::map;
  }
  bool given(const std::string& key) const { return effective_.contains(key); }

  void refuse_name(const char* key, const char* what, const std::string& name,
                   const std::vector<std::string>& known) {
    const std::string near = nearest(name, known);
    refuse(key, fmt::format("there is no {} '{}'; {}", what, name,
                            near.empty() ? "there are " + join(known, ", ")
                                         : fmt::format("did you mean '{}'?", near)));
  }

  void check_parameters() {
    if (!own_job_type_ && !at_path(effective_, {"parameters"}).empty()) {
      refuse("parameters", fmt::format("mode {} has no parameters", mode_));
    }
  }

  void check_program() {
    if (given("train") == given("run")) {
      if (given("run")) {
        refuse(
            "run",
            "train and run exclude each other: train is for the bundled runtime, run for any other program");
      } else {
        problems_.add(root_.place, "give train (for the bundled runtime) or run (for any other program)");
      }
    }
    if (given("train") && own_job_type_) {
      refuse("train", "train needs mode single, ps or allreduce; a job type of your own needs run");
    }
    for (const char* key : {"args", "args_style", "framework", "elastic", "workdir", "code", "outputs"}) {
      if (given("train") && given(key))
        refuse(key, fmt::format("{} is for run; train has no use for it", key));
    }
    if (const std::string what = wrong_with_arguments(effective_); !what.empty()) refuse("run", what);
    check_code();
    // The run's record contains `registry`, and everybody may read the record. So `registry` must not contain
    // a login.
    if (const std::string registry = text_of(effective_, {"registry"});
        registry.find('@') != registry.npos || registry.find("://") != registry.npos)
      refuse("registry", "registry is a name such as registry.example/team, without a scheme and a login");
    const std::string framework = text_of(effective_, {"framework"});
    std::vector<std::string> frameworks = template_names_.frameworks;
    frameworks.push_back("none");
    if (!framework.empty() && std::find(frameworks.begin(), frameworks.end(), framework) == frameworks.end())
      refuse_name("framework", "framework", framework, frameworks);
  }

  void check_code() {
    check_folder("code", text_of(effective_, {"code", "path"}));
    const nlohmann::json code = effective_.value("code", nlohmann::json::object());
    const std::string requirements = text_of(code, {"python"});
    if (requirements.starts_with('/'))
      refuse("code", "code.python is a file in the folder of the code, such as requirements.txt");
    const std::string workdir = text_of(effective_, {"workdir"});
    if (workdir.empty()) return;
    if (given("code") && workdir.starts_with('/')) {
      refuse("workdir",
             "with code the program starts in its folder; workdir is a folder in that, such as src");
    } else if (!given("code") && !workdir.starts_with('/')) {
      refuse(
          "workdir",
          fmt::format("workdir is an absolute path, as /{}; only with code it is a folder in that", workdir));
    }
  }

  // Moves `workers` or `servers` to `roles`.
  void spell_out(const char* short_form, const char* role) {
    if (!given(short_form)) return;
    if (effective_["roles"].contains(role)) {
      refuse(short_form, fmt::format("{} and roles.{} are the same; give one of them", short_form, role));
    }
    effective_["roles"][role] = std::move(effective_[short_form]);
    effective_.erase(short_form);
  }

  std::string role_path(const std::string& role) const {
    if (role == "worker" && root_.find("workers") != nullptr) return "workers";
    if (role == "server" && root_.find("servers") != nullptr) return "servers";
    return "roles." + role;
  }

  void check_roles() {
    spell_out("workers", "worker");
    spell_out("servers", "server");
    json& roles = effective_["roles"];
    const json unit = {{"count", 1}, {"cpu", "1"}, {"memory", "1Gi"}, {"gpu", 0}};
    if (!own_job_type_ && !roles.contains("worker")) roles["worker"] = unit;
    if (mode_ == "ps" && !roles.contains("server")) roles["server"] = unit;
    for (auto& [role, value] : roles.items()) check_role(role, value);
  }

  void check_role(const std::string& role, json& value) {
    const std::string path = role_path(role);
    if (!is_dns_label(role, longest_role)) {
      refuse(path,
             fmt::format("'{}' cannot be the name of a role: lower-case letters, digits and '-', at most {}",
                         role, longest_role));
    } else if (!own_job_type_ && role != "worker" && !(mode_ == "ps" && role == "server")) {
      const std::string near = nearest(role, {"worker", "server"});
      refuse(path,
             fmt::format("mode {} has no role '{}'{}", mode_, role,
                         near.empty() || near == role ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    const int count = number_of(value, {"count"}, 0), min = number_of(value, {"min"}, 0);  // 0: not given
    const bool is_server = !own_job_type_ && role == "server";
    if (is_server && min != 0) {
      refuse(path + ".min", fmt::format("{}.min has no meaning: the parameters lie on all servers", path));
    }
    if (!own_job_type_ && given("train")) check_gpus(path + ".gpu", number_of(value, {"gpu"}, 0));
    if (given("train") && value.contains("processes"))
      refuse(path + ".processes", "processes is for run; a worker of train has one for each of its GPUs");
    if (count == 0) return;
    if (is_server && given("train") && count > most_servers) {
      refuse(path + ".count", fmt::format("the runtime has at most {} servers", most_servers));
    }
    if (!is_server && min == 0) value["min"] = count;
    if (!is_server && min > count) {
      refuse(path + ".min", fmt::format("{0}.min is {1}, but {0}.count is {2}", path, min, count));
    }
    if (mode_ == "single" && role == "worker" && count > 1) {
      refuse(path + ".count", "mode single has one worker; several need mode allreduce or ps");
    }
  }

  void check_gpus(const std::string& path, int gpus) {
    constexpr int most_gpus = 16;  // limit for a worker, see runtime/CONTRACT.md
    if (gpus > 1 && mode_ == "single")
      refuse(path, "mode single computes with one GPU; several need mode allreduce or ps");
    if (gpus > most_gpus)
      refuse(path,
             fmt::format("a worker computes with {} GPUs at most; more workers use more GPUs", most_gpus));
  }

  void check_consistency() {
    const json& consistency = at_path(effective_, {"train", "consistency"});
    if (mode_ != "ps" && !consistency.is_null() && consistency != "sync") {
      refuse("train.consistency",
             fmt::format("only mode ps has a choice of consistency; mode {} is always sync", mode_));
    }
  }

  void check_length() {
    if (!given("train") || !is_map("train")) return;  // check_section() has reported this
    const bool steps = effective_["train"].contains("steps"), epochs = effective_["train"].contains("epochs");
    if (steps && epochs) refuse("train.epochs", "train.steps and train.epochs exclude each other");
    if (!steps && !epochs) {
      refuse("train",
             "train.steps is missing: updates of the whole run, not of one worker; or give train.epochs");
    }
  }

  void check_model() {
    const json& train = at_path(effective_, {"train"});
    if (at_path(train, {"model"}).empty() || at_path(train, {"data"}).empty()) return;
    complete_model(effective_["train"]["model"], effective_["train"]["data"],
                   [this](const std::string& at, const std::string& what) { refuse(at, what); });
    const std::string type = text_of(train["model"], {"type"});
    if (train.contains("sample") && !type.empty() && type != "gpt")
      refuse("train.sample", "train.sample needs train.model.type gpt: no other model goes on with tokens");
  }

  void check_optimizer() {
    const std::string path = "train.optimizer";
    if (at_path(effective_, {"train", "optimizer"}).empty()) return;
    json& optimizer = effective_["train"]["optimizer"];
    const auto refuse_key = [this](const std::string& at, const std::string& what) { refuse(at, what); };
    complete_variant(optimizer, path, optimizer_variants(), refuse_key);
    if (at_path(optimizer, {"nesterov"}) == true && at_path(optimizer, {"momentum"}) == 0) {
      refuse(path + ".nesterov", path + ".nesterov needs a momentum above 0");
    }
    json& schedule = optimizer["schedule"];
    complete_variant(schedule, path + ".schedule", schedule_variants(), refuse_key);
    const json& warmup = at_path(schedule, {"warmup"});
    const json& steps = at_path(effective_, {"train", "steps"});
    if (warmup.is_number() && steps.is_number() && warmup >= steps) {
      refuse(path + ".schedule.warmup",
             fmt::format("{}.schedule.warmup is {}, but train.steps is {}: it would never end", path,
                         warmup.dump(), steps.dump()));
    }
  }

  void check_data() {
    std::set<std::string> names, mounts;
    const json& data = at_path(effective_, {"data"});
    for (std::size_t i = 0; i < data.size(); ++i) {
      const json& entry = data[i];
      const std::string path = fmt::format("data[{}]", i);
      const std::string name = text_of(entry, {"name"}), mount = text_of(entry, {"mount"});
      if (!name.empty() && !names.insert(name).second)
        refuse(path + ".name", fmt::format("two data entries are named '{}'", name));
      if (!mount.empty() && !mounts.insert(mount).second)
        refuse(path + ".mount", fmt::format("two data entries are mounted at {}", mount));
      if (!mount.empty() && is_taken(mount)) {
        refuse(path + ".mount", fmt::format("{} cannot be a mount: it is the system's or mlk's own", mount));
      }
      check_one_source(path, entry, {"files", "pvc", "nfs", "hostPath", "csi", "configMap", "emptyDir"});
      if (entry.contains("files") && at_path(entry, {"read_only"}) == false) {
        refuse(path + ".read_only", "files that travel with the run are always read-only");
      }
      check_folder(path + ".files", text_of(entry, {"files"}));
    }
  }

  void check_folder(const std::string& path, const std::string& folder) {
    if (folder.empty() || !file_context_.wrong_with_folder) return;
    const std::string wrong = file_context_.wrong_with_folder(folder);
    if (!wrong.empty()) refuse(path, wrong);
  }

  void check_one_source(const std::string& path, const json& volume, const std::vector<std::string>& kinds) {
    if (volume.empty() && !is_map(path)) return;  // check_section() has reported this
    std::vector<std::string> found;
    for (const std::string& kind : kinds) {
      if (volume.contains(kind)) found.push_back(kind);
    }
    if (found.empty()) refuse(path, fmt::format("{} names no volume: one of {}", path, join(kinds, ", ")));
    if (found.size() > 1)
      refuse(path, fmt::format("{} names several volumes ({}); it can be one", path, join(found, ", ")));
  }

  void check_checkpoint() {
    json& checkpoint = effective_["checkpoint"];
    if (checkpoint.contains("volume")) {
      check_one_source("checkpoint.volume", checkpoint["volume"],
                       {"pvc", "nfs", "hostPath", "csi", "emptyDir"});
      const int servers = number_of(effective_, {"roles", "server", "count"}, 0);
      if (given("train") && checkpoint["volume"].contains("emptyDir") && servers > 1) {
        refuse("checkpoint.volume",
               "checkpoint.volume is an emptyDir, which every pod has for itself; several servers write one "
               "checkpoint together, on a volume that they share");
      }
    }
    if (!given("run")) return;
    for (const char* key : {"every", "keep"}) {
      const YamlNode* written = root_.find("checkpoint");
      if (written != nullptr && written->find(key) != nullptr) {
        refuse(fmt::format("checkpoint.{}", key),
               fmt::format("checkpoint.{} is for train: a program of yours saves when it likes", key));
      }
      checkpoint.erase(key);
    }
  }

  void check_outputs() {
    if (const std::string what = tidy_outputs(effective_); !what.empty()) refuse("outputs", what);
    if (const json& to = at_path(effective_, {"outputs", "to"}); to.is_object())
      check_one_source("outputs.to", to, {"pvc", "nfs", "hostPath", "csi"});
  }

  void check_metrics() {
    if (number_of(effective_, {"metrics", "port"}, 0) == peer_port) {
      refuse("metrics.port",
             fmt::format("metrics.port cannot be {}: peers talk to each other there", peer_port));
    }
    if (at_path(effective_, {"metrics", "tensorboard"}) == true &&
        !at_path(effective_, {"checkpoint"}).contains("volume")) {
      refuse(
          "metrics.tensorboard",
          "metrics.tensorboard needs checkpoint.volume: the event files lie there, beside the checkpoints");
    }
  }

  void check_scheduling() {
    if (text_of(effective_, {"scheduling", "gang"}) == "required") {
      refuse("scheduling.gang",
             "gang scheduling is not supported yet; with auto or none pods start one by one and wait for "
             "each other");
    }
    const json& tolerations = at_path(effective_, {"scheduling", "node", "tolerations"});
    for (std::size_t i = 0; i < tolerations.size(); ++i) {
      const json& toleration = tolerations[i];
      const std::string path = fmt::format("scheduling.node.tolerations[{}]", i);
      const bool exists = text_of(toleration, {"operator"}) == "Exists";
      if (!toleration.contains("key") && !exists) {
        refuse(path, "a toleration without a key needs operator: Exists");
      }
      if (toleration.contains("value") && exists) {
        refuse(path + ".value", "a toleration with operator: Exists has no value");
      }
    }
  }

  const YamlNode& root_;
  json& effective_;
  const TemplateNames& template_names_;
  const FileContext& file_context_;
  Problems& problems_;
  std::string mode_;
  bool own_job_type_ = false;
};

}  // namespace

void apply_rules(const YamlNode& root, json& effective, const TemplateNames& template_names,
                 const FileContext& file_context, Problems& problems) {
  Rules(root, effective, template_names, file_context, problems).apply();
}

}  // namespace mlk
