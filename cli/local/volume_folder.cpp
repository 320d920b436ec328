// Finds the folder of a volume on this machine, for commands that read the files that pods have left there.

#include <nlohmann/json.hpp>

#include "cli/local/local.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk::local {

using nlohmann::json;

std::filesystem::path volume_folder(const std::string& name_space, const std::string& name,
                                    const json& volume) {
  const Paths paths = default_paths();
  json given = json::object();
  if (std::filesystem::exists(paths.volumes())) given = json_or_null(read_file(paths.volumes(), 1 << 20));
  const auto given_for = [&](const std::string& key) { return text_of(given, {key.c_str()}); };
  const auto text = [&](const char* key) { return text_of(volume, {key}); };
  if (const std::string claim = text("pvc"); !claim.empty()) {
    const std::string folder = given_for(claim);
    return folder.empty() ? paths.claims() / name_space / claim : std::filesystem::path(folder);
  }
  if (const std::string folder = given_for(name); !folder.empty()) return folder;
  return text("hostPath");
}

}  // namespace mlk::local
