#include "cli/code/changes.h"

#include <map>

#include "cli/image/tar.h"

namespace mlk::image {
namespace {

std::map<std::string, TarFile> files_of(std::string_view tar) {
  std::map<std::string, TarFile> out;
  for (TarFile& file : read_tar(tar)) {
    const std::string path = file.entry.path;
    if (file.entry.kind != TarEntry::Kind::folder) out.emplace(path, std::move(file));
  }
  return out;
}

bool are_same(const TarFile& a, const TarFile& b) {
  return a.entry.kind == b.entry.kind && a.entry.executable == b.entry.executable &&
         a.entry.target == b.entry.target && a.content == b.content;
}

}  // namespace

std::vector<std::string> changed_paths(std::string_view before, std::string_view after) {
  const std::map<std::string, TarFile> old = files_of(before), now = files_of(after);
  std::map<std::string, std::string> out;
  for (const auto& [path, file] : old) {
    const auto other = now.find(path);
    if (other == now.end()) {
      out[path] = "-" + path;
    } else if (!are_same(file, other->second)) {
      out[path] = path;
    }
  }
  for (const auto& [path, file] : now) {
    if (!old.contains(path)) out[path] = "+" + path;
  }
  std::vector<std::string> texts;
  for (auto& [path, text] : out) texts.push_back(std::move(text));
  return texts;
}

}  // namespace mlk::image
