#include "runtime/launch/launch_env.h"

#include <map>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "tests/unit/runtime/environment.h"

TEST_SUITE_BEGIN("runtime/launch/launch_env");

using namespace mlk::rt;
using mlk::test::Environment;

namespace {

using Values = std::map<std::string, std::string>;

const Values complete = {{"MLK_RUN", "digits-ab12c"},
                         {"MLK_ROLE", "worker"},
                         {"MLK_RANK", "3"},
                         {"MLK_ADDRESS", "digits-ab12c-worker-3.digits-ab12c:7000"},
                         {"MLK_SEEDS_WORKER", "127.0.0.2:7000,[::1]:7001"},
                         {"MLK_SEEDS_SERVER", "server-0:7000"},
                         {"MLK_CONFIG", "/etc/mlk/config.json"},
                         {"MLK_DATA", "/data"},
                         {"MLK_CHECKPOINTS", "/checkpoints/x"},
                         {"MLK_RESULT", "/dev/termination-log"},
                         {"MLK_SECRET", "/etc/mlk/secret"},
                         {"MLK_INCARNATION", "uid"},
                         {"MLK_TENSORBOARD", "/events"},
                         {"MLK_METRICS_PORT", "9100"},
                         {"MLK_FAILURES", "2"},
                         {"MLK_LATE_SECONDS", "7"},
                         {"OMP_NUM_THREADS", "4"}};

// The error for the complete environment with one variable changed, or removed if the value is empty.
std::string refusal_of(const std::string& name, const std::string& value) {
  Values values = complete;
  values[name] = value;
  if (value.empty()) values.erase(name);
  Environment environment(values);
  try {
    const LaunchEnv env = read_launch_env();
    require_peers(env, true);
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    return failure.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("read_launch_env() reads the complete environment of a worker") {
  Environment environment(complete);
  const LaunchEnv env = read_launch_env();
  CHECK(env.run == "digits-ab12c");
  CHECK(env.role == "worker");
  CHECK(env.rank == 3);
  CHECK(env.address == "digits-ab12c-worker-3.digits-ab12c:7000");
  CHECK(env.seeds_worker == std::vector<std::string>{"127.0.0.2:7000", "[::1]:7001"});
  CHECK(env.seeds_server == std::vector<std::string>{"server-0:7000"});
  CHECK(env.config == "/etc/mlk/config.json");
  CHECK(env.data == "/data");
  CHECK(env.checkpoints == "/checkpoints/x");
  CHECK(env.result == "/dev/termination-log");
  CHECK(env.secret_path == "/etc/mlk/secret");
  CHECK(env.incarnation == "uid");
  CHECK(env.tensorboard == "/events");
  CHECK(env.metrics_port == 9100);
  CHECK(env.failures == 2);
  CHECK(env.late_seconds == 7);
  CHECK(env.threads == 4);
}

TEST_CASE("an invalid MLK_FAILURES counts as 0, and an invalid MLK_LATE_SECONDS is refused") {
  for (const char* told : {"", "-1", "often"}) {
    Values values = complete;
    values["MLK_FAILURES"] = told;
    Environment environment(values);
    CHECK(read_launch_env().failures == 0);
  }
  CHECK(refusal_of("MLK_LATE_SECONDS", "601") ==
        "environment: MLK_LATE_SECONDS must be a number of seconds from 0 to 600, not '601'");
}

TEST_CASE("a trial needs its file of points, its index in that file, and rank 0") {
  Values values = complete;
  values["MLK_POINTS"] = "/points/points.jsonl";
  const auto with = [&](const char* rank, const char* index) {
    values["MLK_RANK"] = rank;
    values["MLK_TRIAL_INDEX"] = index;
    const Environment environment(values);
    try {
      return std::to_string(read_launch_env().trial_index);
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
  };
  CHECK(with("0", "0") == "0");
  CHECK(with("0", "999999") == "999999");
  CHECK(with("0", "") == "environment: MLK_TRIAL_INDEX is not set");
  CHECK(with("7", "7") == "environment: MLK_RANK must be 0 in a trial, not '7'");
  for (const char* index : {"-1", "1x", "1.0", "1000000", "99999999999"}) {
    CHECK(with("0", index) ==
          std::string("environment: MLK_TRIAL_INDEX must be an index from 0 to 999999, not '") + index + "'");
  }
  values["MLK_TRIAL_INDEX"] = "4";
  values["MLK_RANK"] = "0";
  {
    const Environment environment(values);
    CHECK(read_launch_env().points == "/points/points.jsonl");
  }
  // Without a file of points the index and the rank may have any value.
  values.erase("MLK_POINTS");
  values["MLK_TRIAL_INDEX"] = "x";
  values["MLK_RANK"] = "3";
  const Environment environment(values);
  CHECK(read_launch_env().points == "");
  CHECK(read_launch_env().trial_index == 0);
}

TEST_CASE("if a variable is missing, the error names it") {
  for (const char* name : {"MLK_RUN", "MLK_ROLE", "MLK_RANK", "MLK_CONFIG", "MLK_DATA", "MLK_ADDRESS",
                           "MLK_SEEDS_WORKER", "MLK_SEEDS_SERVER", "MLK_SECRET", "MLK_INCARNATION"}) {
    CHECK(refusal_of(name, "") == std::string("environment: ") + name + " is not set");
  }
  CHECK(refusal_of("MLK_CHECKPOINTS", "") == "accepted");
  CHECK(refusal_of("MLK_RESULT", "") == "accepted");
  CHECK(refusal_of("MLK_TENSORBOARD", "") == "accepted");
  CHECK(refusal_of("MLK_METRICS_PORT", "") == "accepted");
}

TEST_CASE("UNIX sockets are used unless MLK_TRANSPORT is tcp, and any other value is refused") {
  CHECK(refusal_of("MLK_TRANSPORT", "pigeon") ==
        "environment: MLK_TRANSPORT must be tcp or unset, not 'pigeon'");
  CHECK(refusal_of("MLK_TRANSPORT", "udp") == "environment: MLK_TRANSPORT must be tcp or unset, not 'udp'");
  Values values = complete;
  {
    Environment environment(values);
    CHECK(read_launch_env().unix_sockets);
  }
  values["MLK_TRANSPORT"] = "tcp";
  Environment environment(values);
  CHECK_FALSE(read_launch_env().unix_sockets);
}

TEST_CASE("if a variable is malformed, the error names the variable and its value") {
  CHECK(refusal_of("MLK_ROLE", "boss") == "environment: MLK_ROLE must be worker or server, not 'boss'");
  for (const char* rank : {"-1", "1x", "$(JOB_COMPLETION_INDEX)", "1000000", "99999999999"}) {
    CHECK(refusal_of("MLK_RANK", rank) ==
          std::string("environment: MLK_RANK must be a rank from 0 to 999999, not '") + rank + "'");
  }
  for (const char* port : {"0", "65536", "x"}) {
    CHECK(refusal_of("MLK_METRICS_PORT", port) ==
          std::string("environment: MLK_METRICS_PORT must be a port from 1 to 65535, not '") + port + "'");
  }
  for (const char* address :
       {"host", "host:", ":7000", "host:0", "host:65536", "host:7x", "::1:7000", "a b:7000"}) {
    const std::string rest = std::string(" must hold host:port, but has '") + address + "'";
    CHECK(refusal_of("MLK_ADDRESS", address) == "environment: MLK_ADDRESS" + rest);
    CHECK(refusal_of("MLK_SEEDS_WORKER", std::string("a:1,") + address) ==
          "environment: MLK_SEEDS_WORKER" + rest);
  }
  CHECK(refusal_of("MLK_SEEDS_SERVER", "a:1,") ==
        "environment: MLK_SEEDS_SERVER must hold host:port, but has ''");
}

TEST_CASE("rank_from_env() returns a valid MLK_RANK, and otherwise 0") {
  for (const auto& [text, rank] : std::map<std::string, int>{{"12", 12}, {"1x", 0}, {"1000000", 0}}) {
    Environment environment({{"MLK_RANK", text}});
    CHECK(rank_from_env() == rank);
  }
  Environment environment({});
  CHECK(rank_from_env() == 0);
}

TEST_CASE(
    "read_launch_env() accepts a server without MLK_DATA, and a process without the variables of peers") {
  Environment environment({{"MLK_RUN", "r"}, {"MLK_ROLE", "server"}, {"MLK_RANK", "0"}, {"MLK_CONFIG", "c"}});
  const LaunchEnv env = read_launch_env();
  CHECK(env.data.empty());
  CHECK(env.seeds_worker.empty());
  CHECK(env.threads == 1);
}

TEST_CASE("require_peers() for allreduce accepts an environment without the seeds of servers") {
  Values values = complete;
  values.erase("MLK_SEEDS_SERVER");
  Environment environment(values);
  require_peers(read_launch_env(), false);
}

TEST_CASE("a process uses one thread if OMP_NUM_THREADS is not one valid number") {
  for (const char* threads : {"", "0", "-2", "many", "4,2"}) {
    Values values = complete;
    values["OMP_NUM_THREADS"] = threads;
    Environment environment(values);
    CHECK(read_launch_env().threads == 1);
  }
}

TEST_CASE("a process of a pod with several GPUs has its own rank and port, and the seeds of all processes") {
  Values values = complete;
  values.insert({{"MLK_GPUS", "2"}, {"MLK_LOCAL_RANK", "1"}});
  Environment environment(values);
  const LaunchEnv env = read_launch_env();
  CHECK(env.rank == 7);
  CHECK(env.local_rank == 1);
  CHECK(env.address == "digits-ab12c-worker-3.digits-ab12c:7001");
  CHECK(env.seeds_worker ==
        std::vector<std::string>{"127.0.0.2:7000", "127.0.0.2:7001", "[::1]:7001", "[::1]:7002"});
  CHECK(env.seeds_server == std::vector<std::string>{"server-0:7000"});
  CHECK(env.metrics_port == 0);
  CHECK(env.threads == 2);
}

TEST_CASE("invalid numbers of GPUs and local ranks are refused") {
  for (const char* gpus : {"17", "-1", "two"})
    CHECK(refusal_of("MLK_GPUS", gpus) ==
          "environment: MLK_GPUS must be a number from 0 to 16, not '" + std::string(gpus) + "'");
  CHECK(refusal_of("MLK_GPUS", "2") == "environment: MLK_LOCAL_RANK must be a rank from 0 to 1, not ''");
  CHECK(refusal_of("MLK_GPUS", "1") == "accepted");
  Values values = complete;
  values.insert({{"MLK_GPUS", "2"}, {"MLK_LOCAL_RANK", "1"}});
  values["MLK_ADDRESS"] = "a:65535";
  Environment environment(values);
  CHECK_THROWS_WITH_AS(read_launch_env(), "environment: MLK_ADDRESS must hold host:port, but has 'a:65536'",
                       Failure);
}
