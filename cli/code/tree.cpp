#include "cli/code/tree.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/code/ignore.h"
#include "cli/code/repository.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/own_files.h"
#include "cli/util/text.h"
#include "cli/util/thread_pool.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t deepest = 200;  // nested folders
constexpr std::size_t longest_ignore_file = 1 << 20;
constexpr std::size_t most_helpers = 3;  // more threads would wait for each other in the kernel
constexpr std::size_t many_folders = 8;  // mlk lists fewer folders in less time than a thread needs to start

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
slurm-[0-9]*.out
nohup.out
events.out.tfevents.*
*~
\#*#
)";

// Hidden names, and names of files that usually hold keys or logins. The exceptions are hidden names that
// describe the folder.
constexpr char usually_secret[] = R"(
.*
!.gitignore
!.gitattributes
!.gitmodules
!.gitkeep
!.keep
!.mlkignore
!.dockerignore
!.python-version
_netrc
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
*.pem
*.p12
*.pfx
*.ppk
credentials.json
kubeconfig
)";

// The top folder of the repository that contains `folder`; empty if there is no such repository.
fs::path repository_of(const fs::path& folder) {
  std::error_code error;
  for (fs::path each = folder;; each = each.parent_path()) {
    if (fs::exists(each / ".git", error)) return each;
    if (each == each.parent_path()) return {};
  }
}

// The rules in the ignore files of a folder and of the folders above it. Paths are relative to the
// repository. The rules of the deepest folder have priority.
struct IgnoreFiles {
  IgnoreRules of_mlk{}, of_git;
  std::shared_ptr<const IgnoreFiles> above;

  static std::optional<bool> leave_out(const IgnoreFiles* files, IgnoreRules IgnoreFiles::* rules,
                                       const std::string& path, bool is_folder) {
    for (; files != nullptr; files = files->above.get()) {
      if (const std::optional<bool> out = (files->*rules).leaves_out(path, is_folder)) return out;
    }
    return std::nullopt;
  }
};

// The part of one folder that travels. Several threads each fill in one Listing.
struct Listing {
  std::string path;                // from the top, with a slash at its end; empty for the top
  bool is_empty = false;           // the folder has no content at all, and travels
  std::vector<TreeEntry> files{};  // files and links, in the order of the bytes of their paths
  std::vector<std::string> no_files{}, secrets{}, ignored{};
  std::deque<Listing> folders{};

  std::string_view name() const { return std::string_view(path).substr(0, path.size() - 1); }
};

// Whether the folder travels. If the whole content of a folder stays behind, the folder stays behind too:
// files that tools leave there must not give the same code another digest.
bool holds_something(const Listing& folder) {
  return folder.is_empty || !folder.files.empty() ||
         std::any_of(folder.folders.begin(), folder.folders.end(), holds_something);
}

// Moves all entries to `to` in the order of the bytes of their paths. In this order "a-b" is between "a" and
// "a/c".
void put_in_order(Listing& from, Tree& to) {
  // Has each folder twice: once for its entry, and once for its content.
  std::vector<std::pair<std::string_view, Listing*>> folders;
  for (Listing& folder : from.folders) {
    folders.emplace_back(folder.name(), &folder);
    folders.emplace_back(folder.path, &folder);
  }
  std::sort(folders.begin(), folders.end());
  auto file = from.files.begin();
  const auto put_files_before = [&](std::string_view path) {
    for (; file != from.files.end() && file->of_tar.path < path; ++file)
      to.entries.push_back(std::move(*file));
  };
  for (const auto& [path, folder] : folders) {
    put_files_before(path);
    if (path.ends_with('/')) {
      put_in_order(*folder, to);
    } else if (holds_something(*folder)) {
      to.entries.push_back({.of_tar = {.path = std::string(path), .kind = TarEntry::Kind::folder}});
    }
  }
  to.entries.insert(to.entries.end(), std::move_iterator(file), std::move_iterator(from.files.end()));
  for (auto [of, all] : {std::pair(&from.no_files, &to.no_files), std::pair(&from.secrets, &to.secrets),
                         std::pair(&from.ignored, &to.ignored)})
    all->insert(all->end(), of->begin(), of->end());
}

