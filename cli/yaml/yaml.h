// YAML as a tree with the place of each value. For experiment files and templates, which people write.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/yaml/problems.h"

namespace mlk {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;    // of a scalar
  bool plain = false;  // a scalar without quotes, which may be a number
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;
  Place place;

  const YamlNode* find(std::string_view key) const;  // for a map; nullptr if there is no such key
};

struct YamlEntry {
  std::string key;
  Place place;
  YamlNode value;
};

// A scalar with this text, which is text also if it looks like a number.
YamlNode text_node(const std::string& text, const Place& place);

inline constexpr std::size_t longest_yaml = 1 << 20;  // bytes
inline constexpr std::size_t deepest_yaml = 32;       // levels

// Parses exactly one document. It is in UTF-8, without control characters except tabs and line ends, and has
// at most 1 MiB, 32 levels, and 10000 nodes after all aliases are expanded. Throws Error{usage} with all
// mistakes found. An empty text gives a null node.
YamlNode parse_yaml(std::string_view text, const std::string& source_name);

// Parses `text`, in which each value has the same line and column as in `source`. If there are mistakes, adds
// the mistakes to `problems` and returns no node.
std::optional<YamlNode> parse_yaml(const std::string& text, const std::shared_ptr<const Source>& source,
                                   Problems& problems);

// Converts any content to JSON. Plain scalars have the types of JSON, so `no`, `on`, `012`, `1_000` and
// `0x1F` are text. But `true`, `false` and `null` may also be capitalised as in YAML 1.2. Whole numbers of up
// to 64 bits are exact.
nlohmann::json to_json(const YamlNode& node);

// Whether the text is a number in the notation of JSON, so without a leading zero. is_whole_number() accepts
// only whole numbers. is_number() accepts all numbers, and also ".5" and "1.".
bool is_whole_number(std::string_view text);
bool is_number(std::string_view text);

}  // namespace mlk
