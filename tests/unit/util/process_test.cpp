#include "cli/util/process.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("util/process");

using mlk::Command;
using mlk::Error;
using mlk::ExitCode;
using mlk::run_process;

namespace {

Command shell(const std::string& script) {
  Command command;
  command.argv = {"sh", "-c", script};
  return command;
}

ExitCode code_of(const Command& command) {
  try {
    run_process(command);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace

TEST_CASE("run_process() captures stdout, stderr and the exit code separately") {
  const auto result = run_process(shell("echo out; echo err >&2; exit 3"));
  CHECK(result.output == "out\n");
  CHECK(result.error == "err\n");
  CHECK(result.exit_code == 3);
  CHECK(result.signal == 0);
  CHECK_FALSE(result.ok());
}

TEST_CASE("arguments reach the program unchanged, without a shell") {
  Command command;
  command.argv = {"printf", "%s|", "a b", "$HOME", "*", ""};
  CHECK(run_process(command).output == "a b|$HOME|*||");
}

TEST_CASE("a program that is found through a relative entry of PATH is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("mlk-test-program", "#!/bin/sh\necho ran\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  const std::string beside = std::filesystem::relative(folder.path()).string();
  Command command;
  command.argv = {"mlk-test-program"};
  const auto run_with = [&](const std::string& folders) {
    ::setenv("PATH", folders.c_str(), 1);
    std::string said;
    try {
      said = run_process(command).output;
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::not_found);
      said = error.what();
    }
    ::setenv("PATH", path.c_str(), 1);
    return said;
  };
  CHECK(run_with(folder.path().string()) == "ran\n");
  const std::string refused =
      "\"mlk-test-program\" was found in '" + beside + "', which PATH names relative to the working folder";
  CHECK(run_with(beside) == refused);
  CHECK(run_with(beside + ":" + folder.path().string()) == refused);  // the first program found decides
  CHECK(run_with(folder.path().string() + ":" + beside) == "ran\n");
  command.argv = {beside + "/mlk-test-program"};
  CHECK(run_with("") == "ran\n");
}

TEST_CASE("run_process() writes large input and reads output at the same time") {
  Command command;
  command.argv = {"cat"};
  command.input = std::string(3'000'000, 'x') + "end";
  const auto result = run_process(command);
  CHECK(result.ok());
  CHECK(result.output == command.input);
}

TEST_CASE("run_process() succeeds even if the program does not read its input") {
  Command command = shell("exit 0");
  command.input = std::string(1'000'000, 'x');
  CHECK(run_process(command).ok());
}

TEST_CASE("variables are added to the environment, or replace existing ones") {
  ::setenv("MLK_TEST_VARIABLE", "before", 1);
  Command command = shell("echo $MLK_TEST_VARIABLE $OTHER; test -n \"$PATH\" && echo path");
  command.env = {{"MLK_TEST_VARIABLE", "after"}, {"OTHER", "new"}};
  CHECK(run_process(command).output == "after new\npath\n");
  ::unsetenv("MLK_TEST_VARIABLE");
}

TEST_CASE("with `empty_env`, a process has only the given variables") {
  Command command;
  command.argv = {"env"};
  command.empty_env = true;
  command.env = {{"ONLY", "this"}};
  CHECK(run_process(command).output == "ONLY=this\n");
}

TEST_CASE("a process runs in the given folder") {
  const TemporaryFolder folder;
  Command command = shell("pwd -P");
  command.folder = folder.path().string();
  CHECK(run_process(command).output == std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST_CASE("the result has the signal that ended the process") {
  const auto result = run_process(shell("kill -TERM $$"));
  CHECK(result.signal == SIGTERM);
  CHECK(result.exit_code == -1);
}

TEST_CASE("run_process() kills a process and its children at the time-out") {
  const TemporaryFolder folder;
  const std::string pid_file = (folder.path() / "pid").string();
  Command command = shell("sleep 1000 & echo $! > " + pid_file + "; wait");
  command.timeout = std::chrono::milliseconds(300);
  const auto result = run_process(command);
  CHECK(result.timed_out);
  CHECK(result.signal == SIGKILL);
  std::ifstream file(pid_file);
  pid_t pid = 0;
  file >> pid;
  REQUIRE(pid > 0);
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {  // the new parent of the sleep may reap it a while later
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    gone = ::kill(pid, 0) != 0 || (status >> number >> name >> state && state == "Z");
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(gone);
}

TEST_CASE("run_process() returns after the child's end even if a grandchild keeps the pipes open") {
  const TemporaryFolder folder;
  const std::string pid_file = (folder.path() / "pid").string();
  Command command = shell("sleep 1000 & echo $! > " + pid_file + "; echo done");
  command.timeout = std::chrono::seconds(20);
  const auto result = run_process(command);
  std::ifstream file(pid_file);
  pid_t pid = 0;
  if (file >> pid) ::kill(pid, SIGKILL);
  CHECK(result.output == "done\n");
  CHECK(result.ok());
}

TEST_CASE("run_process() fails if the program is missing, cannot run or prints too much") {
  Command command;
  command.argv = {"no-such-program-of-mlk"};
  CHECK(code_of(command) == ExitCode::not_found);
  command.argv = {"/no/such/program"};
  CHECK(code_of(command) == ExitCode::not_found);
  const TemporaryFolder folder;
  const std::filesystem::path plain = folder.write("plain", "text");
  command.argv = {plain.string()};
  CHECK(code_of(command) == ExitCode::failure);
  CHECK_THROWS_AS(run_process(command), mlk::CannotExecute);
  std::filesystem::permissions(plain, std::filesystem::perms::owner_all);
  CHECK(code_of(command) == ExitCode::failure);
  CHECK_THROWS_AS(run_process(command), mlk::CannotExecute);
  command.argv = {"yes"};
  command.output_limit = 100'000;
  CHECK(code_of(command) == ExitCode::failure);
  CHECK(code_of(Command()) == ExitCode::usage);
}

TEST_CASE("with `of_terminal`, the result does not contain the child's stderr") {
  Command command = shell("echo out");
  command.of_terminal = true;
  const auto result = run_process(command);
  CHECK(result.output == "out\n");
  CHECK(result.error.empty());
}

TEST_CASE("several threads run processes at the same time") {
  std::vector<std::string> outputs(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back(
        [&outputs, i] { outputs[i] = run_process(shell("echo " + std::to_string(i))).output; });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < outputs.size(); ++i) CHECK(outputs[i] == std::to_string(i) + "\n");
}

TEST_CASE("run_process() kills the process if `go_on` returns false") {
  Command command = shell("echo begun; exec sleep 1000");
  command.go_on = [](const mlk::ProcessResult& so_far) { return so_far.output.empty(); };
  const auto result = run_process(command);
  CHECK(result.given_up);
  CHECK_FALSE(result.timed_out);
  CHECK_FALSE(result.ok());
  CHECK(result.signal == SIGKILL);
  CHECK(result.output == "begun\n");
}

TEST_CASE("with `of_terminal`, a process stays in the process group of mlk") {
  Command command = shell("cut -d' ' -f5 /proc/$$/stat; echo $$");
  const std::string own = run_process(command).output;  // the child's process group and its process ID
  CHECK(own.substr(0, own.find('\n') + 1) == own.substr(own.find('\n') + 1));
  command.of_terminal = true;
  CHECK(run_process(command).output.starts_with(std::to_string(::getpgrp()) + "\n"));
}
