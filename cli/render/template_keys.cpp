#include "cli/render/template_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/experiment/values.h"
#include "cli/util/text.h"

namespace mlk {

void check_keys(const YamlNode& node, const std::vector<std::string>& known, Problems& problems) {
  for (const YamlEntry& entry : node.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string near = nearest(entry.key, known);
    problems.add(entry.place, fmt::format("unknown key '{}'; {}", entry.key,
                                          near.empty() ? "there are " + join(known, ", ")
                                                       : fmt::format("did you mean '{}'?", near)));
  }
}

YamlNode child_of(const YamlNode& node, const char* key, YamlNode::Kind kind, Problems& problems) {
  const YamlNode* found = node.find(key);
  if (found == nullptr) return {};
  if (found->kind != kind) {
    problems.add(found->place,
                 fmt::format("{} must be {}, not {}", key, kind == YamlNode::Kind::map ? "a map" : "a list",
                             describe(*found)));
    return {};
  }
  return *found;
}

}  // namespace mlk
