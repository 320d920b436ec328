#include "cli/experiment/outputs.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;

constexpr std::size_t most_folders = 16, longest_path = 255;

std::string wrong_with_path(const std::string& written, const std::string& tidy) {
  if (written.starts_with('/'))
    return fmt::format(
        "{} is absolute; outputs names folders below the one in which the program starts, and "
        "the program finds a folder for anything else in $MLK_OUTPUTS",
        printable(written));
  const std::vector<std::string> parts = split(tidy, '/');
  if (std::find(parts.begin(), parts.end(), "..") != parts.end() || tidy == ".")
    return fmt::format("{} is no folder below the one in which the program starts", printable(written));
  if (tidy.size() > longest_path || tidy.starts_with('-') || printable(tidy) != tidy)
    return fmt::format(
        "{} cannot be the name of an output: it has at most {} printable characters, and does "
        "not begin with '-'",
        printable(written), longest_path);
  return "";
}

}  // namespace

std::string tidy_outputs(json& effective) {
  if (!effective.contains("outputs") || !at_path(effective, {"outputs", "path"}).is_array()) return "";
  json& paths = effective["outputs"]["path"];
  if (paths.empty()) return "outputs names no folder";
  if (paths.size() > most_folders) return fmt::format("outputs names more than {} folders", most_folders);
  std::vector<std::string> folders;
  for (json& path : paths) {
    const auto written = path.get<std::string>();
    std::string tidy = std::filesystem::path(written).lexically_normal().string();
    while (tidy.size() > 1 && tidy.ends_with('/')) tidy.pop_back();
    if (std::string wrong = wrong_with_path(written, tidy); !wrong.empty()) return wrong;
    for (const std::string& other : folders) {
      if (other == tidy || other.starts_with(tidy + "/") || tidy.starts_with(other + "/"))
        return fmt::format("outputs names {} and {}, of which one is in the other", other, tidy);
    }
    folders.push_back(tidy);
    path = tidy;
  }
  return "";
}

}  // namespace mlk
