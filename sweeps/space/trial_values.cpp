#include "sweeps/space/trial_values.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "cli/experiment/arguments.h"
#include "cli/experiment/overrides.h"
#include "cli/render/render.h"
#include "cli/render/runtime_config.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

// The merge patch that turns `from` into `to`.
json merge_patch(const json& from, const json& to) {
  json patch = json::object();
  for (const auto& [key, value] : from.items()) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  for (const auto& [key, value] : to.items()) {
    const auto before = from.find(key);
    if (before == from.end()) {
      patch[key] = value;
    } else if (*before != value) {
      patch[key] = before->is_object() && value.is_object() ? merge_patch(*before, value) : value;
    }
  }
  return patch;
}

// The text quoted as one word of sh, on one line.
std::string word_of_line(const std::string& text) {
  if (text.find('\n') == std::string::npos) return shell_word(text);
  const std::string escaped = replaced(text, {{'\n', "\\0012"}, {'\\', "\\\\"}});
  return "\"$(printf %b " + shell_word(escaped) + ")\"";
}

bool is_shell_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// The experiment without the parts that may differ between the trials of one Job.
json common_part(const json& effective) {
  json out = effective;
  if (out.contains("train")) {
    json paths = {
        {"data",
         {{"path", out["train"]["data"]["path"]}}}};  // the environment of the pods contains these paths
    if (out["train"]["model"].contains("weights"))
      paths["model"] = {{"weights", out["train"]["model"]["weights"]}};
    out["train"] = std::move(paths);
  } else {
    for (const char* key : {"run", "args", "env"}) out.erase(key);
  }
  return out;
}

// The first key that differs, for people: "workers.cpu".
std::string first_difference(const json& a, const json& b, const std::string& path) {
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : b.items()) {
      const std::string below = path.empty() ? key : path + "." + key;
      if (!a.contains(key)) return below;
      if (a[key] != value) return first_difference(a[key], value, below);
    }
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key)) return path.empty() ? key : path + "." + key;
    }
  }
  return path;
}

// The variables that trial_command() sets for each trial.
constexpr const char* own_variables[] = {"MLK_TRIAL", "MLK_CHECKPOINTS", "MLK_TENSORBOARD", "MLK_OUTPUTS"};

// Whether the text has $(NAME) with one of the names. Kubernetes replaces $(NAME) by the same value in the
// pods of all trials.
bool refers_to(const json& text, const std::set<std::string>& names) {
  return text.is_string() && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return text.get_ref<const std::string&>().find("$(" + name + ")") != std::string::npos;
         });
}

// Whether the text has $(NAME). Kubernetes replaces $(NAME) in the fields of the pod. In points.env nothing
// would replace it, since sh reads this file.
bool needs_kubernetes(const std::string& text) { return text.find("$(") != std::string::npos; }

// The tree of a point's experiment. A value without a place in the tree becomes a problem.
YamlNode tree_of(YamlNode root, const Space& space, const Names& names, const Point& point,
                 Problems& problems) {
  const std::map<std::string, std::string> texts = texts_of(space, point);
  put_values(root, texts);
  Overrides overrides;
  for (const auto& [path, value] : point) {
    if (names.is_own(path)) continue;
    const auto parameter = std::ranges::find(space.parameters, path, &Parameter::path);
    overrides.flags.push_back({"sweep", path, value.is_string() ? json_text(value) : texts.at(path),
                               parameter == space.parameters.end() ? Place{} : place_of(*parameter, value)});
  }
  apply_overrides(root, overrides, problems);
  return root;
}

}  // namespace

std::string describe(const Point& point) {
  std::vector<std::string> parts;
  for (const auto& [path, value] : point) parts.push_back(path + "=" + text_of_value(value));
  return parts.empty() ? "no parameters" : join(parts, " ");
}

Experiment Experiments::of(const Point& point) const {
  try {
    Problems problems;
    const YamlNode root = tree_of(base_, space_, names_, point, problems);
    return check_experiment(root, template_names_, file_context_, problems);
  } catch (const Error& error) {
    throw Error(error.code(), "the point " + describe(point) + " cannot be run\n" + error.what(),
                error.hint());
  }
}

json experiment_at(const json& base, const Space& space, const Point& point) {
  const YamlNode root = parse_yaml(json_text(base), "the sweep's record");
  Problems problems;
  const YamlNode tree = tree_of(root, space, Names(root), point, problems);
  problems.throw_if_any();
  return json_of_experiment(tree);
}

