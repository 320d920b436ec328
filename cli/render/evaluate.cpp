#include "cli/render/evaluate.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

class Evaluator {
 public:
  explicit Evaluator(const json& scope) : scope_(scope) {}

  // Returns the value of the node; nullopt if the node is left out.
  std::optional<json> value(const YamlNode& node) {
    switch (node.kind) {
      case YamlNode::Kind::map:
        return map(node);
      case YamlNode::Kind::list: {
        json out = json::array();
        for (const YamlNode& item : node.items) {
          if (std::optional<json> element = value(item)) out.push_back(std::move(*element));
        }
        return out;
      }
      case YamlNode::Kind::scalar:
        return scalar(node);
      case YamlNode::Kind::null:
        break;
    }
    return json();
  }

  Problems problems;

 private:
  std::optional<json> map(const YamlNode& node) {
    const YamlNode* condition = node.find("$if");
    if (condition != nullptr && !holds(value(*condition).value_or(json()))) return std::nullopt;
    json out = json::object();
    for (const YamlEntry& entry : node.entries) {
      if (entry.key == "$if") continue;
      if (std::optional<json> element = value(entry.value)) out[entry.key] = std::move(*element);
    }
    return out;
  }

  static bool holds(const json& condition) {
    if (condition.is_string()) return !condition.get_ref<const std::string&>().empty();
    if (condition.is_number()) return condition != 0;
    if (condition.is_boolean()) return condition.get<bool>();
    return !condition.empty();  // false for null, because null is empty
  }

  std::optional<json> scalar(const YamlNode& node) {
    const std::string& text = node.text;
    if (text.find("${") == std::string::npos) return to_json(node);
    if (text.starts_with("${") && text.find('}') == text.size() - 1) {
      const json* found = look_up(text.substr(2, text.size() - 3), node, 0);
      if (found == nullptr || found->is_null()) return std::nullopt;
      return *found;
    }
    return mixed(node);
  }

  json mixed(const YamlNode& node) {
    const std::string& text = node.text;
    std::string out;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t open = text.find("${", at);
      out += text.substr(at, open - at);
      if (open == std::string::npos) break;
      if (open > at && text[open - 1] == '$') {  // $${: the first $ is in `out` already and stays there
        out += "{";
        at = open + 2;
        continue;
      }
      const std::size_t close = text.find('}', open);
      if (close == std::string::npos) {
        problems.add(node.place, "'${' is not closed; a literal one is written $${");
        return nullptr;
      }
      const json* found = look_up(text.substr(open + 2, close - open - 2), node, open);
      if (found != nullptr) out += as_text(*found, node);
      at = close + 1;
    }
    return out;
  }

  std::string as_text(const json& found, const YamlNode& node) {
    if (found.is_string()) return found.get<std::string>();
    if (found.is_structured() || found.is_null()) {
      problems.add(node.place, "only text, numbers and booleans can become part of a text");
      return "";
    }
    return found.dump();
  }

  const json* look_up(const std::string& name, const YamlNode& node, std::size_t offset) {
    const json* at = &scope_;
    for (const std::string& step : split(name, '.')) {
      if (!at->is_object() || !at->contains(step)) {
        std::vector<std::string> known;
        if (at->is_object()) {
          for (const auto& [key, unused] : at->items()) known.push_back(key);
        }
        Place place = node.place;
        place.column += offset;
        problems.add(place, fmt::format("there is no ${{{}}}{}", name, did_you_mean(step, known)));
        return nullptr;
      }
      at = &(*at)[step];
    }
    return at;
  }

  const json& scope_;
};

}  // namespace

json evaluate(const YamlNode& node, const json& scope) {
  Evaluator evaluator(scope);
  json out = evaluator.value(node).value_or(json());
  evaluator.problems.throw_if_any();
  return out;
}

std::string name_of_template(const Templates& templates, const std::string& path) {
  const Template* file = templates.find(path);
  return file == nullptr || file->source == built_in_source ? "templates/" + path : file->source;
}

std::shared_ptr<const YamlNode> parse_template(const Templates& templates, const std::string& path) {
  const Template* file = templates.find(path);
  if (file == nullptr) throw Error(ExitCode::not_found, fmt::format("there is no template {}", path));
  return templates.tree(path, [&] { return parse_yaml(file->text, name_of_template(templates, path)); });
}

}  // namespace mlk
