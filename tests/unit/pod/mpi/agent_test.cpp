// Checks the agent of a pod in a process of its own. The test plays mpirun, the launcher and the processes.
#include "pod/mpi/agent.h"

#include <doctest/doctest.h>

#include "tests/unit/pod/mpi/played.h"

TEST_SUITE_BEGIN("pod/mpi/agent");

namespace mlk::mpi {
namespace {

struct Pod {
  PodEnvironment environment;
  Child agent;

  explicit Pod(std::int64_t patience_ms = patience_of_tests_ms)
      : environment(with_patience(patience_ms)),
        agent([this] { return serve(environment, {"train", "two words"}); }) {}

  static PodEnvironment with_patience(std::int64_t patience_ms) {
    PodEnvironment environment = pods(1);
    environment.patience_ms = patience_ms;
    return environment;
  }

  Link connect() const { return reach(environment.own); }

  Link lead() const {
    Link link = connect();
    say_to(link, Type::lead);
    REQUIRE(next_of(link) == "lead");
    return link;
  }

  // The connection of a process that has asked for the program.
  Link begin(std::uint32_t rank) const {
    Link link = connect();
    say_to(link, Type::process, encode(End{.rank = rank}));
    REQUIRE(next_of(link).starts_with("program "));
    return link;
  }

