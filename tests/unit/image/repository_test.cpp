// What is read of git's answer.
#include "cli/image/repository.h"

#include <doctest/doctest.h>

#include "cli/util/process.h"
#include "tests/unit/util/temporary_folder.h"

using mlk::image::parse_revision;
using mlk::image::Revision;

TEST_CASE("commit and branch are read, and a changed or unknown file means that the folder is not clean") {
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
    "settings overrule every filter of a repository, and a name that cannot be overruled keeps git away") {
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

TEST_CASE("git says by which files it ignores, and nothing of a folder that is no repository") {
  const TemporaryFolder folder;
  const std::filesystem::path top = folder.path();
  CHECK(mlk::image::ignore_settings(top).files.empty());
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
  REQUIRE(git({"config", "--unset", "core.excludesFile"}));
  REQUIRE(git({"config", "core.ignoreCase", "false"}));
  CHECK(mlk::image::ignore_settings(top).files.size() <= 2);
  CHECK(mlk::image::ignore_settings(top).files.back() == top / ".git/info/exclude");
  CHECK_FALSE(mlk::image::ignore_settings(top).ignores_case);
}

TEST_CASE("git is asked what it ignores only where a file of its settings may say so") {
  using mlk::image::may_change_ignoring;
  CHECK_FALSE(may_change_ignoring(""));
  CHECK_FALSE(may_change_ignoring("[core]\n\tbare = false\n[user]\n\tname = me\n"));
  CHECK(may_change_ignoring("[core]\n\texcludesFile = ~/ignore\n"));
  CHECK(may_change_ignoring("[CORE]IGNORECASE"));
  CHECK(may_change_ignoring("[include]\n\tpath = other\n"));
  CHECK(may_change_ignoring("[includeIf \"gitdir:~/work/\"]\n"));
}

TEST_CASE("git starts no program that the repository names, and says what it has of the folder") {
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