class Lister {
 public:
  Lister(const fs::path& top, const TreeRules& rules, std::size_t most_entries)
      : top_(top), rules_(rules), most_entries_(most_entries), includes_(rules.include) {
    usual_.add(usually_left_out, "");
    secret_.add(usually_secret, "");
    for (const std::string& line : rules.exclude) excludes_.add(line, "");
  }

  Tree list() {
    Listing top;
    ThreadPool pool({.most = most_helpers, .when_waiting = many_folders});
    pool_ = &pool;
    begin(top, {.verdict = Verdict::travels, .ignore_files = ignore_files_above()});
    pool.work();
    Tree out;
    out.entries.reserve(count_);
    put_in_order(top, out);
    for (auto* list : {&out.no_files, &out.secrets, &out.ignored}) std::sort(list->begin(), list->end());
    out.vain = includes_.vain();
    out.are_ignored_known = are_ignored_known_;
    return out;
  }

 private:
  using Kind = NamedEntry::Kind;

  // The decision of the rules on a path. Folders that tools have made, and files that mlk has written, travel
  // only if a rule explicitly keeps them (Verdict::travels).
  enum class Verdict { travels, travels_unless_made_by_tools, stays, stays_as_secret, stays_for_git };
  static bool stays(Verdict verdict) { return verdict >= Verdict::stays; }

  // The facts about a folder that the listing of its parent folder has found.
  struct Found {
    Verdict verdict;
    bool included = false, may_hold_included = false;
    std::size_t depth = 0;
    std::shared_ptr<const IgnoreFiles> ignore_files;  // of the folders above
  };

  void begin(Listing& to, Found found) {
    pool_->add([this, &to, found = std::move(found)] { list_folder(to, found); });
  }

  void list_folder(Listing& to, const Found& found) {
    if (found.depth > deepest)
      throw Error(ExitCode::usage, fmt::format("code: {} has more than {} folders in each other",
                                               printable(top_.string()), deepest));
    Folder folder = read_folder(top_, to.path);
    const bool is_out = stays(found.verdict) || (found.verdict == Verdict::travels_unless_made_by_tools &&
                                                 is_made_by_tools(folder, to.path));
    const bool left_out = is_out && !found.included;
    if (left_out && !found.may_hold_included) return;
    to.is_empty = !left_out && folder.entries.empty();
    if (!left_out && !to.path.empty()) count_one();
    auto ignore_files = found.ignore_files;
    if (!left_out && (has(folder, ".gitignore") || has(folder, ".mlkignore")))
      ignore_files =
          read_ignore_files(top_ / to.path, without_end(above_ + to.path), std::move(ignore_files));
    std::sort(folder.entries.begin(), folder.entries.end(),
              [](const NamedEntry& a, const NamedEntry& b) { return a.name < b.name; });
    const auto verdict = [&](const std::string& path, bool is_folder) {
      return left_out ? Verdict::stays : verdict_on(path, is_folder, ignore_files.get());
    };
    to.files.reserve(folder.entries.size());
    for (const NamedEntry& entry : folder.entries) {
      std::string path = to.path + entry.name;
      if (path.size() >= longest_path)
        throw Error(ExitCode::usage, fmt::format("code: {} has a path that is too long: more than {} bytes",
                                                 printable(top_.string()), longest_path - 1));
      if (std::find(rules_.never.begin(), rules_.never.end(), path) != rules_.never.end()) continue;
      if (entry.kind != Kind::folder) {
        const Verdict on_file = includes_.matches(path) ? Verdict::travels : verdict(path, false);
        note_what_stays(on_file, path, to);
        if (on_file == Verdict::travels_unless_made_by_tools && is_written_by_mlk(folder, entry)) continue;
        if (!stays(on_file)) add_file(folder, entry.kind, std::move(path), to);
        continue;
      }
      Found below{.verdict = verdict(path, true),
                  .included = includes_.matches(path),
                  .may_hold_included = includes_.may_match_below(path),
                  .depth = found.depth + 1,
                  .ignore_files = ignore_files};
      if (stays(below.verdict) && !below.included && !below.may_hold_included) {
        note_what_stays(below.verdict, path + "/", to);
        continue;
      }
      to.folders.push_back({.path = std::move(path) + "/"});
      begin(to.folders.back(), std::move(below));
    }
    ask_for_statuses(folder, to);
  }

