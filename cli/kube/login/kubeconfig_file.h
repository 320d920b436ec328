// Reads kubeconfig files and merges a list of them, by client-go's rules.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/error.h"

namespace mlk::kube {

// Returns a scalar field of the map: text unchanged, another scalar as JSON. Any other field counts as empty.
// Pure.
std::string field_text(const nlohmann::json& map, const char* key);

// One entry of clusters, users or contexts: the fields under its `cluster:`, `user:` or `context:` (text,
// lists and maps), and the file that defined the entry.
struct KubeconfigEntry {
  std::filesystem::path file;
  std::map<std::string, std::string> text;                // scalars
  std::map<std::string, std::vector<std::string>> lists;  // lists of scalars: as-groups
  // The maps exec, auth-provider and as-user-extra; also `extensions`, a list of maps whose scalars keep
  // their YAML types.
  std::map<std::string, nlohmann::json> maps;

  bool has(const std::string& field) const;  // true if the field is a text that is not empty
  std::string get(const std::string& field) const;
};

struct Kubeconfig {
  std::map<std::string, KubeconfigEntry> clusters, users, contexts;
  std::string current_context;
};

// Pure. Throws Error{usage} for invalid text, and for more than 32 levels or 10000 values (with all aliases
// of YAML expanded). The error names the file and the mistake, and never contains a value of a user entry.
Kubeconfig parse_kubeconfig(std::string_view text, const std::filesystem::path& file);

// The whole entry of a name comes from the first file that defines the name. The current-context comes from
// the first file that sets it. Pure.
Kubeconfig merge_kubeconfigs(const std::vector<Kubeconfig>& files);

}  // namespace mlk::kube
