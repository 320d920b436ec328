// Reads pip's report of the packages that pip would install, and pins these packages. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/image/pip.h"

namespace mlk::image {

// One package that pip would install, from the report of `pip install --dry-run`.
struct ResolvedPackage {
  std::string name, version;
  std::string digest;  // "sha256=..."
  std::string url{};   // without a login; empty for a package from an index
};

// Returns the packages sorted. Throws Error{failure} if `report` is no report, or was made for other values
// of markers. Throws Error{usage} for a package that is no wheel or has no digest: without a digest mlk would
// not notice that a package has changed since mlk cached it.
std::vector<ResolvedPackage> parse_pip_report(const std::string& report, const MarkerEnvironment& markers);

// A file of requirements for exactly these packages. `urls`: the URLs as the user wrote them, with logins.
std::string pinned(const std::vector<ResolvedPackage>& packages, const std::vector<std::string>& urls);

// The names of the programs in entry_points.txt of a package, and the script of each. A script has the same
// text on every machine.
std::vector<std::pair<std::string, std::string>> entry_scripts(const std::string& entry_points);

// The last package that pip began to collect, as pip's output names it: "own@ git+https://... (from other)".
std::string last_collected(const std::string& output);

// The text with *** in place of logins and queries of URLs, since a query may contain a token.
std::string without_secrets(std::string text);

}  // namespace mlk::image
