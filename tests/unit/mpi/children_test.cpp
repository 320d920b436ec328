// Processes that mlk-mpi starts: what is waited for, and with whom they end.
#include "mpi/children.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace mlk::mpi {
namespace {

constexpr std::int64_t long_ms = 60'000, short_ms = 300;

TEST_CASE("what a program says is read to its end, with its exit code") {
  const Said said = said_by({"sh", "-c", "echo one; sleep 0.1; echo two; exit 3"}, long_ms);
  CHECK(said.text == "one\ntwo\n");
  CHECK(said.code == 3);
  CHECK(said.in_time);
  CHECK(said_by({"mlk-no-such-program"}, long_ms).code == 127);
}

TEST_CASE("only the beginning of what a program says is kept") {
  const Said said = said_by({"sh", "-c", "head -c 3000000 /dev/zero"}, long_ms);
  CHECK(said.in_time);
  CHECK(said.text.size() >= 1 << 16);
  CHECK(said.text.size() < 1 << 17);
}

TEST_CASE("a program that does not end is killed with what it has started") {
  for (const char* script : {"echo first; sleep 1000 & wait", "exec 1>&-; sleep 1000", "yes"}) {
    const Said said = said_by({"sh", "-c", script}, short_ms);
    CHECK_MESSAGE(!said.in_time, script);
    CHECK(said.code == 128 + SIGKILL);
  }
}

TEST_CASE("a program that has ended is not waited for any longer when another one holds its output") {
  const Said said = said_by({"sh", "-c", "echo version; sleep 5 & exit 0"}, long_ms);
  CHECK(said.in_time);
  CHECK(said.text == "version\n");
}

TEST_CASE("a process whose parent has ended before it could follow it ends by itself") {
  for (const bool parent_lives : {true, false}) {
    const pid_t own = ::getpid(), child = ::fork();
    if (child == 0) {
      end_with(parent_lives ? own : own + 1);
      ::_exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(code_of(status) == (parent_lives ? 7 : 128 + SIGKILL));
  }
}

}  // namespace
}  // namespace mlk::mpi
