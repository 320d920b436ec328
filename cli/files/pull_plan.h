// Decides which files of a run come home, and where they go. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/files/file_source.h"

namespace mlk {

// How the folder of a run in its volume looks to the user.
struct RunTree {
  bool has_one_rank = false;  // then the folder of the rank is left out
  std::string only{};         // the rank or trial that the user wants; empty: all
  // Whether the files beside the outputs are checkpoints of the run, and so are shown below checkpoints/.
  bool has_checkpoints = false;
};

// The path of an entry as the user sees it: outputs/0/out/a is out/a or 0/out/a, and step-10/x is
// checkpoints/step-10/x. nullopt: the entry is not shown, or its path would lead out of its folder.
std::optional<std::string> shown_path(const FileEntry& entry, const RunTree& tree);

// Whether the path stays below its folder, and has no control characters.
bool is_safe_path(const std::string& path);
// Whether a link at the path to the target stays below the folder of the path's first part.
bool is_safe_link(const std::string& path, const std::string& target);

struct ShownEntry {
  std::string shown;  // for the user, and below the destination
  FileEntry entry;
};

// The entries that the user wants, by paths as the user sees them; a folder means all that is in it. Without
// paths: all but checkpoints, or the checkpoints if there is nothing else. Throws Error{not_found} for a path
// without entries, with the nearest path as a hint.
std::vector<ShownEntry> chosen_entries(std::vector<ShownEntry> all, const std::vector<std::string>& paths);

inline constexpr char checkpoints_name[] = "checkpoints";

}  // namespace mlk
