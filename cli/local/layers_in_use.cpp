#include <algorithm>
#include <cctype>
#include <set>

#include "cli/local/local.h"
#include "cli/local/state/state_folder.h"
#include "cli/util/error.h"
#include "cli/util/files.h"

namespace mlk::local {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_object = 64 << 20;

void add_of_files(const fs::path& folder, std::set<std::string>& names) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  visit_folder(folder, [&](const fs::directory_entry& entry) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) return add_of_files(entry.path(), names);
    if (entry.path().extension() != ".json") return;
    try {
      names.merge(layers_named_in(read_file(entry.path(), longest_object)));
    } catch (const Error& failed) {
      if (failed.code() != ExitCode::not_found) throw;  // otherwise the file was deleted meanwhile
    }
  });
}

}  // namespace

std::set<std::string> layers_named_in(std::string_view text) {
  constexpr std::size_t digits = 64;
  std::set<std::string> out;
  for (const std::string_view kind : {std::string_view("code-"), std::string_view("python-")}) {
    for (std::size_t at = text.find(kind); at != text.npos; at = text.find(kind, at + 1)) {
      const std::string_view digest = text.substr(at + kind.size(), digits);
      const bool is_digest = digest.size() == digits && std::all_of(digest.begin(), digest.end(), [](char c) {
                               return std::isxdigit(static_cast<unsigned char>(c)) != 0;
                             });
      if (is_digest) out.emplace(text.substr(at, kind.size() + digits));
    }
  }
  return out;
}

std::set<std::string> layers_in_use() {
  std::set<std::string> out;
  if (!state_home_if_any()) return out;
  const Paths paths = default_paths();
  add_of_files(paths.objects(), out);
  return out;
}

}  // namespace mlk::local
