#include "cli/experiment/overrides.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/argument_words.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {

namespace {

YamlNode& child(YamlNode& map, const std::string& key, const Place& place) {
  for (YamlEntry& entry : map.entries) {
    if (entry.key != key) continue;
    entry.place = place;
    return entry.value;
  }
  map.kind = YamlNode::Kind::map;
  map.entries.push_back({key, place, {}});
  return map.entries.back().value;
}

bool is_index(const std::string& step) {
  return is_whole_number(step) && step.size() <= 4 && step.front() != '-';
}

// `workers` and `roles.worker` are the same place. A flag may use either name, even if the file uses the
// other name.
void follow_short_form(const YamlNode& root, std::vector<std::string>& steps) {
  for (const auto& [short_form, role] : {std::pair("workers", "worker"), std::pair("servers", "server")}) {
    const YamlNode* roles = root.find("roles");
    const bool long_form = roles != nullptr && roles->find(role) != nullptr;
    if (long_form && steps[0] == short_form) {
      steps[0] = "roles";
      steps.insert(steps.begin() + 1, role);
    } else if (!long_form && steps.size() > 1 && steps[0] == "roles" && steps[1] == role) {
      steps.erase(steps.begin());
      steps[0] = short_form;
    }
  }
}

// Returns `value`. But if it is text without quotes, returns the text `given` as it is. YAML would fold its
// lines, and remove blanks at both ends and everything after " #", for example in a script or a colour.
YamlNode as_given(YamlNode value, const std::string& given) {
  const bool is_comment = value.kind == YamlNode::Kind::null && trim(given).starts_with('#');
  const bool is_plain = value.kind == YamlNode::Kind::scalar && value.plain;
  const bool is_other = is_plain && !to_json(value).is_string() && trim(given) == value.text;  // 5, true
  if (!is_comment && (!is_plain || is_other)) return value;
  value.kind = YamlNode::Kind::scalar;
  value.text = given;
  return value;
}

// Whether the text may be a shell script, which need not be valid YAML: it has several lines, all of them
// printable, and does not begin with a sign that begins a quoted text, a list, a map or a block of YAML.
bool is_script(std::string_view given) {
  const std::string_view text = trim(given);
  const bool is_printable = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 ? c != 0x7F : c == '\n' || c == '\t' || c == '\r';
  });
  return text.find('\n') != std::string_view::npos && is_printable && is_utf8(text) &&
         std::string_view("\"'[{|>").find(text.front()) == std::string_view::npos;
}

// Parses the value as YAML. Blanks replace the key, so that the columns in messages are right.
std::optional<YamlNode> value_of(const std::shared_ptr<const Source>& source, std::size_t value_at,
                                 Problems& problems) {
  const std::string given = source->text.substr(value_at), placed = std::string(value_at, ' ') + given;
  if (is_script(given)) {
    Problems ignored;
    const std::optional<YamlNode> value = parse_yaml(placed, source, ignored);
    const bool is_tree = value && (value->kind == YamlNode::Kind::map || value->kind == YamlNode::Kind::list);
    return is_tree ? value : text_node(given, {source, 0, value_at});
  }
  std::optional<YamlNode> value = parse_yaml(placed, source, problems);
  return value ? std::optional(as_given(std::move(*value), given)) : std::nullopt;
}

// Whether null is an ordinary value at this path: in `patch`, where it removes a key, and in `parameters`,
// which the job type defines.
bool takes_null(const std::vector<std::string>& steps) {
  return std::any_of(steps.begin(), steps.end() - 1,
                     [](const std::string& step) { return step == "patch" || step == "parameters"; });
}

// Adds the problem that the value `in` has no entry for the step at index `at` of a path.
void refuse_step(const YamlNode& in, const std::vector<std::string>& steps, std::size_t at,
                 const Place& place, Problems& problems) {
  const std::string& step = steps[at];
  const std::string before = join({steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at)}, ".");
  if (in.kind == YamlNode::Kind::list && is_index(step)) {
    problems.add(place,
                 fmt::format("there is no entry {}: the list has {}, counted from 0", step, in.items.size()));
  } else if (in.kind == YamlNode::Kind::list || in.kind == YamlNode::Kind::scalar) {
    problems.add(
        place, fmt::format("there is no '{}' below {}, which is {}", step, before,
                           in.kind == YamlNode::Kind::list ? "a list; its entries are 0, 1 ..." : "no map"));
  } else {
    std::vector<std::string> keys;
    for (const YamlEntry& entry : in.entries) keys.push_back(entry.key);
    problems.add(place, fmt::format("there is no '{}'{} that could be removed{}", step,
                                    before.empty() ? "" : " in " + before, did_you_mean(step, keys)));
  }
}

// Removes the entry `step` from the node. Returns false if the node has no such entry.
bool remove_from(YamlNode& node, const std::string& step) {
  if (node.kind == YamlNode::Kind::list && is_index(step) && std::stoul(step) < node.items.size()) {
    node.items.erase(node.items.begin() + static_cast<std::ptrdiff_t>(std::stoul(step)));
    return true;
  }
  return std::erase_if(node.entries, [&](const YamlEntry& entry) { return entry.key == step; }) > 0;
}

