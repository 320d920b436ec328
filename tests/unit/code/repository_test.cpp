// Checks what mlk reads from git about a folder, and that git starts no program of a repository.
#include "cli/code/repository.h"

#include <cstdlib>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/code/tree.h"
#include "cli/util/process.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/repository");

using mlk::image::parse_revision;
using mlk::image::Revision;

TEST_CASE(
    "parse_revision() reads commit and branch, and finds the folder unclean if a file is new or changed") {
  const std::string head =
      "# branch.oid 0123abcd\n# branch.head main\n# branch.upstream origin/main\n# branch.ab +1 -0\n";
  Revision revision = parse_revision(head);
  CHECK(revision.commit == "0123abcd");
  CHECK(revision.branch == "main");
  CHECK(revision.clean);
  CHECK_FALSE(parse_revision(head + "? new.py\n").clean);
  CHECK_FALSE(parse_revision(head + "1 .M N... 100644 100644 100644 0123 0123 train.py\n").clean);
  revision = parse_revision("# branch.oid (initial)\n# branch.head (detached)\n");
  CHECK(revision.commit.empty());
  CHECK(revision.branch.empty());
}

TEST_CASE(
    "harmless_settings() turns off every filter of git, or returns nullopt if one cannot be turned off") {
  using Settings = std::optional<std::vector<std::string>>;
  const std::vector<std::string> always{"core.fsmonitor=false", "core.hooksPath=/dev/null"};
  CHECK(mlk::image::harmless_settings("") == Settings(always));
  const std::string names("filter.lfs.clean\0filter.a b.c.process\0filter.x.required\0filter.x.other\0", 71);
  std::vector<std::string> wanted = always;
  wanted.insert(wanted.end(), {"filter.lfs.clean=", "filter.a b.c.process=", "filter.x.required=false"});
  CHECK(mlk::image::harmless_settings(names) == Settings(wanted));
  CHECK(mlk::image::harmless_settings("filter.x.smudge") ==
        Settings({always[0], always[1], "filter.x.smudge="}));
  CHECK_FALSE(mlk::image::harmless_settings("filter.a=b.clean"));
  CHECK_FALSE(mlk::image::harmless_settings("filter.a\nb.clean"));
  CHECK(mlk::image::harmless_settings("filter.a=b.other") == Settings(always));
}

TEST_CASE("ignore_settings() returns git's ignore files, or the usual ones if there is no repository") {
  const TemporaryFolder folder;
  const std::filesystem::path top = folder.path();
  CHECK(mlk::image::ignore_settings(top).files.size() <= 2);
  CHECK(mlk::image::ignore_settings(top).files.back() == top / ".git/info/exclude");
  const auto git = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "git");
    mlk::Command command;
    command.argv = words;
    command.folder = top.string();
    return mlk::run_process(command).ok();
  };
  REQUIRE(git({"init", "-q"}));
  for (const char* name : {"core.excludesFile", "core.ignoreCase"}) REQUIRE(git({"config", name, "yes"}));
  const mlk::image::IgnoreSettings found = mlk::image::ignore_settings(top);
  CHECK(found.files == std::vector<std::filesystem::path>{top / "yes", top / ".git/info/exclude"});
  CHECK(found.ignores_case);
  CHECK(found.are_known);
  REQUIRE(git({"config", "--unset", "core.excludesFile"}));
  REQUIRE(git({"config", "core.ignoreCase", "false"}));
  CHECK(mlk::image::ignore_settings(top).files.size() <= 2);
  CHECK(mlk::image::ignore_settings(top).files.back() == top / ".git/info/exclude");
  CHECK_FALSE(mlk::image::ignore_settings(top).ignores_case);
}

