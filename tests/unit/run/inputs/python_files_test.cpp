// Tests which files of this machine a list of packages may name.
#include "cli/run/inputs/python_files.h"

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/environment_variable.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/python_files");

namespace mlk {
namespace {

namespace fs = std::filesystem;

// A folder of code with a list of packages, in the folder of an experiment, beside other folders.
struct ListOfPackages {
  TemporaryFolder folder;
  const fs::path work = folder.path() / "work", code = work / "code";
  std::vector<std::string> travelling{"requirements.txt"};

  void write(const std::string& list) const { folder.write("work/code/requirements.txt", list); }
  std::string digest(const std::vector<fs::path>& allowed = {}) const {
    return digest_of_python_files({.folder = work, .allowed = allowed},
                                  {code, code / "requirements.txt", travelling});
  }
  Error error(const std::string& list, const std::vector<fs::path>& allowed = {}) const {
    write(list);
    try {
      (void)digest(allowed);
    } catch (const Error& error) {
      return error;
    }
    return {ExitCode::ok, "accepted"};
  }
};

TEST_CASE("with --allow-files, a list of packages may name files outside of the experiment's folder") {
  const ListOfPackages list;
  for (const char* file : {"other/x.txt", "other/own.whl", "other/wheels/own.whl", "other/wheels/notes.txt"})
    list.folder.write(file, "");
  const fs::path other = list.folder.path() / "other";
  const EnvironmentVariable variable("MLK_TEST_PLACE", other.string());
  for (const std::string& line :
       {std::string("-r ../../other/x.txt"), std::string("-c ../../other/x.txt"),
        std::string("-r ${MLK_TEST_PLACE}/x.txt"), std::string("../../other/own.whl"),
        "own @ file://" + other.string() + "/%6fwn.whl", std::string("--find-links ../../other/wheels"),
        std::string("-f file://${MLK_TEST_PLACE}/wheels")}) {
    CAPTURE(line);
    const Error refused = list.error(line + "\n");
    CHECK(refused.code() == ExitCode::usage);
    CHECK(std::string(refused.what()).starts_with("code.python: "));
    CHECK(std::string(refused.what()).find("leads out of the experiment file's folder") != std::string::npos);
    CHECK(refused.hint().starts_with("if it may go to the cluster: --allow-files /"));
    CHECK(list.error(line + "\n", {other}).code() == ExitCode::ok);
  }
}

TEST_CASE("a list of packages may name files of the experiment's folder that are not hidden") {
  ListOfPackages list;
  for (const char* file : {"more.txt", "code/own.whl", "code/.hidden/more.txt", "code/.hidden/own.whl"})
    list.folder.write(std::string("work/") + file, "");
  for (const char* line :
       {"-r ../more.txt", "./own.whl", "-f .", "./gone.whl", "/gone/own.whl", "-f /gone", "six"})
    CHECK_MESSAGE(list.error(line).code() == ExitCode::ok, std::string(line));
  for (const char* line : {"-r .hidden/more.txt", ".hidden/own.whl", "-f .hidden"})
    CHECK_MESSAGE(list.error(line).code() == ExitCode::usage, std::string(line));
  // Files that travel with the code may be hidden.
  list.travelling = {".hidden/more.txt", ".hidden/own.whl", "requirements.txt"};
  for (const char* line : {"-r .hidden/more.txt", ".hidden/own.whl", "-f .hidden"})
    CHECK_MESSAGE(list.error(line).code() == ExitCode::ok, std::string(line));
}

TEST_CASE("a list of packages may not name a link that leads out of the experiment's folder") {
  ListOfPackages list;
  list.folder.write("other.txt", "");
  list.write("");
  fs::create_symlink("../../other.txt", list.code / "link.txt");
  list.travelling = {"link.txt", "requirements.txt"};
  CHECK(list.error("-r link.txt").code() == ExitCode::usage);
}

TEST_CASE("digest_of_python_files() changes if a list or wheel outside of the sent code changes") {
  ListOfPackages list;
  list.write("-r ../more.txt\n-c ../limits.txt\n-f ../wheels\n./dist/own.whl\n./gone.whl\n");
  std::vector<std::string> seen;
  for (const char* file : {"more.txt", "limits.txt", "code/dist/own.whl", "wheels/a.whl", "wheels/b.whl"})
    list.folder.write(std::string("work/") + file, "");
  for (const char* file : {"more.txt", "limits.txt", "code/dist/own.whl", "wheels/a.whl", "wheels/b.whl"}) {
    seen.push_back(list.digest());
    CHECK(list.digest() == seen.back());
    list.folder.write(std::string("work/") + file, "# changed");
  }
  seen.push_back(list.digest());
  for (const std::string& digest : seen) CHECK(digest.size() == 64);
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  // The name of a wheel says which package it is. Other files beside wheels do not matter.
  const std::string before = list.digest();
  for (const char* file : {"wheels/notes.txt", "wheels/._a.whl"})
    list.folder.write(std::string("work/") + file, "1");
  CHECK(list.digest() == before);
  fs::rename(list.work / "wheels/a.whl", list.work / "wheels/c.whl");
  CHECK(list.digest() != before);
}

TEST_CASE("digest_of_python_files() leaves out the files that are sent with the code") {
  ListOfPackages list;
  for (const char* file : {"more.txt", "dist/own.whl"})
    list.folder.write(std::string("work/code/") + file, "1");
  list.write("-r more.txt\n./dist/own.whl\n--find-links dist\nsix\n");
  const std::string all = list.digest();
  list.travelling = {"dist/own.whl", "more.txt", "requirements.txt"};
  CHECK(list.digest().empty());
  list.travelling = {"more.txt", "requirements.txt"};
  const std::string wheel = list.digest();
  CHECK(wheel != all);
  ListOfPackages other;
  for (const char* file : {"more.txt", "dist/own.whl"})
    other.folder.write(std::string("work/code/") + file, "1");
  other.write("-r more.txt\n./dist/own.whl\nsix==1\n");
  other.travelling = list.travelling;
  CHECK(other.digest() == wheel);
  // A link in the code does not bring the wheel along.
  fs::create_symlink("dist/own.whl", other.code / "link.whl");
  other.write("./link.whl\n");
  other.travelling = {"link.whl", "more.txt", "requirements.txt"};
  CHECK_FALSE(other.digest().empty());
}

TEST_CASE("a mistake in a list of packages is reported before pip runs") {
  const ListOfPackages list;
  const Error gone = list.error("-r gone.txt\n");
  CHECK(gone.code() == ExitCode::not_found);
  CHECK(std::string(gone.what()).find((list.code / "gone.txt").string()) != std::string::npos);
  CHECK(gone.hint().empty());
  CHECK(std::string(list.error("-e .\n").what()).starts_with("code.python: requirements.txt:1: '-e .'"));
}

}  // namespace
}  // namespace mlk