  Link run(const std::string& command) const {
    Link link = connect();
    say_to(link, Type::run, bytes_of(command));
    return link;
  }
};

// The outputs of a command, and the last frame of its connection.
struct Heard {
  std::string out, err, last;
};

Heard all_of(Link link) {
  Heard heard;
  while (true) {
    const std::string one = next_of(link);
    if (one.starts_with("output 1 ")) {
      heard.out += one.substr(9);
    } else if (one.starts_with("output 2 ")) {
      heard.err += one.substr(9);
    } else {
      heard.last = one;
      return heard;
    }
  }
}

// The process id of a command. The command prints the id in its first line.
pid_t pid_of(Link& link) {
  const std::string line = next_of(link);
  REQUIRE(line.starts_with("output 1 "));
  return std::atoi(line.c_str() + 9);
}

void ends(Link& process, const End& end) {
  say_to(process, Type::ended, encode(end));
  CHECK(next_of(process) == "ended");
}

TEST_CASE("the agent runs a command in a shell, and sends back both outputs and the exit code") {
  const Pod pod;
  const Heard heard = all_of(pod.run("echo out; echo err >&2; exit 3"));
  CHECK(heard.out == "out\n");
  CHECK(heard.err == "err\n");
  CHECK(heard.last == "ended 0 3");
  CHECK(all_of(pod.run("kill -9 $$")).last == "ended 0 137");
  CHECK(all_of(pod.run("head -c 3000000 /dev/zero")).out.size() == 3000000);
}

TEST_CASE("the agent waits for the last output of a command, but only for a limited time") {
  const Pod pod;
  CHECK(all_of(pod.run("(sleep 0.2; echo late) & exit 0")).out == "late\n");
  const Heard heard = all_of(pod.run("sleep 100 & exit 5"));
  CHECK(heard.last == "ended 0 5");
}

TEST_CASE("the agent kills a command if mpirun closes the connection of the command") {
  const Pod pod;
  pid_t pid = 0;
  {
    Link link = pod.run("echo $$; sleep 100");
    pid = pid_of(link);
    CHECK(is_alive(pid));
  }
  CHECK(in_time([&] { return !is_alive(pid); }));
}

TEST_CASE("the agent tells the launcher exactly once that a command cannot be run") {
  for (const auto& [command, code] : {std::pair{"exec /no/such/orted", "127"}, {"exec /etc/passwd", "126"}}) {
    Pod pod;
    Link leader = pod.lead();
    CHECK(all_of(pod.run(command)).last == std::string("ended 0 ") + code);
    CHECK(next_of(leader) == std::string("failed 0 ") + code);
    CHECK(pod.agent.err() == "mlk: a part of MPI that mpirun starts here is not there, or cannot be run\n");
    CHECK(next_of(leader, 100) == "silence");
  }
}

TEST_CASE("the agent sends the program, the folder and its own process id to a process that asks") {
  const Pod pod;
  Link link = pod.connect();
  say_to(link, Type::process, encode(End{.rank = 3}));
  CHECK(next_of(link) == "program " + number(pod.agent.pid()) + " " +
                             std::filesystem::current_path().string() + " train two words");
}

TEST_CASE("the agent acknowledges the end of a process, and reports a failure to the launcher") {
  const Pod pod;
  Link leader = pod.lead();
  Link good = pod.begin(0), bad = pod.begin(1);
  ends(good, {.rank = 0, .code = 0});
  ends(bad, {.rank = 1, .code = 7, .told = true});
  CHECK(next_of(leader) == "failed 1 7 told");
}

TEST_CASE(
    "a pod ends with the exit code that the launcher sends, and its last log line names the rank at fault") {
  struct Row {
    std::vector<End> ends;
    int code;
    std::string last_line;
  };
  const std::vector<Row> rows{
      {{}, 0, ""},
      {{}, 9, ""},
      {{{.rank = 3, .code = 7}}, 0, ""},
      {{{.rank = 3, .code = 7}}, 7, "mlk: rank 3 of MPI ended with exit code 7\n"},
      {{{.rank = 3, .code = 128}}, 7, "mlk: rank 3 of MPI ended with exit code 128\n"},
      {{{.rank = 3, .code = 137}}, 137, "mlk: rank 3 of MPI was ended by signal 9\n"},
      {{{.rank = 3, .code = 7}, {.rank = 4, .code = 8}}, 7, "mlk: rank 3 of MPI ended with exit code 7\n"},
      {{{.rank = 3, .code = 143, .told = true}, {.rank = 4, .code = 8}},
       8,
       "mlk: rank 4 of MPI ended with exit code 8\n"},
      {{{.rank = 3, .code = 8}, {.rank = 4, .code = 143, .told = true}},
       8,
       "mlk: rank 3 of MPI ended with exit code 8\n"},
      {{{.rank = 3, .code = 143, .told = true}, {.rank = 4, .code = 9, .told = true}},
       143,
       "mlk: rank 3 of MPI was ended by signal 15\n"}};
  for (const Row& row : rows) {
    Pod pod;
    Link leader = pod.lead();
    for (const End& end : row.ends) {
      Link process = pod.begin(end.rank);
      ends(process, end);
      CHECK(next_of(leader).starts_with("failed "));
    }
    say_to(leader, Type::finish, static_cast<std::uint8_t>(row.code));
    CHECK(next_of(leader) == "finish " + number(row.code));
    CHECK(pod.agent.code() == row.code);
    CHECK(pod.agent.err() == row.last_line);
  }
}

TEST_CASE("the agent kills the commands that still run when the pod ends") {
  Pod pod;
  Link leader = pod.lead();
  Link command = pod.run("echo $$; sleep 100");
  const pid_t pid = pid_of(command);
  say_to(leader, Type::finish, 0);
  CHECK(pod.agent.code() == 0);
  CHECK(in_time([&] { return !is_alive(pid); }));
}

TEST_CASE(
    "if a newer launcher connects, the agent drops the older launcher and ends the attempt of the older "
    "launcher") {
  const Pod pod;
  Link older = pod.lead();
  Link command = pod.run("echo $$; trap '' TERM; sleep 100"), process = pod.begin(0);
  const pid_t pid = pid_of(command);
  Link newer = pod.lead();
  CHECK(next_of(older) == "closed");
  CHECK(closes(command));
  CHECK(closes(process));
  CHECK(in_time([&] { return !is_alive(pid); }));
  CHECK(next_of(newer, 100) == "silence");
}

TEST_CASE("the first launcher of an agent does not end a process that connected before this launcher") {
  const Pod pod;
  Link process = pod.begin(0);
  const Link leader = pod.lead();
  CHECK(next_of(process, 100) == "silence");
}

TEST_CASE("the agent names no failure of an older attempt when a later attempt ends") {
  Pod pod;
  {
    Link older = pod.lead();
    Link process = pod.begin(2);
    ends(process, {.rank = 2, .code = 7});
  }
  Link newer = pod.lead();
  say_to(newer, Type::finish, 5);
  CHECK(pod.agent.code() == 5);
  CHECK(pod.agent.err().empty());
}

TEST_CASE("if the launcher is lost, the agent ends the attempt and waits for the next launcher") {
  Pod pod;
  std::optional<Link> leader = pod.lead();
  Link command = pod.run("echo $$; sleep 100"), process = pod.begin(0);
  const pid_t pid = pid_of(command);
  leader.reset();
  CHECK(closes(command));
  CHECK(closes(process));
  CHECK(in_time([&] { return !is_alive(pid); }));
  CHECK(pod.agent.runs());
}

TEST_CASE("a pod ends with the code `gave_up` if it has had no launcher for patience_ms") {
  Pod pod(300);
  std::optional<Link> leader = pod.lead();
  CHECK(next_of(*leader, 1200) == "silence");
  CHECK(pod.agent.runs());
  leader.reset();
  CHECK(pod.agent.code() == gave_up);
  CHECK(pod.agent.err() == "mlk: no launcher has come: worker/0 is not there\n");
}

TEST_CASE("a pod passes SIGTERM on to its processes, tells the launcher, and ends after the last process") {
  for (const int signal : {SIGTERM, SIGINT}) {
    Pod pod;
    Link leader = pod.lead(), process = pod.begin(0);
    pod.agent.signal(signal);
    CHECK(next_of(process) == "signal 15");
    CHECK(next_of(leader) == "stopping");
    Link late = pod.begin(1);
    CHECK(next_of(late) == "signal 15");
    Link next_leader = pod.connect();
    say_to(next_leader, Type::lead);
    CHECK(next_of(next_leader) == "lead");
    CHECK(next_of(next_leader) == "stopping");
  }
  Pod pod;
  std::optional<Link> process = pod.begin(0);
  pod.agent.signal(SIGTERM);
  CHECK(next_of(*process) == "signal 15");
  ::usleep(600000);  // longer than one wait of the agent in poll()
  CHECK(pod.agent.runs());
  process.reset();
  CHECK(pod.agent.code() == 143);
}

TEST_CASE("a pod without processes ends at once on SIGTERM") {
  Pod pod;
  const Link leader = pod.lead();
  pod.agent.signal(SIGTERM);
  CHECK(pod.agent.code() == 143);
}

TEST_CASE(
    "the agent closes a connection if its first frame is unexpected or repeated, and keeps the others") {
  const Pod pod;
  Link leader = pod.lead();
  Link first = pod.connect();
  say_to(first, Type::finish, 0);
  CHECK(next_of(first) == "closed");
  Link command = pod.run("sleep 100");
  say_to(command, Type::finish, 0);
  CHECK(next_of(command) == "closed");
  Link process = pod.connect();
  say_to(process, Type::process, bytes_of("no rank"));
  CHECK(next_of(process) == "closed");
  Link again = pod.begin(0);
  say_to(again, Type::process, encode(End{.rank = 0}));
  CHECK(next_of(again) == "closed");
  CHECK(next_of(leader, 100) == "silence");
}

TEST_CASE("the agent rejects a client without the run's key") {
  const Pod pod;
  const Link proof_that_it_listens = pod.connect();
  std::optional<Link> stranger =
      connect_to(pod.environment.own, "another key of the same length as ours", 5000);
  REQUIRE(stranger);
  CHECK_FALSE(wait_until_ready(*stranger, 5000));
}

TEST_CASE(
    "the agent accepts a command while six hundred unauthenticated clients are connected or trying to "
    "connect") {
  const Pod pod;
  Link leader = pod.lead();
  std::vector<Link> strangers;
  for (int i = 0; i < 600; ++i) {
    std::optional<Link> one = connect_to(pod.environment.own, test_key, 5000);
    if (one) strangers.push_back(std::move(*one));  // these connections send no bytes
  }
  CHECK(all_of(pod.run("echo here")).out == "here\n");
  CHECK(next_of(leader, 100) == "silence");
}

TEST_CASE("a pod whose processes ignore SIGTERM ends at its time limit") {
  PodEnvironment environment = pods(1);
  CHECK(environment.time_to_stop_ms == 25000);  // Kubernetes kills after 30 s
  environment.time_to_stop_ms = 300;
  Child agent([&] { return serve(environment, {"train"}); });
  Link process = reach(environment.own);
  say_to(process, Type::process, encode(End{.rank = 0}));
  REQUIRE(next_of(process).starts_with("program "));
  Link command = reach(environment.own);
  say_to(command, Type::run, bytes_of("trap '' TERM; echo $$; while :; do sleep 100; done"));
  const pid_t pid = pid_of(command);
  agent.signal(SIGTERM);
  CHECK(next_of(process) == "signal 15");
  CHECK(agent.code() == 143);
  CHECK(in_time([&] { return !is_alive(pid); }));
}

TEST_CASE("a second SIGTERM does not give a pod more time, and the program gets only one signal") {
  PodEnvironment environment = pods(1);
  environment.time_to_stop_ms = 1500;
  Child agent([&] { return serve(environment, {"train"}); });
  Link process = reach(environment.own);
  say_to(process, Type::process, encode(End{.rank = 0}));
  REQUIRE(next_of(process).starts_with("program "));
  agent.signal(SIGTERM);
  CHECK(next_of(process) == "signal 15");
  for (int i = 0; i < 600 && agent.runs(); ++i) {
    agent.signal(SIGTERM);
    ::usleep(20000);
  }
  CHECK(agent.code() == 143);
  CHECK(next_of(process) == "closed");
}

TEST_CASE("the agent closes a connection whose first frame is late, and keeps the connection of a launcher") {
  PodEnvironment environment = pods(1);
  CHECK(environment.time_to_prove_ms == 10000);
  environment.time_to_prove_ms = 300;
  Child agent([&] { return serve(environment, {"train"}); });
  Link leader = reach(environment.own);
  say_to(leader, Type::lead);
  CHECK(next_of(leader) == "lead");
  std::optional<Link> stranger = connect_to(environment.own, test_key, 5000);
  REQUIRE(stranger);
  CHECK(next_of(*stranger) == "closed");
  Link silent = reach(environment.own);
  CHECK(next_of(silent) == "closed");
  CHECK(next_of(leader, 100) == "silence");
}

TEST_CASE("the agent closes the descriptors of ended commands and connections") {
  const Pod pod;
  Link leader = pod.lead();
  const long before = descriptors(pod.agent.pid());
  for (const char* command : {"true", "exec /no/such/orted", "exec 1>&- 2>&-; exit 3", "sleep 100 & exit 5"})
    CHECK(all_of(pod.run(command)).last.starts_with("ended 0 "));
  CHECK(in_time([&] { return descriptors(pod.agent.pid()) == before; }));
  {
    Link command = pod.run("echo $$; sleep 100");
    (void)pid_of(command);
    CHECK(descriptors(pod.agent.pid()) == before + 3);  // the connection and two pipes
    const Link process = pod.begin(0);
    const std::optional<Link> stranger = connect_to(pod.environment.own, test_key, 5000);
    CHECK(in_time([&] { return descriptors(pod.agent.pid()) == before + 5; }));
  }
  CHECK(in_time([&] { return descriptors(pod.agent.pid()) == before; }));
  Link wrong = pod.connect();
  say_to(wrong, Type::finish, 0);
  CHECK(next_of(wrong) == "closed");
  const Link newer = pod.lead();
  CHECK(in_time([&] { return descriptors(pod.agent.pid()) == before; }));
}

TEST_CASE("a command of mpirun gets no descriptor of the agent, and has no signal blocked or ignored") {
  const PodEnvironment environment = pods(1);
  Child agent([&] {
    ::close_range(3, ~0U, 0);  // descriptors that the tests have inherited
    return serve(environment, {"train"});
  });
  const auto run = [&](const std::string& text) {
    Link link = reach(environment.own);
    say_to(link, Type::run, bytes_of(text));
    return all_of(std::move(link)).out;
  };
  CHECK(run(tell_descriptors) == "\n");
  CHECK(hears_our_signals(run("cat /proc/self/status")));
}

}  // namespace
}  // namespace mlk::mpi