  static void note_what_stays(Verdict verdict, const std::string& path, Listing& to) {
    if (verdict == Verdict::stays_as_secret) to.secrets.push_back(path);
    if (verdict == Verdict::stays_for_git) to.ignored.push_back(path);
  }

  // Reads the statuses of files, in separate tasks if there are many files.
  void ask_for_statuses(const Folder& folder, Listing& to) {
    constexpr std::size_t at_once = 500;
    std::size_t first = 0;
    const auto ask = [this, &to, open = folder.open](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ask_for_status(*open, to.files[i]);
    };
    for (; to.files.size() - first > at_once; first += at_once)
      pool_->add([ask, first] { ask(first, first + at_once); });
    ask(first, to.files.size());
  }

  void ask_for_status(DIR& folder, TreeEntry& entry) const {
    if (entry.of_tar.kind != TarEntry::Kind::file) return;
    const FileStatus status = status_of(folder, top_, entry.of_tar.path);
    entry.size = status.size;
    entry.stamp = status.stamp;
    entry.of_tar.executable = status.executable;
  }

  // The rules of the ignore files above the listed folder, up to the top of the repository, as in git.
  std::shared_ptr<const IgnoreFiles> ignore_files_above() {
    std::error_code error;
    const fs::path real = fs::canonical(top_, error);
    if (error) return nullptr;  // the listing reports the error
    const fs::path repository = repository_of(real);
    if (repository.empty()) return nullptr;
    std::shared_ptr<const IgnoreFiles> files = git_ignores(repository);
    if (repository == real) return files;
    above_ = real.lexically_relative(repository).generic_string() + "/";
    fs::path folder = repository;
    for (const fs::path& part : real.lexically_relative(repository)) {
      files = read_ignore_files(
          folder, folder == repository ? "" : folder.lexically_relative(repository).generic_string(),
          std::move(files));
      folder /= part;
    }
    // If the repository ignores this folder, the folder does not belong to the repository, so the rules of
    // the repository do not apply.
    for (std::size_t at = above_.find('/'); at != above_.npos; at = above_.find('/', at + 1)) {
      const std::string path = above_.substr(0, at);
      if (!IgnoreFiles::leave_out(files.get(), &IgnoreFiles::of_git, path, true).value_or(false)) continue;
      above_.clear();
      return nullptr;
    }
    return files;
  }

  // The rules of git's ignore files that are not named .gitignore: the user's file and the repository's file.
  std::shared_ptr<const IgnoreFiles> git_ignores(const fs::path& repository) {
    const IgnoreSettings settings = ignore_settings(repository);
    case_for_git_ = settings.ignores_case ? Case::is_ignored : Case::counts;
    are_ignored_known_ = settings.are_known;
    std::shared_ptr<const IgnoreFiles> out;
    for (const fs::path& file : settings.files) {
      const auto rules =
          std::make_shared<IgnoreFiles>(IgnoreFiles{.of_git = IgnoreRules(case_for_git_), .above = out});
      add_rules_of(file, "", rules->of_git);
      out = rules;
    }
    return out;
  }

  std::shared_ptr<const IgnoreFiles> read_ignore_files(const fs::path& folder, const std::string& name,
                                                       std::shared_ptr<const IgnoreFiles> above) const {
    auto out = std::make_shared<IgnoreFiles>(
        IgnoreFiles{.of_git = IgnoreRules(case_for_git_), .above = std::move(above)});
    add_rules_of(folder / ".gitignore", name, out->of_git);
    add_rules_of(folder / ".mlkignore", name, out->of_mlk);
    return out;
  }

