#include "cli/util/files.h"

#include <fcntl.h>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/process.h"
#include "tests/unit/util/environment_variable.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("util/files");

using mlk::Error;
using mlk::ExitCode;

namespace {

ExitCode read_code(const std::filesystem::path& path, std::size_t limit = 1000) {
  try {
    mlk::read_file(path, limit);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace

TEST_CASE("read_file() returns a whole file whose size is within the limit") {
  const TemporaryFolder folder;
  const std::string text("a\0b\n", 4);
  CHECK(mlk::read_file(folder.write("x", text), 4) == text);
  CHECK(read_code(folder.path() / "x", 3) == ExitCode::usage);
  CHECK(mlk::read_file(folder.write("empty", ""), 0).empty());
}

TEST_CASE("read_file() refuses folders, missing files and devices other than /dev/null") {
  const TemporaryFolder folder;
  CHECK(read_code(folder.path() / "nothing") == ExitCode::not_found);
  CHECK(read_code(folder.path()) == ExitCode::usage);
  CHECK(read_code("/dev/zero") == ExitCode::usage);
  CHECK(mlk::read_file("/dev/null", 10).empty());
}

TEST_CASE("read_file() refuses a file of one tebibyte") {
  const TemporaryFolder folder;
  const auto file = folder.write("sparse", "");
  std::filesystem::resize_file(file, std::uintmax_t(1) << 40);
  CHECK(read_code(file) == ExitCode::usage);
}

TEST_CASE("visit_folder() visits all entries of a folder, and names a folder that it cannot read") {
  const TemporaryFolder folder;
  folder.write("a", "");
  folder.write("b", "");
  std::set<std::string> names;
  mlk::visit_folder(folder.path(), [&](const auto& entry) { names.insert(entry.path().filename()); });
  CHECK(names == std::set<std::string>{"a", "b"});
  const auto problem = [&](const std::string& name) {
    try {
      mlk::visit_folder(folder.path() / name, [](const auto&) {});
    } catch (const Error& error) {
      return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
    }
    return std::string("visited");
  };
  const std::string here = folder.path().string() + "/";
  CHECK(problem("none") == "3: there is no folder " + here + "none");
  CHECK(problem("a") == "3: there is no folder " + here + "a");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK(problem("loop").starts_with("1: cannot read the folder " + here + "loop: "));
}

TEST_CASE("run_process() returns all that a child process reads from a named pipe") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  mlk::Command command;
  command.argv = {"sh", "-c", "(printf hello > " + pipe.string() + ") & exec cat " + pipe.string()};
  CHECK(mlk::run_process(command).output == "hello");
}

TEST_CASE("read_descriptor() reads a non-blocking socket to its end") {
  const auto read_from = [](const std::string& sent, std::size_t limit) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::thread writer([&] {
      ::send(ends[1], sent.data(), sent.size(), MSG_NOSIGNAL);
      ::close(ends[1]);
    });
    std::string result;
    try {
      result = mlk::read_descriptor(ends[0], "standard input", limit);
    } catch (const Error& error) {
      result = error.what();
    }
    ::close(ends[0]);
    writer.join();
    return result;
  };
  CHECK(read_from("name: x", 7) == "name: x");
  CHECK(read_from("name: x", 6) == "standard input is too large: more than 6 bytes");
}

TEST_CASE("write_file_atomically() replaces the file and leaves no temporary file") {
  const TemporaryFolder folder;
  const auto file = folder.write("x", "old");
  mlk::write_file_atomically(file, "new text", 0600);
  CHECK(mlk::read_file(file, 100) == "new text");
  struct stat info{};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  CHECK(count == 1);
}

TEST_CASE("write_file_atomically() leaves no temporary file if the write fails") {
  const TemporaryFolder folder;
  const std::string nowhere = folder.path() / "no" / "such" / "folder";
  CHECK_THROWS_WITH_AS(mlk::write_file_atomically(nowhere, "x"),
                       ("cannot write " + nowhere + ": No such file or directory").c_str(), Error);
  std::filesystem::create_directory(folder.path() / "taken");
  CHECK_THROWS_AS(mlk::write_file_atomically(folder.path() / "taken", "x"), Error);
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  CHECK(count == 1);
}

TEST_CASE("the folders of mlk follow XDG, with defaults below HOME") {
  const EnvironmentVariable home("HOME", "/home/someone");
  {
    const EnvironmentVariable state("XDG_STATE_HOME", "/state"), config("XDG_CONFIG_HOME", "relative"),
        cache("XDG_CACHE_HOME", std::nullopt);
    CHECK(mlk::state_home() == "/state/mlk");
    CHECK(mlk::config_home() == "/home/someone/.config/mlk");  // relative paths are ignored
    CHECK(mlk::cache_home() == "/home/someone/.cache/mlk");
  }
  const EnvironmentVariable none("HOME", std::nullopt), state("XDG_STATE_HOME", std::nullopt);
  CHECK_THROWS_AS(mlk::state_home(), Error);
}

TEST_CASE("write_file_atomically() follows no link at the place of the temporary file") {
  const TemporaryFolder folder;
  const std::filesystem::path victim = folder.write("victim", "untouched");
  std::filesystem::create_symlink(victim, folder.path() / ("x.tmp-" + std::to_string(::getpid())));
  mlk::write_file_atomically(folder.path() / "x", "new");
  CHECK(mlk::read_file(victim, 99) == "untouched");
  CHECK(mlk::read_file(folder.path() / "x", 99) == "new");
  CHECK(mlk::beside("a/x") != mlk::beside("a/x"));
  CHECK(mlk::beside("a/x").parent_path() == "a");
}
