#include "sweeps/space/names.h"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "cli/experiment/arguments.h"
#include "cli/experiment/schema.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

constexpr std::string_view opening = "${sweep.";

// Calls `found(begin, end, name)` for each ${sweep.NAME} of the text.
void find_names(const std::string& text,
                const std::function<void(std::size_t, std::size_t, const std::string&)>& found) {
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1)) {
    const std::size_t begin = at + opening.size(), end = text.find('}', begin);
    if (end == std::string::npos) return;
    found(at, end + 1, text.substr(begin, end - begin));
  }
}

// Calls `visit(scalar)` for each scalar of the tree. `Node`: YamlNode or const YamlNode.
template <class Node, class Visit>
void visit_scalars(Node& node, const Visit& visit) {
  if (node.kind == YamlNode::Kind::scalar) visit(node);
  for (auto& item : node.items) visit_scalars(item, visit);
  for (auto& entry : node.entries) visit_scalars(entry.value, visit);
}

// The keys whose texts may have ${sweep.NAME}: they reach a program of the user.
constexpr std::array keys_of_program{"run", "args", "env"};

// Calls `visit(scalar)` for each scalar in these keys.
template <class Visit>
void visit_program(YamlNode& root, const Visit& visit) {
  for (YamlEntry& entry : root.entries) {
    if (std::ranges::find(keys_of_program, entry.key) != keys_of_program.end())
      visit_scalars(entry.value, visit);
  }
}

// Adds the paths of the arguments of the program to `paths`.
void add_arguments(const YamlNode& args, const std::string& path, std::vector<std::string>& paths) {
  for (const YamlEntry& entry : args.entries) {
    const std::string name = path + "." + entry.key;
    if (entry.value.kind == YamlNode::Kind::map) {
      add_arguments(entry.value, name, paths);
    } else {
      paths.push_back(name);
    }
  }
}

void put_into(YamlNode& scalar, const std::map<std::string, std::string>& texts) {
  std::string out;
  std::size_t from = 0;
  find_names(scalar.text, [&](std::size_t begin, std::size_t end, const std::string& name) {
    if (begin < from) return;
    const auto value = texts.find(name);
    out += scalar.text.substr(from, begin - from);
    if (value != texts.end()) {
      out += value->second;
    } else if (name == "repeat") {
      out += "1";
    }
    from = end;
  });
  if (from > 0) scalar.text = out + scalar.text.substr(from);
}

// Whether the value at this path does not affect the program, or belongs to the sweep itself. Such a value
// cannot vary.
bool cannot_vary(const std::string& path) {
  constexpr std::array fixed{"name", "tags", "note", "sweep"};
  const std::string first = path.substr(0, path.find('.'));
  return std::find(fixed.begin(), fixed.end(), first) != fixed.end();
}

}  // namespace

std::string with_short_role(const std::string& path) {
  for (const auto& [long_form, short_form] :
       {std::pair("roles.worker.", "workers."), std::pair("roles.server.", "servers.")}) {
    if (path.starts_with(long_form)) return short_form + path.substr(std::string_view(long_form).size());
  }
  return path;
}

std::string text_of_value(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

void note_spelling(const nlohmann::json& value, const std::string& written, Spellings& spellings) {
  if (!value.is_string() && !value.is_structured() && text_of_value(value) != written)
    spellings.try_emplace(value, written);
}

std::map<std::string, std::string> texts_of(const Space& space, const Point& point) {
  std::map<std::string, std::string> out;
  for (const auto& [path, value] : point) out[path] = text_of_value(value);
  for (const Parameter& parameter : space.parameters) {
    const auto value = point.find(parameter.path);
    if (value == point.end()) continue;
    const auto written = parameter.written.find(value->second);
    if (written != parameter.written.end()) out[parameter.path] = written->second;
  }
  return out;
}

Names::Names(const YamlNode& root) {
  for (const char* key : keys_of_program) {
    const YamlNode* node = root.find(key);
    if (node == nullptr) continue;
    visit_scalars(*node, [&](const YamlNode& scalar) {
      find_names(scalar.text, [&](std::size_t, std::size_t, const std::string& name) {
        own_.insert(name);
        uses_.push_back({name, scalar.place});
      });
    });
  }
  if (root.find("run") != nullptr) own_.insert("repeat");  // sweep.repeat gives it the values 1, 2 ...
  for (const std::string& key : settable_keys()) {
    if (!cannot_vary(key)) paths_.push_back(key);
  }
  if (const YamlNode* args = root.find("args")) add_arguments(*args, "args", arguments_);
  if (const YamlNode* env = root.find("env")) {
    for (const YamlEntry& entry : env->entries) paths_.push_back("env." + entry.key);
  }
}

std::optional<std::string> Names::resolve(const std::string& written, const Place& place,
                                          Problems& problems) const {
  if (own_.count(written) == 1) return written;
  if (cannot_vary(written)) {
    problems.add(place, fmt::format("{} cannot be a parameter: it changes nothing that runs", written));
    return std::nullopt;
  }
  std::vector<std::string> named;  // the arguments of the program that the word may mean
  for (const std::string& path : arguments_) {
    if (path == "args." + written) return path;
    if (path.ends_with("." + written)) named.push_back(path);
  }
  if (named.size() == 1) return named.front();
  if (std::ranges::find(paths_, written) != paths_.end() || written.find('.') != std::string::npos)
    return with_short_role(written);
  std::vector<std::string> fitting = std::move(named), last_words(own_.begin(), own_.end());
  for (const std::string& path : arguments_) last_words.push_back(path.substr(path.rfind('.') + 1));
  for (const std::string& path : paths_) {
    last_words.push_back(path.substr(path.rfind('.') + 1));
    if (last_words.back() == written) fitting.push_back(path);
  }
  if (fitting.size() == 1) return fitting.front();
  if (!fitting.empty()) {
    problems.add(place, fmt::format("'{}' may be {}: write the whole path", written, join(fitting, " or ")));
    return std::nullopt;
  }
  const std::string near = did_you_mean(written, last_words);
  const bool may_be_argument = near.empty() && !arguments_.empty() && is_argument(written);
  problems.add(
      place, fmt::format(
                 "the experiment has no value '{0}', and neither `run` nor `env` has ${{sweep.{0}}}{1}",
                 written, may_be_argument ? "; for an argument of the program write args." + written : near));
  return std::nullopt;
}

void Names::check_all_given(const std::vector<Parameter>& parameters, Problems& problems) const {
  for (const Use& use : uses_) {
    const bool given =
        use.name == "repeat" || std::ranges::find(parameters, use.name, &Parameter::path) != parameters.end();
    if (!given)
      problems.add(use.place,
                   fmt::format("${{sweep.{0}}} has no value: the sweep has no parameter '{0}'", use.name));
  }
}

bool has_names(const YamlNode& node) {
  bool found = false;
  visit_scalars(
      node, [&](const YamlNode& scalar) { found = found || scalar.text.find(opening) != std::string::npos; });
  return found;
}

nlohmann::json json_of_experiment(YamlNode root) {
  // Turns scalars into text if JSON would lose their spelling.
  visit_program(root, [](YamlNode& scalar) {
    if (scalar.plain) scalar.plain = text_of_value(to_json(scalar)) == scalar.text;
  });
  return to_json(root);
}

void put_values(YamlNode& root, const std::map<std::string, std::string>& texts) {
  visit_program(root, [&](YamlNode& scalar) { put_into(scalar, texts); });
}

}  // namespace mlk::sweeps
