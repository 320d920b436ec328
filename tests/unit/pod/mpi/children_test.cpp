// Checks how mlk-mpi waits for the processes that it starts, and how it kills them.
#include "pod/mpi/children.h"

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/pod/mpi/played.h"

TEST_SUITE_BEGIN("pod/mpi/children");

namespace mlk::mpi {
namespace {

constexpr std::int64_t long_ms = 60'000, short_ms = 300;

TEST_CASE("said_by() returns the whole output and the exit code of a program") {
  const Said said = said_by({"sh", "-c", "echo one; sleep 0.1; echo two; exit 3"}, long_ms);
  CHECK(said.text == "one\ntwo\n");
  CHECK(said.code == 3);
  CHECK(said.in_time);
  CHECK(said_by({"mlk-no-such-program"}, long_ms).code == 127);
}

TEST_CASE("said_by() keeps only the beginning of a long output") {
  const Said said = said_by({"sh", "-c", "head -c 3000000 /dev/zero"}, long_ms);
  CHECK(said.in_time);
  CHECK(said.text.size() >= 1 << 16);
  CHECK(said.text.size() < 1 << 17);
}

TEST_CASE("said_by() kills a program that does not end in time") {
  for (const char* script : {"echo first; sleep 1000 & wait", "exec 1>&-; sleep 1000", "yes"}) {
    const Said said = said_by({"sh", "-c", script}, short_ms);
    CHECK_MESSAGE(!said.in_time, script);
    CHECK(said.code == 128 + SIGKILL);
  }
}

TEST_CASE("said_by() returns when the program has ended, even if another process holds the output open") {
  const Said said = said_by({"sh", "-c", "echo version; sleep 5 & exit 0"}, long_ms);
  CHECK(said.in_time);
  CHECK(said.text == "version\n");
}

TEST_CASE("end_with() ends the calling process at once if the given parent has already ended") {
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

TEST_CASE("kill_descendants() kills a child process even if its name has blanks or brackets") {
  for (const char* name : {"load", "load (2) x", ") S 1 (", "(", ")"}) {
    CAPTURE(name);
    Child child([name] {
      int named[2];
      if (::pipe(named) != 0) return 1;
      const pid_t below = ::fork();
      if (below == 0) {
        ::prctl(PR_SET_NAME, name);
        ::close(named[0]);
        ::close(named[1]);
        while (true) ::pause();
      }
      ::close(named[1]);
      char none;
      while (::read(named[0], &none, 1) > 0) {
      }
      kill_descendants();
      int status = 0;
      ::waitpid(below, &status, 0);
      return code_of(status);
    });
    CHECK(child.code() == 128 + SIGKILL);
  }
}

TEST_CASE("said_by() leaves no descriptor open, and does not print the errors of the program") {
  Child child([] {
    const long before = descriptors(::getpid());
    for (const char* script : {"echo out; echo err >&2", "exit 3", "exec 1>&-; exit 0"})
      (void)said_by({"sh", "-c", script}, long_ms);
    (void)said_by({"mlk-no-such-program"}, long_ms);
    (void)said_by({"sleep", "1000"}, short_ms);
    return descriptors(::getpid()) == before ? 0 : 1;
  });
  CHECK(child.code() == 0);
  CHECK(child.err() == "");
}

TEST_CASE("said_by() leaves no zombie process") {
  Child child([] {
    (void)said_by({"true"}, long_ms);
    (void)said_by({"sleep", "1000"}, short_ms);
    return ::waitpid(-1, nullptr, WNOHANG) == -1 ? 0 : 1;
  });
  CHECK(child.code() == 0);
}

}  // namespace
}  // namespace mlk::mpi
