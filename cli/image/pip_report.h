// What pip says it would install, and how exactly that is installed. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/image/pip.h"

namespace mlk::image {

// What pip would install, sorted, from the report of `pip install --dry-run`.
struct ResolvedPackage {
  std::string name, version;
  std::string digest;  // "sha256=..."
  std::string url{};   // of one that is not from an index; without a login
};

// Throws Error: failure for what is no report, or one that was made for other values of markers; usage for a
// package whose digest pip does not know, since what is kept of it could not be told from what it is later.
std::vector<ResolvedPackage> parse_pip_report(const std::string& report, const MarkerEnvironment& markers);

// A file of requirements for exactly these. `urls`: as they are written, with logins.
std::string pinned(const std::vector<ResolvedPackage>& packages, const std::vector<std::string>& urls);

// The programs that entry_points.txt of a package names, and the text of each, the same on every machine.
std::vector<std::pair<std::string, std::string>> entry_scripts(const std::string& entry_points);

// What pip was about to look at when it was stopped, from its output: "own@ git+https://... (from other)".
std::string last_collected(const std::string& output);

}  // namespace mlk::image
