#include "runtime/launch/processes.h"

#include <csignal>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/runtime/environment.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/launch/processes");

using namespace mlk::rt;
using mlk::test::Environment;

TEST_CASE(
    "if no process is trained, the first failure stops the other processes, and end_of_pod() returns its "
    "code") {
  const std::vector<EndOfProcess> running = {{}, {}}, failed = {{}, 75}, ended = {143, 75};
  CHECK_FALSE(end_of_pod(running, {}).stop_others);
  CHECK(end_of_pod(failed, 75).stop_others);
  CHECK(end_of_pod(ended, 75).code == 75);
}

TEST_CASE("a pod ends as trained if one process is trained, even if another process fails") {
  const std::vector<EndOfProcess> one = {0, {}}, other_lost = {0, 75}, both = {0, 0};
  CHECK_FALSE(end_of_pod(one, {}).stop_others);
  CHECK_FALSE(end_of_pod(other_lost, 75).stop_others);
  CHECK(end_of_pod(other_lost, 75).code == 0);
  CHECK(end_of_pod(both, {}).code == 0);
}

TEST_CASE("processes_of_pod() is the number of GPUs, or 1 if MLK_LOCAL_RANK is set") {
  const auto count = [](const std::map<std::string, std::string>& values) {
    Environment environment(values);
    return processes_of_pod();
  };
  CHECK(count({}) == 1);
  CHECK(count({{"MLK_GPUS", "1"}}) == 1);
  CHECK(count({{"MLK_GPUS", "8"}}) == 8);
  CHECK(count({{"MLK_GPUS", "8"}, {"MLK_LOCAL_RANK", "0"}}) == 1);
  for (const char* wrong : {"17", "8x", "", "-2"}) CHECK(count({{"MLK_GPUS", wrong}}) == 1);
}

TEST_CASE("write_over() replaces a longer result, and keeps the old result if the write fails") {
  const mlk::test::TemporaryFolder folder;
  const std::string path = folder / "result";
  CHECK(write_over(path, "a long result"));
  CHECK(write_over(path, "short"));
  CHECK(mlk::test::read_file(path) == "short");
  // A limit on the size of files makes writes fail, as on a full disk, and needs no privilege.
  rlimit usual;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  const bool is_written = write_over(path, "newer");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &usual) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK_FALSE(is_written);
  CHECK(mlk::test::read_file(path) == "short");
  CHECK_FALSE(write_over(folder / "gone/result", "x"));
}
