// Numbers on which other code relies: exit codes, random numbers, powers; and the format of log lines.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/base/power.h"
#include "runtime/base/random.h"
#include "tests/unit/runtime/event_records.h"

TEST_SUITE_BEGIN("runtime/base/codes_and_numbers");

namespace mlk::rt {
namespace {

TEST_CASE("each ExitCode has its documented number, and is_final() is true for 64 to 67") {
  const struct {
    ExitCode code;
    int number;
    bool is_final;
  } codes[] = {{ExitCode::trained, 0, false},
               {ExitCode::bad_configuration, 64, true},
               {ExitCode::bad_data, 65, true},
               {ExitCode::diverged, 66, true},
               {ExitCode::checkpoint_unusable, 67, true},
               {ExitCode::internal_error, 70, false},
               {ExitCode::peers_lost, 75, false},
               {ExitCode::terminated, 143, false}};
  for (const auto& [code, number, final] : codes) {
    CAPTURE(number);
    CHECK(static_cast<int>(code) == number);
    CHECK(is_final(code) == final);
    const Failure failure(code, "the reason");
    CHECK(failure.code == code);
    CHECK(std::string(failure.what()) == "the reason");
  }
  CHECK_FALSE(is_final(static_cast<ExitCode>(63)));
  CHECK_FALSE(is_final(static_cast<ExitCode>(68)));
}

TEST_CASE("mix() gives the published numbers of SplitMix64") {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  CHECK(mix(0) == 0xe220a8397b1dcdaf);
  CHECK(mix(golden) == 0x6e789e6aa1b965f4);
  CHECK(mix(2 * golden) == 0x06c45d188009454f);
}

TEST_CASE("uniform() gives another number if two of its arguments (seed, stream, index) are exchanged") {
  const auto steps = [](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return uniform(seed, stream, index) * 0x1p24f;
  };
  CHECK(steps(0, 0, 0) == 2'327'157);
  CHECK(steps(1, 2, 3) == 7'005'461);
  CHECK(steps(1, 3, 2) == 343'782);
  CHECK(steps(2, 1, 3) == 15'135'132);
  float least = 1, most = 0;
  double sum = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const float value = uniform(5, 6, i);
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    if (std::floor(value * 0x1p24f) != value * 0x1p24f) FAIL_CHECK("not a multiple of 2^-24: ", value);
  }
  CHECK(least >= 0);
  CHECK(least < 0.01f);
  CHECK(most < 1);
  CHECK(most > 0.99f);
  CHECK(sum / 10'000 == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("power() gives the exact bits of repeated multiplication") {
  CHECK(power(0.9, 0) == 1);
  CHECK(power(0, 0) == 1);
  CHECK(power(0, 5) == 0);
  CHECK(power(0.9, 1) == 0.9);
  CHECK(power(0.9, 2) == 0.9 * 0.9);
  CHECK(power(0.9, 3) == 0.9 * (0.9 * 0.9));
  CHECK(power(-2, 3) == -8);
  CHECK(power(2, 10) == 1024);
  CHECK(power(2, 63) == 0x1p63);
  CHECK(power(3, 13) == 1'594'323);
  CHECK(power(0.5, std::uint64_t{1} << 40) == 0);
  static_assert(power(2, 5) == 32);
}

TEST_CASE("a Log begins each line with the name of the process, and loses a line that cannot be written") {
  const test::TemporaryFolder folder;
  {
    const int fd = open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    const Log log("mlk-runtime worker/0", fd);
    log.line("one");
    log.line("");
    log.line(std::string_view("three and more").substr(0, 5));
    close(fd);
    log.line("lost");
  }
  CHECK(test::read_file(folder / "log") ==
        "mlk-runtime worker/0: one\nmlk-runtime worker/0: \nmlk-runtime worker/0: three\n");
  Log("nobody", -1).line("lost");
}

}  // namespace
}  // namespace mlk::rt