CommonPart::CommonPart(const YamlNode& base, const Space& space, const Experiment& first, json config)
    : common_(common_part(first.effective)), config_(std::move(config)) {
  for (const char* key : {"run", "args"}) {
    const YamlNode* node = base.find(key);
    command_varies_ = command_varies_ || (node != nullptr && has_names(*node));
  }
  if (const YamlNode* env = base.find("env")) {
    for (const YamlEntry& entry : env->entries) {
      if (has_names(entry.value)) variables_.insert(entry.key);
    }
  }
  for (const Parameter& parameter : space.parameters) {
    if (parameter.path == "run" || parameter.path.starts_with("args")) command_varies_ = true;
    if (parameter.path.starts_with("env.")) variables_.insert(parameter.path.substr(4));
  }
}

void CommonPart::add_variables(const json& environment, Delta& out) const {
  std::string absent;
  for (const std::string& name : variables_) {
    const auto value = environment.find(name);
    if (!is_shell_name(name)) {
      out.obstacle = "env." + name + " is no name for sh";
    } else if (value == environment.end()) {
      absent += "; unset " + name;
    } else if (!value->is_string()) {
      out.obstacle = "env." + name + " comes from a Secret";
    } else if (needs_kubernetes(value->get<std::string>())) {
      out.obstacle = "env." + name + " is for Kubernetes to expand";
    } else {
      out.environment += " " + name + "=" + word_of_line(value->get<std::string>());
    }
  }
  out.environment += absent;
}

void CommonPart::find_references(const json& effective, Delta& out) const {
  std::set<std::string> varying = variables_;
  varying.insert(std::begin(own_variables), std::end(own_variables));
  for (const auto& [name, value] : effective["env"].items()) {
    if (variables_.count(name) == 0 && refers_to(value, varying))
      out.obstacle = "env." + name + " refers to a variable that differs from trial to trial";
  }
  const json& run = effective["run"];
  if (run.is_array() &&
      std::any_of(run.begin(), run.end(), [&](const json& word) { return refers_to(word, varying); }))
    out.obstacle = "run refers to a variable that differs from trial to trial";
}

Delta CommonPart::delta_of(const Experiment& trial, int number) const {
  Delta out;
  const json now = common_part(trial.effective);
  if (common_ != now) {
    out.obstacle = first_difference(common_, now, "") + " differs from trial to trial";
    return out;
  }
  if (trial.has_train) {
    out.config = merge_patch(config_, runtime_config(trial));
    return out;
  }
  out.environment = fmt::format("export MLK_TRIAL={}", number);
  find_references(trial.effective, out);
  add_variables(trial.effective["env"], out);
  if (!command_varies_) return out;
  const json& run = trial.effective["run"];
  if (run.is_array() && std::any_of(run.begin(), run.end(), [](const json& word) {
        return needs_kubernetes(word.get_ref<const std::string&>());
      }))
    out.obstacle = "run has words that are for Kubernetes to expand";
  out.environment += "; set --";
  for (const std::string& word : program_words(trial.effective)) out.environment += " " + word_of_line(word);
  return out;
}

std::vector<std::string> trial_command(const std::vector<std::string>& command,
                                       const std::vector<std::string>& before) {
  constexpr std::string_view prepare =
      "mlk_n=$MLK_TRIAL_INDEX\n"
      "while [ \"$mlk_n\" -ge 0 ] && IFS= read -r mlk_line; do mlk_n=$((mlk_n - 1)); done < \"$MLK_POINTS\"\n"
      "if [ \"$mlk_n\" -ge 0 ]; then echo \"mlk: $MLK_POINTS has no line for trial $MLK_TRIAL_INDEX\" >&2; "
      "exit 126; fi\n"
      "eval \"$mlk_line\"\n"
      "if [ -n \"$MLK_CHECKPOINTS\" ]; then MLK_CHECKPOINTS=$MLK_CHECKPOINTS/$MLK_TRIAL; mkdir -p "
      "\"$MLK_CHECKPOINTS\" || exit 126; fi\n"
      "if [ -n \"$MLK_TENSORBOARD\" ]; then MLK_TENSORBOARD=$MLK_TENSORBOARD/$MLK_TRIAL; fi\n"
      "if [ -n \"$MLK_OUTPUTS\" ]; then MLK_OUTPUTS=${MLK_OUTPUTS%/*}/$MLK_TRIAL; fi\n";
  std::string script = std::string(prepare) + "exec";
  for (const std::string& word : before) script += " " + shell_word(word);
  script += " \"$@\"\n";
  std::vector<std::string> out{"sh", "-c", replaced(script, {{'$', "$$"}}), "mlk"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace mlk::sweeps