TEST_CASE("may_change_ignoring() is true only for settings that may change which files git ignores") {
  using mlk::image::may_change_ignoring;
  CHECK_FALSE(may_change_ignoring(""));
  CHECK_FALSE(may_change_ignoring("[core]\n\tbare = false\n[user]\n\tname = me\n"));
  CHECK(may_change_ignoring("[core]\n\texcludesFile = ~/ignore\n"));
  CHECK(may_change_ignoring("[CORE]IGNORECASE"));
  CHECK(may_change_ignoring("[include]\n\tpath = other\n"));
  CHECK(may_change_ignoring("[includeIf \"gitdir:~/other/\"]\n"));
}

TEST_CASE("revision_of() and tracked_files() start no program that the repository names") {
  const TemporaryFolder folder;
  const std::string top = folder.path().string();
  const std::string program = "sh -c 'echo ran >" + top + "/ran; cat'";
  const auto git = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-c", "user.name=x", "-c", "user.email=x@example.com"});
    mlk::Command command;
    command.argv = words;
    command.folder = top + "/src";
    return mlk::run_process(command).ok();
  };
  folder.write("src/train.py", "print()\n");
  folder.write("src/.gitattributes", "* filter=evil\n");
  REQUIRE(git({"init", "-q"}));
  REQUIRE(git({"add", "."}));
  REQUIRE(git({"commit", "-q", "-m", "x"}));
  for (const char* name :
       {"filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "core.fsmonitor"})
    REQUIRE(git({"config", name, program}));
  REQUIRE(git({"config", "filter.evil.required", "true"}));
  folder.write("src/.git/hooks/post-index-change", "#!/bin/sh\n" + program + "\n");
  std::filesystem::permissions(folder.path() / "src/.git/hooks/post-index-change",
                               std::filesystem::perms::all);
  std::filesystem::last_write_time(folder.path() / "src/train.py",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(9999));
  const std::optional<mlk::image::Revision> found = mlk::image::revision_of(folder.path() / "src");
  REQUIRE(found);
  CHECK(found->clean);
  CHECK(mlk::image::tracked_files(folder.path() / "src") ==
        std::vector<std::string>{".gitattributes", "train.py"});
  CHECK_FALSE(std::filesystem::exists(folder.path() / "ran"));
}

namespace {

// While this object lives, the process has no GIT_ variables except `values`.
class VariablesOfGit {
 public:
  explicit VariablesOfGit(const std::vector<std::pair<std::string, std::string>>& values) {
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string text = *each;
      if (text.starts_with("GIT_"))
        before_.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    }
    for (const auto& [name, value] : before_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : values) {
      const char* had = std::getenv(name.c_str());
      if (had != nullptr) before_.emplace_back(name, had);
      added_.push_back(name);
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~VariablesOfGit() {
    for (const std::string& name : added_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  VariablesOfGit(const VariablesOfGit&) = delete;
  VariablesOfGit& operator=(const VariablesOfGit&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> before_{};
  std::vector<std::string> added_{};
};

void played_git(const TemporaryFolder& folder, const std::string& script) {
  folder.write("bin/git", "#!/bin/sh\n" + script + "\n");
  std::filesystem::permissions(folder.path() / "bin/git", std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("ignore_settings() starts git only if git's files or variables may change the ignore settings") {
  using Files = std::vector<std::filesystem::path>;
  const std::string says_so = "[core]\n\tignoreCase = true\n", says_nothing = "[core]\n\tbare = false\n";
  struct Row {
    const char *file, *variable;
    std::string text;
    bool asks;  // whether git is run
  };
  for (const Row& row :
       {Row{"none", "", says_so, false}, Row{"home/.gitconfig", "", says_so, true},
        Row{"home/.gitconfig", "", says_nothing, false}, Row{"config/git/config", "", says_so, true},
        Row{"config/git/config", "", says_nothing, false}, Row{"top/.git/config", "", says_so, true},
        Row{"top/.git/config", "", says_nothing, false},
        Row{"top/.git/config", "", std::string(1 << 20, '#'), false},
        Row{"top/.git/config", "", std::string((1 << 20) + 1, '#'), true},
        Row{"none", "GIT_CONFIG_COUNT", "", true}, Row{"none", "XGIT_", "", false}}) {
    const TemporaryFolder folder;
    const std::filesystem::path top = folder.path() / "top";
    std::filesystem::create_directories(top / ".git");
    folder.write(row.file, row.text);
    played_git(folder, ": > \"${0%/*}/asked\"; exit 128");
    std::vector<std::pair<std::string, std::string>> values{
        {"PATH", (folder.path() / "bin").string()},
        {"HOME", (folder.path() / "home").string()},
        {"XDG_CONFIG_HOME", (folder.path() / "config").string()}};
    if (*row.variable != '\0') values.emplace_back(row.variable, "0");
    const VariablesOfGit variables(values);
    const Files usual{folder.path() / "config/git/ignore", top / ".git/info/exclude"};
    const mlk::image::IgnoreSettings found = mlk::image::ignore_settings(top);
    CAPTURE(row.file);
    CAPTURE(row.variable);
    CAPTURE(row.text.substr(0, 30));
    CHECK(std::filesystem::exists(folder.path() / "bin/asked") == row.asks);
    CHECK(found.files == usual);  // because the played git fails
    CHECK_FALSE(found.ignores_case);
    const bool by_file = row.asks && *row.variable == '\0';
    CHECK(found.are_known == !by_file);
  }
  const TemporaryFolder folder;
  const std::filesystem::path top = folder.path() / "top";
  std::filesystem::create_directories(top / ".git");
  const VariablesOfGit variables({{"HOME", ""}, {"XDG_CONFIG_HOME", ""}});
  CHECK(mlk::image::ignore_settings(top).files == Files{top / ".git/info/exclude"});
}

TEST_CASE("ignore_settings(), revision_of() and tracked_files() read a repository without a commit") {
  const TemporaryFolder folder;
  const std::filesystem::path top = folder.path() / "top";
  folder.write("top/f", "");
  const VariablesOfGit variables({{"HOME", (folder.path() / "home").string()},
                                  {"XDG_CONFIG_HOME", (folder.path() / "config").string()}});
  const auto git = [&](std::vector<std::string> words) {
    mlk::Command command;
    command.argv = std::move(words);
    command.folder = top.string();
    return mlk::run_process(command).ok();
  };
  REQUIRE(git({"git", "init", "-q"}));
  REQUIRE(git({"git", "config", "core.ignoreCase", "true"}));
  const mlk::image::IgnoreSettings found = mlk::image::ignore_settings(top);
  CHECK(found.files ==
        std::vector<std::filesystem::path>{folder.path() / "config/git/ignore", top / ".git/info/exclude"});
  CHECK(found.ignores_case);
  const std::optional<mlk::image::Revision> revision = mlk::image::revision_of(top);
  REQUIRE(revision);
  CHECK_FALSE(revision->clean);
  CHECK(revision->commit.empty());
  CHECK(mlk::image::tracked_files(top).empty());
  REQUIRE(git({"git", "add", "f"}));
  CHECK(mlk::image::tracked_files(top) == std::vector<std::string>{"f"});
  REQUIRE(git({"git", "config", "filter.a=b.clean", "cat"}));
  CHECK_FALSE(mlk::image::revision_of(top));
}

TEST_CASE("revision_of() and tracked_files() return nothing if there is no repository or no git") {
  const TemporaryFolder folder;
  CHECK_FALSE(mlk::image::revision_of(folder.path()));
  CHECK(mlk::image::tracked_files(folder.path()).empty());
  folder.write("top/.git", "gitdir: ../none\n");  // .git is no folder, so mlk would have to run git
  const VariablesOfGit variables({{"PATH", folder.path().string()}});
  CHECK_FALSE(mlk::image::revision_of(folder.path()));
  CHECK(mlk::image::tracked_files(folder.path()).empty());
  const mlk::image::IgnoreSettings found = mlk::image::ignore_settings(folder.path() / "top");
  CHECK(found.files.back() == folder.path() / "top/.git/info/exclude");
  CHECK_FALSE(found.are_known);
}

TEST_CASE("list_tree() leaves out ignored files even if git is missing or refuses the repository") {
  const TemporaryFolder folder;
  const std::filesystem::path top = folder.path() / "top";
  folder.write("top/.git/info/exclude", "private.txt\n");
  folder.write("config/git/ignore", "usual.txt\n");
  folder.write("home/ignore", "notes.txt\n");
  for (const char* file : {"private.txt", "usual.txt", "notes.txt", "train.py"})
    folder.write(std::string("top/") + file, "");
  const auto listed = [&](bool has_git) {
    const VariablesOfGit variables({{"PATH", (folder.path() / (has_git ? "bin" : "none")).string()},
                                    {"HOME", (folder.path() / "home").string()},
                                    {"XDG_CONFIG_HOME", (folder.path() / "config").string()},
                                    {"GIT_EDITOR", "vi"}});
    CHECK(mlk::image::ignore_settings(top).files.back() == top / ".git/info/exclude");
    return mlk::image::list_tree(top, {});
  };
  const auto paths = [](const mlk::image::Tree& tree) {
    std::vector<std::string> out;
    for (const mlk::image::TreeEntry& entry : tree.entries) out.push_back(entry.of_tar.path);
    return out;
  };
  played_git(folder, "exit 128");
  for (const bool has_git : {true, false}) {
    CHECK(paths(listed(has_git)) == std::vector<std::string>{"notes.txt", "train.py"});
    CHECK(listed(has_git).are_ignored_known);
  }
  folder.write("home/.gitconfig", "[core]\n\texcludesFile = ~/ignore\n");
  for (const bool has_git : {true, false}) CHECK_FALSE(listed(has_git).are_ignored_known);
  // This git refuses to read the repository, but returns a setting of the user.
  const std::string answer = "echo '" + (folder.path() / "home/ignore").string() + "'";
  played_git(folder, "case \"$*\" in *excludesFile) " + answer + " ;; *) exit 128 ;; esac");
  CHECK(paths(listed(true)) == std::vector<std::string>{"train.py", "usual.txt"});
  CHECK(listed(true).are_ignored_known);
}

TEST_CASE("parse_revision() ignores unknown header lines of git status") {
  CHECK(parse_revision("").clean);
  CHECK(parse_revision("\n\n# other x\n").clean);
  CHECK_FALSE(parse_revision("u UU N... x\n").clean);
  CHECK(parse_revision("# branch.head (x)\n# branch.oid initial").branch == "(x)");
  CHECK(parse_revision("# branch.oid initial").commit == "initial");
  CHECK(mlk::image::may_change_ignoring("IncludeIf"));
  CHECK_FALSE(mlk::image::may_change_ignoring("excludes file, ignore case, inclusion"));
}

TEST_CASE(
    "revision_of() ignores changes outside of the folder; tracked_files() gives paths below the folder") {
  const TemporaryFolder folder;
  const auto git = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-c", "user.name=x", "-c", "user.email=x@example.com"});
    mlk::Command command;
    command.argv = words;
    command.folder = folder.path().string();
    return mlk::run_process(command).ok();
  };
  folder.write("a/b", "1");
  folder.write("a/B", "1");
  folder.write("other/f", "1");
  REQUIRE(git({"init", "-q", "-b", "trunk"}));
  REQUIRE(git({"add", "."}));
  REQUIRE(git({"commit", "-q", "-m", "x"}));
  folder.write("other/f", "22");
  const std::optional<Revision> of_a = mlk::image::revision_of(folder.path() / "a"),
                                of_all = mlk::image::revision_of(folder.path());
  REQUIRE((of_a && of_all));
  CHECK(of_a->clean);
  CHECK_FALSE(of_all->clean);
  CHECK(of_a->branch == "trunk");
  CHECK(of_a->commit.size() == 40);
  CHECK(of_a->commit == of_all->commit);
  CHECK(mlk::image::tracked_files(folder.path() / "a") == std::vector<std::string>{"B", "b"});
  folder.write("a/new", "");
  CHECK_FALSE(mlk::image::revision_of(folder.path() / "a")->clean);
}