void put_place(YamlNode& node, const Place& place) {
  node.place = place;
  for (YamlNode& item : node.items) put_place(item, place);
  for (YamlEntry& entry : node.entries) {
    entry.place = place;
    put_place(entry.value, place);
  }
}

enum class Null { removes, is_value };

// Sets the value at `path` to the YAML that begins in `source` at the column `value_at`. Messages show the
// place `at`. If `at` has no source, they show `source` with a caret at the value, or at a step of the path
// if `source` begins with the path (as for --set).
void set_path(YamlNode& root, const std::string& path, const std::shared_ptr<const Source>& source,
              std::size_t value_at, Null null, const Place& at, Problems& problems) {
  std::vector<std::string> steps = split(path, '.');
  std::optional<YamlNode> value = value_of(source, value_at, problems);
  if (!value) return;
  follow_short_form(root, steps);
  const bool is_null = value->kind == YamlNode::Kind::null && !trim(source->text.substr(value_at)).empty();
  const bool removes = is_null && null == Null::removes && !takes_null(steps);
  YamlNode* node = &root;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string& step = steps[i];
    const std::size_t found = source->text.substr(0, value_at).rfind(step);
    const Place place = at.source ? at : Place{source, 0, found == std::string::npos ? 0 : found};
    if (removes && i + 1 == steps.size()) {
      if (!remove_from(*node, step)) refuse_step(*node, steps, i, place, problems);
      return;
    }
    if (node->kind == YamlNode::Kind::list && is_index(step) && std::stoul(step) < node->items.size()) {
      node = &node->items[std::stoul(step)];
      continue;
    }
    const bool is_closed =
        node->kind == YamlNode::Kind::list || (node->kind == YamlNode::Kind::scalar && i > 0);
    if (is_closed || (removes && node->find(step) == nullptr))
      return refuse_step(*node, steps, i, place, problems);
    if (node->kind == YamlNode::Kind::null) node->place = place;
    node = &child(*node, step, place);
  }
  *node = std::move(*value);
  if (node->kind == YamlNode::Kind::null) node->place = {source, 0, value_at};
  if (at.source) put_place(*node, at);
}

// Applies the argument a.b=VALUE of --set.
void set_argument(YamlNode& root, const std::string& argument, Problems& problems) {
  const auto source = std::make_shared<const Source>(Source{"--set", argument});
  const std::size_t equals = argument.find('=');
  const std::string path = argument.substr(0, equals);
  const std::vector<std::string> steps = split(path, '.');
  if (equals == std::string::npos || steps.empty() || std::count(steps.begin(), steps.end(), "") > 0) {
    problems.add({source, 0, 0}, "--set needs KEY=VALUE, for example train.steps=500");
    return;
  }
  set_path(root, path, source, equals + 1, Null::removes, {}, problems);
}

// Applies the argument NAME=VALUE of -e. VALUE stays unchanged.
void set_variable(YamlNode& root, const std::string& argument, Problems& problems) {
  const auto source = std::make_shared<const Source>(Source{"-e", argument});
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add({source, 0, 0}, "-e needs NAME=VALUE");
    return;
  }
  if (!is_utf8(argument)) {
    problems.add({source, 0, 0}, "not UTF-8 text");
    return;
  }
  const Place place{source, 0, 0};
  YamlNode& env = child(root, "env", root.find("env") != nullptr ? root.find("env")->place : place);
  if (env.kind == YamlNode::Kind::null) env.place = place;
  if (env.kind == YamlNode::Kind::scalar || env.kind == YamlNode::Kind::list)
    return;  // check.cpp reports this
  child(env, argument.substr(0, equals), place) =
      text_node(argument.substr(equals + 1), {source, 0, equals + 1});
}

}  // namespace

void apply_overrides(YamlNode& root, const Overrides& overrides, Problems& problems) {
  if (!overrides.image.empty()) {
    const Place place{std::make_shared<const Source>(Source{"MLK_IMAGE", overrides.image}), 0, 0};
    if (!is_utf8(overrides.image)) problems.add(place, "not UTF-8 text");
    child(root, "image", place) = text_node(overrides.image, place);
  }
  for (const std::string& argument : overrides.env) set_variable(root, argument, problems);
  for (const std::string& argument : overrides.set) set_argument(root, argument, problems);
  for (const FlagValue& each : overrides.flags) {
    const auto source = std::make_shared<const Source>(Source{each.flag, each.value});
    set_path(root, each.path, source, 0, Null::is_value, each.at, problems);
  }
  append_arguments(root, overrides.arguments, problems);
}

std::vector<std::string> settings_of(const Overrides& overrides) {
  std::vector<std::string> settings = overrides.set;
  for (const FlagValue& each : overrides.flags) settings.push_back(each.path + "=" + each.value);
  return settings;
}

}  // namespace mlk