  static void add_rules_of(const fs::path& file, const std::string& folder, IgnoreRules& rules) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) rules.add(read_file(file, longest_ignore_file), folder);
  }

  // Asks the sources of rules in the order of their priority, until one of them decides.
  Verdict verdict_on(const std::string& path, bool is_folder, const IgnoreFiles* files) const {
    const auto as_verdict = [](bool out) { return out ? Verdict::stays : Verdict::travels; };
    if (const std::optional<bool> out = excludes_.leaves_out(path, is_folder)) return as_verdict(*out);
    if (usual_.leaves_out(path, is_folder).value_or(false)) return Verdict::stays;
    if (secret_.leaves_out(path, is_folder).value_or(false)) return Verdict::stays_as_secret;
    const std::string with_above = above_.empty() ? "" : above_ + path;
    const std::string& from_repository = above_.empty() ? path : with_above;
    const auto said = [&](IgnoreRules IgnoreFiles::* rules) {
      return IgnoreFiles::leave_out(files, rules, from_repository, is_folder);
    };
    if (const std::optional<bool> out = said(&IgnoreFiles::of_mlk)) return as_verdict(*out);
    return said(&IgnoreFiles::of_git).value_or(false) ? Verdict::stays_for_git
                                                      : Verdict::travels_unless_made_by_tools;
  }

  static bool has(const Folder& folder, std::string_view name) {
    return std::any_of(folder.entries.begin(), folder.entries.end(),
                       [&](const NamedEntry& entry) { return entry.name == name; });
  }

  // Whether the folder is a virtual environment of Python, is marked as a cache (bford.info/cachedir), or
  // holds runs that Weights & Biases, MLflow or Lightning has recorded.
  static bool is_made_by_tools(const Folder& folder, std::string_view path) {
    const auto is_called = [&](const char* name) { return ("/" + std::string(path)).ends_with(name); };
    return has(folder, "pyvenv.cfg") || has(folder, "CACHEDIR.TAG") ||
           (is_called("/wandb/") && has(folder, "latest-run")) ||
           (is_called("/mlruns/") && (has(folder, "0") || has(folder, ".trash"))) ||
           (is_called("/lightning_logs/") && has(folder, "version_0"));
  }

  // Whether mlk itself wrote the file, such as a report. Such a file is no part of the program.
  static bool is_written_by_mlk(const Folder& folder, const NamedEntry& entry) {
    return entry.kind == Kind::file && may_be_own_file(entry.name) &&
           is_own_file(beginning_of(*folder.open, entry.name, longest_sign));
  }

  void add_file(const Folder& folder, Kind kind, std::string path, Listing& to) {
    if (kind == Kind::other) return to.no_files.push_back(std::move(path));
    count_one();
    if (kind == Kind::file)
      return to.files.push_back({.of_tar = {.path = std::move(path), .kind = TarEntry::Kind::file}});
    const std::string target = link_target(*folder.open, top_, path);
    const std::string shown = printable((top_ / path).string());
    if (!leads_inside(path, target))
      throw Error(
          ExitCode::usage,
          fmt::format("code: {} is a link that leads out of the folder, to {}", shown, printable(target)),
          fmt::format("leave it out with exclude: [/{}], or put what it leads to on a volume (data:)",
                      printable(path)));
    to.files.push_back({.of_tar = {.path = path, .kind = TarEntry::Kind::link, .target = target}});
  }

  void count_one() {
    if (count_++ == most_entries_)
      throw Error(ExitCode::usage,
                  fmt::format("code: {} has more than {} files", printable(top_.string()), most_entries_),
                  "leave folders out with exclude: or a file .mlkignore, or put data on a volume (data:)");
  }

  static std::string without_end(std::string path) {
    if (!path.empty()) path.pop_back();
    return path;
  }

  const fs::path& top_;
  const TreeRules& rules_;
  const std::size_t most_entries_;
  std::string
      above_;  // the path from the top of the repository to top_, with a slash at its end; may be empty
  IgnoreRules usual_, secret_, excludes_;
  Case case_for_git_ = Case::counts;
  bool are_ignored_known_ = true;
  Includes includes_;
  ThreadPool* pool_ = nullptr;
  std::atomic<std::size_t> count_ = 0;  // of entries
};

}  // namespace

Tree list_tree(const fs::path& folder, const TreeRules& rules, std::size_t most_entries) {
  return Lister(folder, rules, most_entries).list();
}

}  // namespace mlk::image
