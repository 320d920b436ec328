#include <cstdlib>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/launch/launch_env.h"
#include "tests/unit/runtime/environment.h"

TEST_SUITE_BEGIN("runtime/launch/launch_env_bounds");

namespace mlk::rt {
namespace {

namespace launch_bounds {

using test::Environment;

// The variables that a worker needs at least, and one more variable.
std::map<std::string, std::string> least_and(const std::string& name, const std::string& value) {
  std::map<std::string, std::string> values = {
      {"MLK_RUN", "r"}, {"MLK_ROLE", "worker"}, {"MLK_RANK", "0"}, {"MLK_CONFIG", "c"}, {"MLK_DATA", "d"}};
  values[name] = value;
  return values;
}

LaunchEnv with(const char* name, const char* value) {
  const Environment environment(least_and(name, value));
  return read_launch_env();
}

std::string refusal(const char* name, const char* value) {
  try {
    with(name, value);
    return "";
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    return failure.what();
  }
}

}  // namespace launch_bounds

TEST_CASE("variables of the environment that are not set have their defaults") {
  const test::Environment environment(launch_bounds::least_and("MLK_RUN", "r"));
  for (const LaunchEnv& env : {read_launch_env(), LaunchEnv()}) {
    CHECK(env.rank == 0);
    CHECK(env.failures == 0);
    CHECK(env.address == "");
    CHECK(env.seeds_worker.empty());
    CHECK(env.seeds_server.empty());
    CHECK(env.checkpoints == "");
    CHECK(env.result == "");
    CHECK(env.secret_path == "");
    CHECK(env.incarnation == "");
    CHECK(env.tensorboard == "");
    CHECK(env.metrics_port == 0);
    CHECK(env.unix_sockets);
    CHECK(env.late_seconds == 60);
    CHECK(env.threads == 1);
  }
}

TEST_CASE("each numeric variable of the environment accepts the values from its minimum to its maximum") {
  using launch_bounds::with, launch_bounds::refusal;
  CHECK(with("MLK_RANK", "0").rank == 0);
  CHECK(with("MLK_RANK", "999999").rank == 999'999);
  CHECK(refusal("MLK_RANK", "1000000") ==
        "environment: MLK_RANK must be a rank from 0 to 999999, not '1000000'");
  CHECK(with("MLK_FAILURES", "0").failures == 0);
  CHECK(with("MLK_FAILURES", "1").failures == 1);
  CHECK(with("MLK_FAILURES", "999999").failures == 999'999);
  CHECK(with("MLK_FAILURES", "1000000").failures == 0);
  CHECK(with("MLK_FAILURES", "3 ").failures == 0);
  CHECK(with("MLK_METRICS_PORT", "1").metrics_port == 1);
  CHECK(with("MLK_METRICS_PORT", "65535").metrics_port == 65535);
  CHECK(with("MLK_LATE_SECONDS", "0").late_seconds == 0);
  CHECK(with("MLK_LATE_SECONDS", "600").late_seconds == 600);
  for (const char* late : {"-1", "601", "x", "1s"}) {
    CHECK(refusal("MLK_LATE_SECONDS", late) ==
          std::string("environment: MLK_LATE_SECONDS must be a number of seconds from 0 to 600, not '") +
              late + "'");
  }
  CHECK(with("OMP_NUM_THREADS", "1").threads == 1);
  CHECK(with("OMP_NUM_THREADS", "2").threads == 2);
  CHECK(with("OMP_NUM_THREADS", "4096").threads == 4096);
  CHECK(with("OMP_NUM_THREADS", "4097").threads == 1);
}

TEST_CASE("an address is a host and a port, and an IPv6 host is in brackets") {
  using launch_bounds::with, launch_bounds::refusal;
  for (const char* address : {"h:1", "h:65535", "[1]:7", "[::1]:7000", "worker-0.run.ns.svc:7000"}) {
    CHECK(with("MLK_ADDRESS", address).address == address);
    CHECK(with("MLK_SEEDS_WORKER", address).seeds_worker == std::vector<std::string>{address});
    CHECK(with("MLK_SEEDS_SERVER", address).seeds_server == std::vector<std::string>{address});
  }
  for (const char* address :
       {":1",     "[]:1",  "[:1",   "]:1",  "[x:1", "x]:1", "[xyz:1", "xyz]:1", "a[b:1", "a]b:1", "a b:1",
        "a\tb:1", "::1:1", "a:1:2", "h:-1", "h:+1", "h: 1", "h:1 ",   "1",      "[::1]", "h"}) {
    const std::string rest = std::string(" must hold host:port, but has '") + address + "'";
    for (const char* name : {"MLK_ADDRESS", "MLK_SEEDS_WORKER", "MLK_SEEDS_SERVER"})
      CHECK(refusal(name, address) == std::string("environment: ") + name + rest);
  }
  CHECK(with("MLK_SEEDS_SERVER", "a:1,b:2,c:3").seeds_server ==
        std::vector<std::string>{"a:1", "b:2", "c:3"});
  CHECK(refusal("MLK_SEEDS_WORKER", ",a:1") ==
        "environment: MLK_SEEDS_WORKER must hold host:port, but has ''");
  CHECK(refusal("MLK_SEEDS_WORKER", "a:1,,b:2") ==
        "environment: MLK_SEEDS_WORKER must hold host:port, but has ''");
}

TEST_CASE("read_launch_env() reads MLK_DATA even for a server") {
  const test::Environment environment({{"MLK_RUN", "r"},
                                       {"MLK_ROLE", "server"},
                                       {"MLK_RANK", "0"},
                                       {"MLK_CONFIG", "c"},
                                       {"MLK_DATA", "/somewhere"}});
  const LaunchEnv env = read_launch_env();
  CHECK(env.role == "server");
  CHECK(env.data == "/somewhere");
  CHECK(env.run == "r");
  CHECK(env.config == "c");
}

TEST_CASE("result_path_from_env() works even if the rest of the environment is incomplete") {
  const test::Environment environment({{"MLK_RESULT", "/dev/result"}, {"MLK_RANK", "999999"}});
  CHECK(result_path_from_env() == "/dev/result");
  CHECK(rank_from_env() == 999'999);
  unsetenv("MLK_RESULT");
  CHECK(result_path_from_env() == "");
}

TEST_CASE(
    "require_peers() needs an address, seeds, a secret and an incarnation; for `ps` it also needs server "
    "seeds") {
  LaunchEnv env;
  const auto missing = [&env](bool with_servers) {
    try {
      require_peers(env, with_servers);
      return std::string();
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
  };
  CHECK(missing(true) == "environment: MLK_ADDRESS is not set");
  env.address = "a:1";
  CHECK(missing(true) == "environment: MLK_SEEDS_WORKER is not set");
  env.seeds_worker = {"a:1"};
  CHECK(missing(true) == "environment: MLK_SEEDS_SERVER is not set");
  CHECK(missing(false) == "environment: MLK_SECRET is not set");
  env.secret_path = "s";
  CHECK(missing(false) == "environment: MLK_INCARNATION is not set");
  env.incarnation = "i";
  CHECK(missing(false) == "");
  CHECK(missing(true) == "environment: MLK_SEEDS_SERVER is not set");
  env.seeds_server = {"a:1"};
  CHECK(missing(true) == "");
}

}  // namespace
}  // namespace mlk::rt
