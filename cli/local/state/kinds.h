// The kinds of objects that the embedded cluster serves: one table for routing, discovery, schemas and lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlk::local {

struct Kind {
  std::string group{};         // empty for the core group
  std::string version = "v1";  // the same for all kinds that the cluster serves
  std::string plural{};
  std::string kind{};
  std::vector<std::string> short_names{};
  bool namespaced = true;
  bool writable = true;         // clients may create, change and delete
  bool has_status = false;      // spec and status are written by separate requests
  bool has_generation = false;  // metadata.generation counts changes of spec

  // Each of these plurals is the singular and an s.
  std::string singular() const { return plural.substr(0, plural.size() - 1); }
  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
};

const std::vector<Kind>& kinds();

// nullptr if the cluster does not serve this kind.
const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural);
const Kind& kind_of(std::string_view plural);  // plural names are unique here; throws std::out_of_range

}  // namespace mlk::local
