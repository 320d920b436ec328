#include "cli/code/repository.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

namespace mlk::image {

Revision parse_revision(const std::string& status) {
  constexpr std::string_view commit = "# branch.oid ", branch = "# branch.head ";
  Revision out;
  out.clean = true;
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(commit)) {
      out.commit = line.substr(commit.size());
    } else if (line.starts_with(branch)) {
      out.branch = line.substr(branch.size());
    } else if (!line.empty() && !line.starts_with('#')) {
      out.clean = false;
    }
  }
  if (out.commit == "(initial)") out.commit.clear();
  if (out.branch == "(detached)") out.branch.clear();
  return out;
}

namespace {
const std::vector<std::string> harmless{"core.fsmonitor=false", "core.hooksPath=/dev/null"};

// A repository may come from a stranger. So git must not start the programs in the configuration and the
// hooks of the repository.
Command git(const std::filesystem::path& folder, const std::vector<std::string>& settings,
            const std::vector<std::string>& words) {
  constexpr std::size_t most_output = 64 << 20;
  Command command;
  command.argv = {"git"};
  for (const std::string& setting : settings) command.argv.insert(command.argv.end(), {"-c", setting});
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  command.env = {{"GIT_OPTIONAL_LOCKS", "0"},
                 {"LC_ALL", "C"},
                 {"GIT_ALLOW_PROTOCOL", "none"},  // git fetches no missing objects of a partial clone
                 {"GIT_NO_LAZY_FETCH", "1"},
                 {"GIT_TERMINAL_PROMPT", "0"}};
  command.folder = folder.string();
  command.timeout = std::chrono::seconds(10);
  command.output_limit = most_output;
  return command;
}

std::optional<std::vector<std::string>> settings_for(const std::filesystem::path& folder) {
  const ProcessResult filters =
      run_process(git(folder, {}, {"config", "--null", "--name-only", "--get-regexp", "^filter[.]"}));
  if (!filters.ok() && filters.exit_code != 1) return std::nullopt;  // 1: no such settings
  return harmless_settings(filters.output);
}

// Whether one of git's files of settings may change which files git ignores. Also true if mlk cannot read
// such a file, or does not know where the repository has its files.
bool may_settings_change_ignoring(const std::filesystem::path& repository) {
  std::error_code error;
  if (!std::filesystem::is_directory(repository / ".git", error)) return true;
  std::vector<std::filesystem::path> files{"/etc/gitconfig", repository / ".git/config"};
  if (const char* home = std::getenv("HOME")) files.push_back(std::filesystem::path(home) / ".gitconfig");
  if (const auto home = config_home_if_any()) files.push_back(home->parent_path() / "git" / "config");
  return std::any_of(files.begin(), files.end(), [&](const std::filesystem::path& file) {
    if (!std::filesystem::exists(file, error)) return false;
    try {
      constexpr std::size_t most = 1 << 20;
      return may_change_ignoring(read_file(file, most));
    } catch (const Error&) {
      return true;
    }
  });
}

// Whether a variable of git is set. Such a variable may name other files of settings.
bool has_variable_of_git() {
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::string_view(*each).starts_with("GIT_")) return true;
  }
  return false;
}

// The output of git, without the end of the line. nullopt if there is no git, or if git fails.
std::optional<std::string> answer_of_git(const std::filesystem::path& folder,
                                         const std::vector<std::string>& words) {
  try {
    ProcessResult result = run_process(git(folder, harmless, words));
    if (!result.ok()) return std::nullopt;
    if (result.output.ends_with('\n')) result.output.pop_back();
    return result.output;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::vector<std::string>> harmless_settings(const std::string& names) {
  std::vector<std::string> out = harmless;
  for (const std::string& name : split(names, '\0')) {
    const bool is_program =
        name.ends_with(".clean") || name.ends_with(".smudge") || name.ends_with(".process");
    const bool is_need = name.ends_with(".required");
    if (!is_program && !is_need) continue;
    // `git -c` ends a name at the first of these characters, so mlk cannot overrule this setting.
    if (name.find('=') != name.npos || name.find('\n') != name.npos) return std::nullopt;
    out.push_back(name + (is_need ? "=false" : "="));
  }
  return out;
}

std::optional<Revision> revision_of(const std::filesystem::path& folder) {
  try {
    const std::optional<std::vector<std::string>> settings = settings_for(folder);
    if (!settings) return std::nullopt;
    // For submodules, git would start another git without these settings. So mlk ignores changes in
    // submodules.
    const ProcessResult result = run_process(git(
        folder, *settings, {"status", "--porcelain=v2", "--branch", "--ignore-submodules=dirty", "--", "."}));
    if (result.ok()) return parse_revision(result.output);
  } catch (const Error&) {
    // There is no git, or its output is too long. Then the record of a run has no revision.
  }
  return std::nullopt;
}

std::vector<std::string> tracked_files(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  try {
    const ProcessResult result = run_process(git(folder, harmless, {"ls-files", "-z"}));
    if (!result.ok()) return out;
    for (std::string& path : split(result.output, '\0')) {
      if (!path.empty()) out.push_back(std::move(path));
    }
    std::sort(out.begin(), out.end());
  } catch (const Error&) {
    // If there is no git, the list of tracked files is empty.
  }
  return out;
}

bool may_change_ignoring(std::string_view git_config) {
  const std::string text = lower_case(std::string(git_config));
  for (const char* word : {"excludesfile", "ignorecase", "include"}) {
    if (text.find(word) != text.npos) return true;
  }
  return false;
}

IgnoreSettings ignore_settings(const std::filesystem::path& repository) {
  IgnoreSettings out;
  const auto home = config_home_if_any();
  const std::filesystem::path usual = home ? home->parent_path() / "git" / "ignore" : std::filesystem::path();
  std::optional<std::string> own, users;
  // A call of git takes as long as the listing of a small folder, so mlk calls git only if necessary.
  const bool may_change = may_settings_change_ignoring(repository);
  if (may_change || has_variable_of_git()) {
    // If the repository belongs to another user, git refuses to read it, but reads the settings of the user
    // who runs mlk.
    own = answer_of_git(repository, {"rev-parse", "--git-path", "info/exclude"});
    users = answer_of_git(repository, {"config", "--type=path", "--get", "core.excludesFile"});
    out.ignores_case =
        answer_of_git(repository, {"config", "--type=bool", "--get", "core.ignoreCase"}) == "true";
    out.are_known = own || users || !may_change;
  }
  if (users) {
    out.files.push_back(repository / *users);
  } else if (!usual.empty()) {
    out.files.push_back(usual);
  }
  out.files.push_back(repository / own.value_or(".git/info/exclude"));
  return out;
}

}  // namespace mlk::image
