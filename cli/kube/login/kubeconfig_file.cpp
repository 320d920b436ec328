#include "cli/kube/login/kubeconfig_file.h"

#include <cmath>
#include <cstdint>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/surrogate_pairs.h"

namespace mlk::kube {
namespace {

using json = nlohmann::json;

Error broken(const std::filesystem::path& file, const std::string& what) {
  return Error(ExitCode::usage, "kubeconfig " + file.string() + ": " + what);
}

// Limits that no real kubeconfig reaches. Without them, a few bytes of YAML with aliases could make a huge or
// endless tree.
constexpr std::size_t deepest = 32;
constexpr std::size_t most_values = 10000;

Error too_deep(const std::filesystem::path& file) {
  return broken(file, "nested deeper than " + std::to_string(deepest) + " levels");
}

std::string text_of(const YAML::Node& scalar) { return show_surrogate_pairs(scalar.Scalar()); }

// Converts a scalar. With quotes or with the tag !!str, a scalar is text; otherwise its form decides its
// type.
json typed_scalar(const YAML::Node& node) {
  const std::string text = text_of(node);
  if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;
  bool truth = false;
  std::int64_t number = 0;
  double fraction = 0;
  if (YAML::convert<bool>::decode(node, truth)) return truth;
  if (YAML::convert<std::int64_t>::decode(node, number)) return number;
  if (YAML::convert<double>::decode(node, fraction) && std::isfinite(fraction)) return fraction;
  return text;
}

// Converts YAML to JSON with every scalar as text, because the code that reads a field knows the field's
// type. Only scalars in extensions keep their types, because extensions belong to other programs.
class YamlReader {
 public:
  explicit YamlReader(const std::filesystem::path& file) : file_(file) {}

  json to_json(const YAML::Node& node, std::size_t depth = 1, bool typed = false) {
    if (depth > deepest) throw too_deep(file_);
    if (++values_ > most_values) {
      throw broken(file_,
                   "more than " + std::to_string(most_values) + " values with all aliases written out");
    }
    if (node.IsScalar()) return typed ? typed_scalar(node) : json(text_of(node));
    if (node.IsSequence()) {
      json list = json::array();
      for (const YAML::Node& item : node) list.push_back(to_json(item, depth + 1, typed));
      return list;
    }
    if (node.IsMap()) {
      json map = json::object();
      for (const auto& pair : node) {
        if (!pair.first.IsScalar()) continue;
        const std::string key = text_of(pair.first);
        map[key] = to_json(pair.second, depth + 1, typed || key == "extensions");
      }
      return map;
    }
    return nullptr;
  }

 private:
  const std::filesystem::path& file_;
  std::size_t values_ = 0;
};

json parse_text(std::string_view text, const std::filesystem::path& file) {
  if (text.find('\0') != std::string_view::npos) throw broken(file, "not a text file");
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return nullptr;  // an empty file is an empty configuration
  if (text[start] == '{') {
    const JsonBounds bounds{.depth = deepest, .values = most_values};
    if (const std::string why = over_bounds(text, bounds); !why.empty()) throw broken(file, why);
    json parsed = json_or_null(text, bounds);
    if (!parsed.is_null()) return parsed;  // otherwise the text may be YAML in braces
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(hide_surrogate_pairs(text));
    return documents.empty() ? json() : YamlReader(file).to_json(documents.front());
  } catch (const YAML::Exception& error) {
    // The message of yaml-cpp names the construct and never a value, so mlk may show it.
    const std::string where =
        error.mark.is_null() ? "" : "line " + std::to_string(error.mark.line + 1) + ": ";
    throw broken(file, where + error.msg);
  }
}

KubeconfigEntry entry_of(const json& fields, const std::filesystem::path& file, const std::string& what) {
  KubeconfigEntry entry;
  entry.file = file;
  if (fields.is_null()) return entry;
  if (!fields.is_object()) throw broken(file, what + " is not a map");
  for (const auto& [key, value] : fields.items()) {
    if (value.is_object() || (key == "extensions" && value.is_array())) {
      entry.maps[key] = value;
    } else if (value.is_array()) {
      for (const json& item : value) {
        if (item.is_primitive() && !item.is_null()) entry.lists[key].push_back(text_or_json(item));
      }
    } else if (!value.is_null()) {
      entry.text[key] = text_or_json(value);
    }
  }
  return entry;
}

// clusters: [{name: x, cluster: {...}}]
std::map<std::string, KubeconfigEntry> entries_of(const json& config, const char* plural,
                                                  const char* singular, const std::filesystem::path& file) {
  std::map<std::string, KubeconfigEntry> entries;
  const auto list = config.find(plural);
  if (list == config.end() || list->is_null()) return entries;
  if (!list->is_array()) throw broken(file, std::string(plural) + " is not a list");
  for (const json& item : *list) {
    if (!item.is_object()) throw broken(file, std::string("an entry of ") + plural + " is not a map");
    const std::string name = field_text(item, "name");
    const std::string what = std::string(singular) + " \"" + name + "\"";
    const bool added = entries.emplace(name, entry_of(at_path(item, {singular}), file, what)).second;
    if (!added) throw broken(file, "duplicate name \"" + name + "\" in " + plural);
  }
  return entries;
}

}  // namespace

std::string field_text(const json& map, const char* key) {
  const auto found = map.find(key);
  if (found == map.end() || found->is_null() || found->is_structured()) return "";
  return text_or_json(*found);
}

bool KubeconfigEntry::has(const std::string& field) const { return !get(field).empty(); }

std::string KubeconfigEntry::get(const std::string& field) const {
  const auto found = text.find(field);
  return found == text.end() ? "" : found->second;
}

Kubeconfig parse_kubeconfig(std::string_view text, const std::filesystem::path& file) {
  const json config = parse_text(text, file);
  Kubeconfig out;
  if (config.is_null()) return out;
  if (!config.is_object()) throw broken(file, "not a map: is this a kubeconfig?");
  if (const std::string kind = mlk::text_of(config, {"kind"}); !kind.empty() && kind != "Config")
    throw broken(file, "kind is \"" + kind + "\", not Config");
  out.clusters = entries_of(config, "clusters", "cluster", file);
  out.users = entries_of(config, "users", "user", file);
  out.contexts = entries_of(config, "contexts", "context", file);
  out.current_context = field_text(config, "current-context");
  return out;
}

Kubeconfig merge_kubeconfigs(const std::vector<Kubeconfig>& files) {
  Kubeconfig merged;
  for (const Kubeconfig& file : files) {
    merged.clusters.insert(file.clusters.begin(), file.clusters.end());
    merged.users.insert(file.users.begin(), file.users.end());
    merged.contexts.insert(file.contexts.begin(), file.contexts.end());
    if (merged.current_context.empty()) merged.current_context = file.current_context;
  }
  return merged;
}

}  // namespace mlk::kube
