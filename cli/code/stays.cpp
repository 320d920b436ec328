#include "cli/code/stays.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/util/text.h"

namespace mlk::image {
namespace {

using Paths = std::vector<std::string>;

std::string some_of(const Paths& paths) {
  constexpr std::size_t most_shown = 3;
  Paths shown;
  for (std::size_t i = 0; i < std::min(most_shown, paths.size()); ++i) shown.push_back(printable(paths[i]));
  if (paths.size() > most_shown) shown.push_back(fmt::format("and {} more", paths.size() - most_shown));
  return join(shown, ", ");
}

// The tracked paths that stay behind. A folder in `staying` represents every path in it.
Paths committed_of(const Paths& staying, const Paths& tracked) {
  Paths out;
  for (const std::string& path : staying) {
    auto each = std::lower_bound(tracked.begin(), tracked.end(), path);
    for (; each != tracked.end() && (path.ends_with('/') ? each->starts_with(path) : *each == path); ++each)
      out.push_back(*each);
  }
  return out;
}

bool is_hidden(const std::string& path) {
  const std::size_t end = path.ends_with('/') ? path.size() - 1 : path.size();
  return path[path.rfind('/', end - 1) + 1] == '.';
}

}  // namespace

Paths describe_what_stays(const Tree& tree, const Paths& tracked) {
  Paths committed = committed_of(tree.ignored, tracked), out;
  const Paths hidden = committed_of(tree.secrets, tracked);
  committed.insert(committed.end(), hidden.begin(), hidden.end());
  const auto add_line = [&](const char* what, const Paths& paths) {
    if (!paths.empty())
      out.push_back(fmt::format("code: {}: {}; name the files that the program needs in include:", what,
                                some_of(paths)));
  };
  add_line("committed files stay behind, since git would ignore them or they are hidden or usually secret",
           committed);
  add_line("left out, as git ignores it", tree.ignored);
  Paths secrets = tree.secrets;
  std::erase_if(secrets, is_hidden);
  std::erase_if(secrets, [&](const std::string& path) {
    return std::find(committed.begin(), committed.end(), path) != committed.end();
  });
  add_line("files that usually hold secrets stay behind", secrets);
  if (!tree.are_ignored_known)
    out.emplace_back(
        "code: git does not tell which files its settings ignore, so such files may travel; see: "
        "git status");
  return out;
}

bool is_lfs_pointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/v1\n") &&
         content.find("\noid sha256:") != content.npos;
}

bool may_be_lfs_pointer(std::uint64_t size) {
  constexpr std::uint64_t shortest = 100,
                          longest = 200;  // a pointer has three short lines
  return size >= shortest && size <= longest;
}

}  // namespace mlk::image
