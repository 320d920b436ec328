#include "cli/run/state/differences.h"

#include <set>

#include <nlohmann/json.hpp>

#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "cli/yaml/yaml.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using Values = std::map<std::string, std::string>;  // by path; a value that is not text is written as JSON

constexpr std::size_t most_shown = 6;
constexpr std::size_t longest_value = 40;

void flatten(const json& value, const std::string& path, std::size_t depth,
             std::map<std::string, json>& out) {
  if (!value.is_object() || value.empty() || depth == deepest_yaml) {
    out[path] = value;
    return;
  }
  for (const auto& [key, below] : value.items())
    flatten(below, path.empty() ? key : path + "." + key, depth + 1, out);
}

std::string as_shown(const std::string& path, const Values& values) {
  const auto found = values.find(path);
  if (found == values.end()) return "";
  std::string value = printable(found->second);
  if (value.size() > longest_value) value = std::string(cut(value, longest_value)) + "...";
  return printable(path) + "=" + value;
}

}  // namespace

std::map<std::string, json> values_by_path(const json& experiment) {
  std::map<std::string, json> out;
  if (experiment.is_object()) flatten(experiment, "", 0, out);
  return out;
}

std::map<std::string, std::string> differences_of(const std::vector<RunStatus>& runs) {
  std::map<std::string, std::vector<std::pair<std::string, Values>>> by_name;
  std::map<std::string, std::string> differences;
  for (const RunStatus& run : runs) {
    differences[run.run] = "";
    if (!run.experiment.is_object()) continue;  // for example a sweep: it has no experiment
    Values values;
    json experiment = run.experiment;
    // These keys have their own column, or are not part of the run's identity.
    for (const char* key : {"tags", "note", "mode"}) experiment.erase(key);
    for (const auto& [path, value] : values_by_path(experiment)) values[path] = text_or_json(value);
    by_name[run.name].emplace_back(run.run, std::move(values));
  }
  for (const auto& [name, same_name] : by_name) {
    std::set<std::string> paths, differing;
    for (const auto& [run, values] : same_name) {
      for (const auto& [path, value] : values) paths.insert(path);
    }
    for (const std::string& path : paths) {
      std::set<std::string> texts;
      for (const auto& [run, values] : same_name) {
        const auto found = values.find(path);
        texts.insert(found == values.end()
                         ? ""
                         : "=" +
                               found->second);  // compared in full, although only the beginning may be shown
      }
      if (texts.size() > 1) differing.insert(path);
    }
    for (const auto& [run, values] : same_name) {
      std::vector<std::string> parts;
      for (const std::string& path : differing) {
        if (const std::string text = as_shown(path, values); !text.empty()) parts.push_back(text);
      }
      const bool many = parts.size() > most_shown;
      if (many) parts.resize(most_shown);
      differences[run] = join(parts, " ") + (many ? " ..." : "");
    }
  }
  return differences;
}

}  // namespace mlk
