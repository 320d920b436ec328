#include "cli/files/pull_plan.h"

#include <algorithm>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::string_view outputs = "outputs/";

bool is_below_path(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

std::string tidy(std::string path) {
  while (path.starts_with("./")) path.erase(0, 2);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

bool is_safe_path(const std::string& path) {
  constexpr std::size_t longest = 4000;
  if (path.empty() || path.size() > longest) return false;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

bool is_safe_link(const std::string& path, const std::string& target) {
  if (target.empty() || target.starts_with('/')) return false;
  std::size_t depth = split(path, '/').size() - 1;  // of the folder of the link
  for (const std::string& part : split(target, '/')) {
    if (part == "..") {
      if (depth == 0) return false;
      --depth;
    } else if (!part.empty() && part != ".") {
      ++depth;
    }
  }
  return true;
}

std::optional<std::string> shown_path(const FileEntry& entry, const RunTree& tree) {
  if (!is_safe_path(entry.path)) return std::nullopt;
  if (!entry.path.starts_with(outputs)) {
    if (!tree.has_checkpoints || entry.path == "outputs" || !tree.only.empty()) return std::nullopt;
    return std::string(checkpoints_name) + "/" + entry.path;
  }
  const std::string below = entry.path.substr(outputs.size());
  const std::size_t slash = below.find('/');
  if (!tree.only.empty() && below.substr(0, slash) != tree.only) return std::nullopt;
  if (!tree.has_one_rank && tree.only.empty()) return below;
  return slash == below.npos ? std::nullopt : std::optional(below.substr(slash + 1));
}

std::vector<ShownEntry> chosen_entries(std::vector<ShownEntry> all, const std::vector<std::string>& paths) {
  std::vector<ShownEntry> out;
  if (paths.empty()) {
    const auto is_checkpoint = [](const ShownEntry& each) {
      return is_below_path(each.shown, checkpoints_name);
    };
    for (const ShownEntry& each : all) {
      if (!is_checkpoint(each)) out.push_back(each);
    }
    return out.empty() ? all : out;
  }
  std::vector<bool> is_wanted(all.size(), false);
  for (const std::string& written : paths) {
    const std::string path = tidy(written);
    bool found = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_below_path(all[i].shown, path)) continue;
      is_wanted[i] = found = true;
    }
    if (found) continue;
    std::vector<std::string> known;
    for (const ShownEntry& each : all) known.push_back(each.shown);
    throw Error(ExitCode::not_found, "the run has no file " + printable(path) + did_you_mean(path, known),
                "mlk pull --list shows all of them");
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_wanted[i]) out.push_back(std::move(all[i]));
  }
  return out;
}

}  // namespace mlk
