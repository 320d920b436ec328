#include "runtime/peers.h"

#include <doctest/doctest.h>

#include "runtime/exit_code.h"
#include "tests/unit/runtime/scripted_peers.h"

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

constexpr PeerId first_worker{Role::worker, 0}, second_worker{Role::worker, 1};

}  // namespace

TEST_CASE("a final exit code of a peer ends this process with it") {
  ScriptedPeers others(first_worker, 2);
  others.arrive(second_worker);
  CHECK_THROWS_AS(others.end(second_worker, ExitCode::bad_data), Failure);
}

TEST_CASE("of a trained run a late rank that cannot start fails nobody") {
  ScriptedPeers others(first_worker, 2);
  others.arrive(second_worker);
  others.peers().run_is_trained();
  CHECK_NOTHROW(others.end(second_worker, ExitCode::bad_data));
}
