// A standard output that cannot be written.

#include <cerrno>
#include <streambuf>

#include <doctest/doctest.h>

#include "cli/app.h"
#include "cli/session/session.h"
#include "tests/unit/app/tree.h"

TEST_SUITE_BEGIN("app/output");

namespace {

struct Refusing : std::streambuf {
  explicit Refusing(int number) : reason(number) {}
  int_type overflow(int_type) override { return fail(); }
  std::streamsize xsputn(const char*, std::streamsize size) override { return size; }  // held back
  int sync() override { return fail(); }
  int fail() const {
    errno = reason;
    return -1;
  }
  int reason;
};

// The exit code and the standard error of a command whose output fails for this reason.
std::pair<int, std::string> run_on(int reason, const std::vector<std::string>& words) {
  Refusing buffer(reason);
  std::ostream out(&buffer);
  std::ostringstream err;
  const std::atomic<int> interrupted{0};
  mlk::Session session{.out = out,
                       .err = err,
                       .version = "0",
                       .interrupted = interrupted,
                       .env = [](const std::string&) { return std::string(); },
                       .global = {}};
  const int code = mlk::run(words, session);
  return {code, err.str()};
}

}  // namespace

TEST_CASE("commands report a full disk in one sentence, even mlk --help and mlk version") {
  const std::string sentence = "mlk: error: cannot write to standard output: No space left on device\n";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"version"},
                                                {"--help"},
                                                {"submit", "--help"},
                                                {"--version"},
                                                {"templates"}}) {
    CHECK(run_on(ENOSPC, words) == std::pair(1, sentence));
  }
}

TEST_CASE("a closed pipe as standard output causes no message") {
  CHECK(run_on(EPIPE, {"version"}) == std::pair(1, std::string()));
}

TEST_CASE("a usage error has exit code 2 even if the disk is full") {
  CHECK(run_on(ENOSPC, {"sumbit"}).first == 2);
}
