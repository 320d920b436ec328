#include "cli/image/tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/image/ignore.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 100'000;
constexpr std::size_t deepest = 200;  // folders in each other
constexpr std::size_t longest_ignore_file = 1 << 20;

constexpr char usually_left_out[] = R"(
.git
.hg
.svn
.jj
__pycache__/
*.py[co]
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.tox/
.nox/
node_modules/
.DS_Store
.env
.env.*
.netrc
.ssh/
.aws/
.kube/
.gnupg/
)";

// The folder of the repository in which `folder` lies; empty if it lies in none.
fs::path repository_of(const fs::path& folder) {
  std::error_code error;
  for (fs::path each = folder;; each = each.parent_path()) {
    if (fs::exists(each / ".git", error)) return each;
    if (each == each.parent_path()) return {};
  }
}

class Lister {
 public:
  Lister(const fs::path& top, const TreeRules& rules) : top_(top), rules_(rules), includes_(rules.include) {
    usual_.add(usually_left_out, "");
    for (const std::string& line : rules.exclude) excludes_.add(line, "");
    read_ignore_files_above();
  }

  Tree list() {
    visit("", false, 0);
    std::sort(out_.entries.begin(), out_.entries.end(),
              [](const TreeEntry& a, const TreeEntry& b) { return a.of_tar.path < b.of_tar.path; });
    std::sort(out_.no_files.begin(), out_.no_files.end());
    out_.vain = includes_.vain();
    return std::move(out_);
  }

 private:
  void visit(const std::string& folder, bool left_out, std::size_t depth) {
    if (depth > deepest)
      throw Error(ExitCode::usage, fmt::format("code: {} has more than {} folders in each other",
                                               printable(top_.string()), deepest));
    if (!left_out)
      read_ignore_files(top_ / folder, folder.empty() && !above_.empty() ? above_.substr(0, above_.size() - 1)
                                                                         : above_ + folder);
    visit_folder(top_ / folder, [&](const fs::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      add(entry, folder.empty() ? name : folder + "/" + name, left_out, depth);
    });
  }

  // Those of the folders above count in the repository of the folder, as they do for git.
  void read_ignore_files_above() {
    std::error_code error;
    const fs::path real = fs::canonical(top_, error);
    if (error) return;  // listing it says why
    const fs::path repository = repository_of(real);
    if (repository.empty() || repository == real) return;
    above_ = real.lexically_relative(repository).generic_string() + "/";
    fs::path folder = repository;
    for (const fs::path& part : real.lexically_relative(repository)) {
      read_ignore_files(folder,
                        folder == repository ? "" : folder.lexically_relative(repository).generic_string());
      folder /= part;
    }
    // A folder that the repository leaves out is none of its.
    for (std::size_t at = above_.find('/'); at != above_.npos; at = above_.find('/', at + 1)) {
      if (!of_git_.leaves_out(above_.substr(0, at), true).value_or(false)) continue;
      of_git_ = of_mlk_ = {};
      above_.clear();
    }
  }

  void read_ignore_files(const fs::path& folder, const std::string& name) {
    for (auto [file, rules] : {std::pair(".gitignore", &of_git_), std::pair(".mlkignore", &of_mlk_)}) {
      std::error_code error;
      if (fs::is_regular_file(folder / file, error))
        rules->add(read_file(folder / file, longest_ignore_file), name);
    }
  }

  // The first that has a rule for the path decides.
  bool is_left_out(const std::string& path, bool is_folder) const {
    if (const std::optional<bool> out = excludes_.leaves_out(path, is_folder)) return *out;
    if (usual_.leaves_out(path, is_folder).value_or(false)) return true;
    if (const std::optional<bool> out = of_mlk_.leaves_out(above_ + path, is_folder)) return *out;
    return of_git_.leaves_out(above_ + path, is_folder).value_or(false) ||
           (is_folder && is_made_by_tools(path));
  }

  // Virtual environments of Python, and the folders that are marked as caches (bford.info/cachedir).
  bool is_made_by_tools(const std::string& path) const {
    std::error_code error;
    return fs::exists(top_ / path / "pyvenv.cfg", error) || fs::exists(top_ / path / "CACHEDIR.TAG", error);
  }

  void add(const fs::directory_entry& entry, const std::string& path, bool in_left_out, std::size_t depth) {
    if (std::find(rules_.never.begin(), rules_.never.end(), path) != rules_.never.end()) return;
    std::error_code error;
    const fs::file_status status = entry.symlink_status(error);
    if (error) throw Error(ExitCode::failure, fmt::format("code: {}: {}", shown(path), error.message()));
    const bool is_folder = fs::is_directory(status);
    const bool left_out = (in_left_out || is_left_out(path, is_folder)) && !includes_.matches(path);
    if (is_folder) {
      const std::size_t before = out_.entries.size();
      if (!left_out || includes_.may_match_below(path)) visit(path, left_out, depth + 1);
      if (!left_out || out_.entries.size() > before)
        append({{.path = path, .kind = TarEntry::Kind::folder}, 0});
    } else if (!left_out) {
      add_file(entry, status, path);
    }
  }

  void add_file(const fs::directory_entry& entry, const fs::file_status& status, const std::string& path) {
    std::error_code error;
    if (fs::is_symlink(status)) {
      const fs::path target = fs::read_symlink(entry.path(), error);
      if (error) throw Error(ExitCode::failure, fmt::format("code: {}: {}", shown(path), error.message()));
      if (!leads_inside(path, target.string()))
        throw Error(
            ExitCode::usage,
            fmt::format("code: {} is a link that leads out of the folder, to {}", shown(path),
                        printable(target.string())),
            fmt::format("leave it out with exclude: [/{}], or put what it leads to on a volume (data:)",
                        printable(path)));
      append({{.path = path, .kind = TarEntry::Kind::link, .target = target.string()}, 0});
    } else if (fs::is_regular_file(status)) {
      const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
      const std::uintmax_t size = entry.file_size(error);
      if (error) throw Error(ExitCode::failure, fmt::format("code: {}: {}", shown(path), error.message()));
      append({{.path = path, .kind = TarEntry::Kind::file, .executable = executable}, size});
    } else {
      out_.no_files.push_back(path);
    }
  }

  void append(TreeEntry entry) {
    if (out_.entries.size() == most_entries)
      throw Error(ExitCode::usage,
                  fmt::format("code: {} has more than {} files", printable(top_.string()), most_entries),
                  "leave folders out with exclude: or a file .mlkignore, or put data on a volume (data:)");
    out_.entries.push_back(std::move(entry));
  }

  std::string shown(const std::string& path) const { return printable((top_ / path).string()); }

  const fs::path& top_;
  const TreeRules& rules_;
  std::string
      above_;  // the way from the repository to the top, with a slash at its end; empty if there is none
  IgnoreRules usual_, excludes_;
  IgnoreRules of_git_, of_mlk_;  // for paths from the repository
  Includes includes_;
  Tree out_;
};

}  // namespace

Tree list_tree(const fs::path& folder, const TreeRules& rules) { return Lister(folder, rules).list(); }

}  // namespace mlk::image
