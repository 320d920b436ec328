#include "cli/experiment/check.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/suggest.h"
#include "cli/experiment/values.h"

namespace mlk {

using nlohmann::json;

namespace {

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void unknown_key(const YamlEntry& entry, const Section& section, const std::string& path,
                 Problems& problems) {
  const std::string in = path.empty() ? "" : fmt::format(" in {}", path);
  problems.add(entry.place,
               fmt::format("unknown key '{}'{}{}", entry.key, in, suggest_key(entry.key, section, path)));
}

bool expect(YamlNode::Kind kind, const YamlNode& node, const std::string& path, Problems& problems,
            const std::string& advice = "") {
  if (node.kind == kind) return true;
  const char* expected = kind == YamlNode::Kind::map ? "a map" : "a list";
  problems.add(node.place,
               node.kind == YamlNode::Kind::null
                   ? fmt::format("{} has no value; it must be {}", path, expected)
                   : fmt::format("{} must be {}, not {}{}", path, expected, describe(node), advice));
  return false;
}

json check_key(const YamlNode& node, const Key& key, const std::string& path, Problems& problems) {
  const bool is_map = node.kind == YamlNode::Kind::map || node.kind == YamlNode::Kind::null;
  if (key.type == Type::path_section && !is_map) {
    YamlNode map;
    map.kind = YamlNode::Kind::map;
    map.place = node.place;
    map.entries.push_back({"path", node.place, node});
    return check_section(map, schema_section(key.detail), path, problems);
  }
  if (key.type == Type::texts && key.detail == "or one" && node.kind == YamlNode::Kind::scalar) {
    YamlNode list;
    list.kind = YamlNode::Kind::list;
    list.place = node.place;
    list.items.push_back(node);
    return check_value(list, key, path, problems);
  }
  if (key.type == Type::section || key.type == Type::path_section)
    return check_section(node, schema_section(key.detail), path, problems);
  if (key.type == Type::sections) {
    json out = json::array();
    if (!expect(YamlNode::Kind::list, node, path, problems)) return out;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      out.push_back(
          check_section(node.items[i], schema_section(key.detail), fmt::format("{}[{}]", path, i), problems));
    }
    return out;
  }
  if (key.type == Type::section_map) {
    json out = json::object();
    if (!expect(YamlNode::Kind::map, node, path, problems)) return out;
    for (const YamlEntry& entry : node.entries) {
      out[entry.key] =
          check_section(entry.value, schema_section(key.detail), join_path(path, entry.key), problems);
    }
    return out;
  }
  return check_value(node, key, path, problems);
}

}  // namespace

json check_section(const YamlNode& node, const Section& section, const std::string& path,
                   Problems& problems) {
  json out = json::object();
  if (!expect(YamlNode::Kind::map, node, path.empty() ? "the file" : path, problems,
              suggest_section(node, section.name, path)))
    return out;
  for (const YamlEntry& entry : node.entries) {
    const auto known = std::find_if(section.keys.begin(), section.keys.end(),
                                    [&](const Key& key) { return key.name == entry.key; });
    if (known == section.keys.end()) {
      unknown_key(entry, section, path, problems);
      continue;
    }
    out[entry.key] = check_key(entry.value, *known, join_path(path, entry.key), problems);
  }
  for (const Key& key : section.keys) {
    if (out.contains(key.name) || key.fallback.empty()) continue;
    if (key.fallback == required) {
      problems.add(node.place, fmt::format("{} is missing: {}", join_path(path, key.name), key.doc));
      continue;
    }
    // Checks the default like a value of the file, so that the sections in the default get their defaults
    // too.
    YamlNode fallback = parse_yaml(key.fallback, "default");
    fallback.place = node.place;
    out[std::string(key.name)] = check_key(fallback, key, join_path(path, key.name), problems);
  }
  return out;
}

}  // namespace mlk
