#include "runtime/launch/processes.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/runtime/environment.h"

using namespace mlk::rt;
using mlk::test::Environment;

TEST_CASE("a pod ends with the code of its first process that has failed, and stops the others") {
  const std::vector<EndOfProcess> running = {{}, {}}, failed = {{}, 75}, ended = {143, 75};
  CHECK_FALSE(end_of_pod(running, {}).stop_others);
  CHECK(end_of_pod(failed, 75).stop_others);
  CHECK(end_of_pod(ended, 75).code == 75);
}

TEST_CASE("a pod is trained once one of its processes is, and lets the others end by themselves") {
  const std::vector<EndOfProcess> one = {0, {}}, other_lost = {0, 75}, both = {0, 0};
  CHECK_FALSE(end_of_pod(one, {}).stop_others);
  CHECK_FALSE(end_of_pod(other_lost, 75).stop_others);
  CHECK(end_of_pod(other_lost, 75).code == 0);
  CHECK(end_of_pod(both, {}).code == 0);
}

TEST_CASE("only a process that was given several GPUs starts others, and those start none") {
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
