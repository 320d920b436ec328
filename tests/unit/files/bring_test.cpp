// Files that come home are whole or not there, and nothing is written elsewhere.
#include "cli/files/bring.h"

#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/files/arriving_file.h"
#include "cli/files/folder_source.h"
#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("files/bring");

namespace mlk {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Home {
  TemporaryFolder source, target;
  std::size_t read = 0;  // bytes that came

  static void nothing() {}
  std::vector<ShownEntry> entries() {
    std::vector<ShownEntry> out;
    for (const FileEntry& entry : FolderSource(source.path(), nothing).list().entries)
      out.push_back({entry.path, entry});
    return out;
  }
  Brought bring_entries(const std::vector<ShownEntry>& all) {
    FolderSource from(source.path(), nothing);
    const Brought out = bring(from, all, target.path(), [](const Brought&) {});
    read = out.bytes;
    return out;
  }
  Brought bring_all() { return bring_entries(entries()); }
};

TEST_CASE("files come with their folders, links, modes and times, and only once") {
  Home home;
  home.source.write("out/a", "one");
  home.source.write("out/sub/run.sh", "two");
  fs::permissions(home.source.path() / "out/sub/run.sh", fs::perms::owner_all);
  fs::create_directories(home.source.path() / "empty");
  fs::create_symlink("sub/run.sh", home.source.path() / "out/link");
  CHECK(home.bring_all().files == 2);
  CHECK(text_in(home.target.path() / "out/a") == "one");
  CHECK(fs::is_directory(home.target.path() / "empty"));
  CHECK(fs::read_symlink(home.target.path() / "out/link") == "sub/run.sh");
  CHECK((fs::status(home.target.path() / "out/sub/run.sh").permissions() & fs::perms::owner_exec) !=
        fs::perms::none);
  CHECK(fs::last_write_time(home.target.path() / "out/a") ==
        fs::last_write_time(home.source.path() / "out/a"));
  const Brought again = home.bring_all();
  CHECK(again.files == 0);
  CHECK(again.there_already == 2);
  home.source.write("out/a", "changed");
  CHECK(home.bring_all().files == 1);
  CHECK(text_in(home.target.path() / "out/a") == "changed");
}

TEST_CASE("a file that was cut off continues where it stopped") {
  Home home;
  const std::string content(100'000, 'c');
  home.source.write("big", content);
  const ShownEntry entry = home.entries().at(0);
  std::ofstream(part_of(home.target.path() / "big", entry.entry)) << content.substr(0, 70'000);
  CHECK(home.bring_all().files == 1);
  CHECK(home.read == 30'000);
  CHECK(text_in(home.target.path() / "big") == content);
}

TEST_CASE("the part of an earlier state of a file is not continued") {
  Home home;
  home.source.write("big", std::string(1000, 'a'));
  const ShownEntry earlier = home.entries().at(0);
  std::ofstream(part_of(home.target.path() / "big", earlier.entry)) << std::string(500, 'a');
  home.source.write("big", std::string(1000, 'b'));
  fs::last_write_time(home.source.path() / "big", fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK(home.bring_all().files == 1);
  CHECK(home.read == 1000);
  // The same, if the file changes after the list was read.
  std::ofstream(part_of(home.target.path() / "big2", earlier.entry)) << "";
  const Brought late = home.bring_entries({{"big2", earlier.entry}});
  CHECK(late.problems.empty());
  CHECK(text_in(home.target.path() / "big2") == std::string(1000, 'b'));
}

TEST_CASE("a file with another digest does not get its name") {
  const TemporaryFolder folder;
  FileEntry entry{.path = "a", .mode = 0644, .size = 5};
  ArrivingFile file(folder.path() / "a", entry);
  file.add("hello");
  CHECK_THROWS_WITH_AS(file.finish(std::string(64, '0'), 0), doctest::Contains("its digest differs"), Error);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("nothing is written through a link at the destination") {
  Home home;
  const TemporaryFolder elsewhere;
  home.source.write("out/a", "one");
  fs::create_symlink(elsewhere.path(), home.target.path() / "out");
  const Brought brought = home.bring_all();
  CHECK(brought.files == 0);
  REQUIRE_FALSE(brought.problems.empty());
  CHECK(brought.problems.back().find("is there already, and is no folder") != std::string::npos);
  CHECK(fs::is_empty(elsewhere.path()));
}

TEST_CASE("paths and links that lead out of the destination are problems") {
  Home home;
  home.source.write("a", "one");
  std::vector<ShownEntry> entries = home.entries();
  entries[0].shown = "../a";
  entries.push_back({"link", {.kind = FileEntry::Kind::link, .path = "link", .target = "/etc/passwd"}});
  const Brought brought = home.bring_entries(entries);
  CHECK(brought.problems.size() == 2);
  CHECK(fs::is_empty(home.target.path()));
}

TEST_CASE("a file that has gone meanwhile is a problem, and the others come") {
  Home home;
  home.source.write("a", "one");
  home.source.write("b", "two");
  const std::vector<ShownEntry> entries = home.entries();
  fs::remove(home.source.path() / "a");
  const Brought brought = home.bring_entries(entries);
  CHECK(brought.problems == std::vector<std::string>{"a: No such file or directory"});
  CHECK(text_in(home.target.path() / "b") == "two");
}

TEST_CASE("a full disk is an error that names the file, and what came is used later") {
  Home home;
  home.source.write("big", std::string(1'000'000, 'x'));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 300'000, .rlim_max = 300'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      (void)home.bring_all();
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("cannot write") == 0 ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK_FALSE(fs::exists(home.target.path() / "big"));
  CHECK(home.bring_all().files == 1);
  CHECK(home.read == 700'000);
}

}  // namespace
}  // namespace mlk
