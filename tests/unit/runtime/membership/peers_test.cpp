#include "runtime/membership/peers.h"

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "tests/unit/runtime/scripted_peers.h"

TEST_SUITE_BEGIN("runtime/membership/peers");

using namespace mlk::rt;
using mlk::test::ScriptedPeers;
using std::chrono::seconds;

namespace {

constexpr PeerId first_worker{Role::worker, 0}, second_worker{Role::worker, 1};

}  // namespace

TEST_CASE("a process ends with the exit code of a peer if this code is final") {
  ScriptedPeers others(first_worker, 2);
  for (const ExitCode code :
       {ExitCode::bad_configuration, ExitCode::bad_data, ExitCode::diverged, ExitCode::checkpoint_unusable}) {
    others.arrive(second_worker);
    try {
      others.end(second_worker, code);
      FAIL("it goes on");
    } catch (const Failure& failure) {
      CHECK(failure.code == code);
    }
  }
  for (const ExitCode code :
       {ExitCode::trained, ExitCode::internal_error, ExitCode::peers_lost, ExitCode::terminated}) {
    others.arrive(second_worker);
    CHECK_NOTHROW(others.end(second_worker, code));
  }
}

TEST_CASE("a process of a trained run does not fail if a late rank cannot start") {
  ScriptedPeers others(first_worker, 2);
  others.arrive(second_worker);
  others.peers().run_is_trained();
  CHECK_NOTHROW(others.end(second_worker, ExitCode::bad_data));
}

TEST_CASE(
    "a trained process waits 5 s, or longer if a rank is connected or may return, but never beyond its "
    "limit") {
  const SteadyTime trained{seconds(1000)};
  const auto stay = [&](std::optional<SteadyTime> last_loss, bool somebody_is_there, seconds late) {
    return late_deadline(trained, last_loss, somebody_is_there, late) - trained;
  };
  CHECK(stay({}, false, seconds(60)) == seconds(5));
  CHECK(stay(trained - seconds(20), false, seconds(60)) == seconds(40));
  CHECK(stay(trained - seconds(58), false, seconds(60)) == seconds(5));
  CHECK(stay(trained - seconds(500), false, seconds(60)) == seconds(5));
  // A rank lost after the end extends the stay only up to the limit.
  CHECK(stay(trained + seconds(30), false, seconds(60)) == seconds(60));
  // A connected rank is on its way to the end.
  CHECK(stay({}, true, seconds(60)) == seconds(60));
  CHECK(stay({}, false, seconds(2)) == seconds(2));
}
