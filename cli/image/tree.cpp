#include "cli/image/tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/image/folder.h"
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
    visit(read_folder(top_, Links::are_followed), "", false, 0);
    set_statuses();
    std::sort(out_.entries.begin(), out_.entries.end(),
              [](const TreeEntry& a, const TreeEntry& b) { return a.of_tar.path < b.of_tar.path; });
    std::sort(out_.no_files.begin(), out_.no_files.end());
    out_.vain = includes_.vain();
    return std::move(out_);
  }

 private:
  using Kind = NamedEntry::Kind;

  // What rules say of a path. Nothing brings back a folder that tools have made but a rule that keeps it.
  enum class Verdict { travels, travels_unless_made_by_tools, stays };

  // Its files first, so that few folders are open at once.
  void visit(Folder folder, const std::string& path, bool left_out, std::size_t depth) {
    if (depth > deepest)
      throw Error(ExitCode::usage, fmt::format("code: {} has more than {} folders in each other",
                                               printable(top_.string()), deepest));
    if (!left_out && (has(folder, ".gitignore") || has(folder, ".mlkignore")))
      read_ignore_files(
          top_ / path, path.empty() && !above_.empty() ? above_.substr(0, above_.size() - 1) : above_ + path);
    std::vector<std::string> files, folders;
    for (NamedEntry& entry : folder.entries) {
      std::string below = path.empty() ? entry.name : path + "/" + entry.name;
      if (std::find(rules_.never.begin(), rules_.never.end(), below) != rules_.never.end()) continue;
      if (entry.kind == Kind::folder) {
        folders.push_back(std::move(below));
      } else if (includes_.matches(below) || (!left_out && verdict_on(below, false) != Verdict::stays)) {
        if (entry.kind == Kind::file) files.push_back(std::move(entry.name));
        add_file(entry.kind, std::move(below));
      }
    }
    statuses_.ask(folder, (top_ / path).string(), std::move(files));
    folder = {};
    for (const std::string& each : folders) add_folder(each, left_out, depth + 1);
  }

  void add_folder(const std::string& path, bool in_left_out, std::size_t depth) {
    const bool included = includes_.matches(path), may_hold_included = includes_.may_match_below(path);
    const Verdict verdict = in_left_out ? Verdict::stays : verdict_on(path, true);
    if (verdict == Verdict::stays && !included && !may_hold_included) return;
    Folder folder = read_folder(top_ / path, Links::are_refused);
    const bool stays = verdict == Verdict::stays ||
                       (verdict == Verdict::travels_unless_made_by_tools && is_made_by_tools(folder));
    const bool left_out = stays && !included;
    if (left_out && !may_hold_included) return;
    const std::size_t before = out_.entries.size();
    visit(std::move(folder), path, left_out, depth);
    if (!left_out || out_.entries.size() > before)
      append({.of_tar = {.path = path, .kind = TarEntry::Kind::folder}});
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
  Verdict verdict_on(const std::string& path, bool is_folder) const {
    const auto as_verdict = [](bool out) { return out ? Verdict::stays : Verdict::travels; };
    if (const std::optional<bool> out = excludes_.leaves_out(path, is_folder)) return as_verdict(*out);
    if (usual_.leaves_out(path, is_folder).value_or(false)) return Verdict::stays;
    const std::string with_above = above_.empty() ? "" : above_ + path;
    const std::string& from_repository = above_.empty() ? path : with_above;
    if (const std::optional<bool> out = of_mlk_.leaves_out(from_repository, is_folder))
      return as_verdict(*out);
    return of_git_.leaves_out(from_repository, is_folder).value_or(false)
               ? Verdict::stays
               : Verdict::travels_unless_made_by_tools;
  }

  static bool has(const Folder& folder, std::string_view name) {
    return std::any_of(folder.entries.begin(), folder.entries.end(),
                       [&](const NamedEntry& entry) { return entry.name == name; });
  }

  // Virtual environments of Python, and the folders that are marked as caches (bford.info/cachedir).
  static bool is_made_by_tools(const Folder& folder) {
    return has(folder, "pyvenv.cfg") || has(folder, "CACHEDIR.TAG");
  }

  void add_file(Kind kind, std::string path) {
    if (kind == Kind::file)
      return append({.of_tar = {.path = std::move(path), .kind = TarEntry::Kind::file}});
    if (kind == Kind::other) return out_.no_files.push_back(std::move(path));
    std::error_code error;
    const std::string target = fs::read_symlink(top_ / path, error).string();
    const std::string shown = printable((top_ / path).string());
    if (error) throw Error(ExitCode::failure, fmt::format("code: {}: {}", shown, error.message()));
    if (!leads_inside(path, target))
      throw Error(
          ExitCode::usage,
          fmt::format("code: {} is a link that leads out of the folder, to {}", shown, printable(target)),
          fmt::format("leave it out with exclude: [/{}], or put what it leads to on a volume (data:)",
                      printable(path)));
    append({.of_tar = {.path = path, .kind = TarEntry::Kind::link, .target = target}});
  }

  void set_statuses() {
    const std::vector<FileStatus> statuses = statuses_.answers();
    auto status = statuses.begin();
    for (TreeEntry& entry : out_.entries) {
      if (entry.of_tar.kind != TarEntry::Kind::file) continue;
      entry.size = status->size;
      entry.stamp = status->stamp;
      entry.of_tar.executable = status->executable;
      ++status;
    }
  }

  void append(TreeEntry entry) {
    if (out_.entries.size() == most_entries)
      throw Error(ExitCode::usage,
                  fmt::format("code: {} has more than {} files", printable(top_.string()), most_entries),
                  "leave folders out with exclude: or a file .mlkignore, or put data on a volume (data:)");
    out_.entries.push_back(std::move(entry));
  }

  const fs::path& top_;
  const TreeRules& rules_;
  std::string
      above_;  // the way from the repository to the top, with a slash at its end; empty if there is none
  IgnoreRules usual_, excludes_;
  IgnoreRules of_git_, of_mlk_;  // for paths from the repository
  Includes includes_;
  Statuses statuses_;
  Tree out_;
};

}  // namespace

Tree list_tree(const fs::path& folder, const TreeRules& rules) { return Lister(folder, rules).list(); }

}  // namespace mlk::image
