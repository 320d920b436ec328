// Checks a process of the program. The test plays the agent of the process.
#include "pod/mpi/process.h"

#include <netinet/in.h>

#include <doctest/doctest.h>

#include "tests/unit/pod/mpi/played.h"

TEST_SUITE_BEGIN("pod/mpi/process");

namespace mlk::mpi {
namespace {

constexpr const char* rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

// The test plays the agent of a pod. The outputs of a sleeping process are the log of the pod.
struct Played {
  PodEnvironment environment = pods(1);
  int listener = listen_at(environment.own);
  Child log{[] {
    ::sleep(600);
    return 0;
  }};

  ~Played() { ::close(listener); }

  Link accept(std::string_view key = test_key) const {
    pollfd wait{.fd = listener, .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&wait, 1, patience_of_tests_ms) == 1);
    return {::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), Session::Side::server, key};
  }

  // Accepts the connection of a process, and sends the program to the process.
  Link give(const std::vector<std::string>& words, const std::string& folder = "/") const {
    Link link = accept();
    CHECK(next_of(link).starts_with("process "));
    say_to(link, Type::program,
           encode(Program{.agent = static_cast<std::uint32_t>(log.pid()), .folder = folder, .words = words}));
    return link;
  }
};

int as_rank(const PodEnvironment& environment, const char* variable = nullptr, const char* value = "") {
  for (const char* each : rank_variables) ::unsetenv(each);
  if (variable != nullptr) ::setenv(variable, value, 1);
  return run_process(environment);
}

TEST_CASE(
    "a process reads its rank from a variable of Open MPI, PMIx or PMI, and reports rank 0 if none is set") {
  for (const char* variable : rank_variables) {
    const Played agent;
    Child process([&] { return as_rank(agent.environment, variable, "17"); });
    Link link = agent.accept();
    CHECK(next_of(link) == "process 17 0");
  }
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.accept();
  CHECK(next_of(link) == "process 0 0");
}

TEST_CASE("a process starts the program in the given folder, and the program writes to the pod's log") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment, "PMI_RANK", "2"); });
  Link link = agent.give({"sh", "-c", "pwd; echo \"$0\" >&2; exit 4", "two words"}, "/usr");
  CHECK(next_of(link) == "ended 2 4");
  CHECK(agent.log.out() == "/usr\n");
  CHECK(agent.log.err() == "two words\n");
  CHECK(process.runs());  // the process runs until the agent acknowledges the end
  say_to(link, Type::ended);
  CHECK(process.code() == 4);
  CHECK(process.out().empty());
}

TEST_CASE("a process ends with 127 or 126 if the program cannot be run, and the log has the reason") {
  const Played agent;
  for (const auto& [program, code, text] :
       {std::tuple{"/no/such/program", "127", "mlk: /no/such/program: No such file or directory\n"},
        {"/etc/passwd", "126", "mlk: /etc/passwd: Permission denied\n"}}) {
    Child process([&] { return as_rank(agent.environment); });
    Link link = agent.give({program});
    CHECK(next_of(link) == std::string("ended 0 ") + code);
    say_to(link, Type::ended);
    CHECK(process.code() == std::atoi(code));
    CHECK(agent.log.err().ends_with(text));
  }
}

const std::vector<std::string> ends_when_told{"sh", "-c",
                                              "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"};

TEST_CASE("a process sets `told` in its report if the agent or mpirun asked the program to end") {
  for (const bool by_agent : {true, false}) {
    const Played agent;
    Child process([&] { return as_rank(agent.environment); });
    Link link = agent.give(ends_when_told);
    REQUIRE(in_time([&] { return agent.log.out() == "ready\n"; }));
    if (by_agent) {
      say_to(link, Type::signal, SIGTERM);
    } else {
      process.signal(SIGTERM);
    }
    CHECK(next_of(link) == "ended 0 9 told");
    say_to(link, Type::ended);
    CHECK(process.code() == 9);
  }
}

TEST_CASE("a program gets a signal from the agent, even if the signal arrives together with the program") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.give({"sleep", "100"});
  say_to(link, Type::signal, SIGUSR1);
  CHECK(next_of(link) == "ended 0 " + number(128 + SIGUSR1) + " told");
}

TEST_CASE("a program ends when the agent closes the connection") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  {
    const Link link = agent.give({"sh", "-c", "echo $$; exec sleep 100"});
    REQUIRE(in_time([&] { return agent.log.out().ends_with("\n"); }));
  }
  CHECK(process.code() == 126);
  const pid_t program = std::atoi(agent.log.out().c_str());
  CHECK(in_time([&] { return !is_alive(program); }));
}

TEST_CASE("a program ends if the process that mpirun has started is killed") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  const Link link = agent.give({"sh", "-c", "echo $$; exec sleep 100"});
  REQUIRE(in_time([&] { return agent.log.out().ends_with("\n"); }));
  process.signal(SIGKILL);
  const pid_t program = std::atoi(agent.log.out().c_str());
  CHECK(in_time([&] { return !is_alive(program); }));
}

TEST_CASE("a process ends with 126 if it gets no program from its agent, or cannot enter the folder") {
  SUBCASE("no agent listens") {
    const PodEnvironment environment = pods(1);
    Child process([&] { return as_rank(environment); });
    CHECK(process.code() == 126);
    CHECK(process.err() == "mlk: the agent of this pod does not answer\n");
  }
  SUBCASE("the agent has another key") {
    const Played agent;
    Child process([&] { return as_rank(agent.environment); });
    {
      Link link = agent.accept("another key of the same length as ours");
      CHECK(next_of(link) == "closed");
    }
    CHECK(process.code() == 126);
  }
  SUBCASE("the agent sends a frame without a program") {
    const Played agent;
    Child process([&] { return as_rank(agent.environment); });
    Link link = agent.accept();
    CHECK(next_of(link) == "process 0 0");
    say_to(link, Type::ended);
    CHECK(process.code() == 126);
    CHECK(process.err() == "mlk: the agent of this pod says no program\n");
  }
  SUBCASE("the folder does not exist") {
    const Played agent;
    Child process([&] { return as_rank(agent.environment); });
    const Link link = agent.give({"true"}, "/no/such/folder");
    CHECK(process.code() == 126);
    CHECK(process.err() == "mlk: /no/such/folder: No such file or directory\n");
  }
}

TEST_CASE(
    "if all pods are on one machine, the default folder of Open MPI's shared memory is the pod's folder") {
  for (const char* set : {"", "/elsewhere"}) {
    Played agent;
    agent.environment.folder = "/pods/x-0";
    Child process([&] {
      if (*set != '\0') ::setenv("OMPI_MCA_btl_vader_backing_directory", set, 1);
      return as_rank(agent.environment);
    });
    Link link = agent.give(
        {"sh", "-c", "echo $OMPI_MCA_btl_vader_backing_directory $OMPI_MCA_btl_sm_backing_directory"});
    CHECK(next_of(link) == "ended 0 0");
    CHECK(agent.log.out() == (*set == '\0' ? "/pods/x-0 /pods/x-0\n" : "/elsewhere /pods/x-0\n"));
  }
}

TEST_CASE("a program starts without blocked or ignored signals, even if mpirun has blocked a signal") {
  const Played agent;
  Child process([&] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    return as_rank(agent.environment);
  });
  Link link = agent.give({"cat", "/proc/self/status"});
  CHECK(next_of(link) == "ended 0 0");
  const std::string status = agent.log.out();
  CHECK(signals_of(status, "SigBlk") == 0);
  for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGCHLD})
    CHECK_FALSE(has_signal(signals_of(status, "SigIgn"), signal));
}

TEST_CASE("a program gets only its three descriptors") {
  const Played agent;
  Child process([&] {
    ::close_range(3, ~0U, 0);  // descriptors that the tests have inherited
    return as_rank(agent.environment);
  });
  Link link = agent.give({"sh", "-c", tell_descriptors});
  CHECK(next_of(link) == "ended 0 0");
  CHECK(agent.log.out() == "\n");
}

TEST_CASE("a process asks its program to end on SIGINT, as it does on SIGTERM") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.give(ends_when_told);
  REQUIRE(in_time([&] { return agent.log.out() == "ready\n"; }));
  process.signal(SIGINT);
  CHECK(next_of(link) == "ended 0 9 told");
}

TEST_CASE(
    "a process does not set `told` in its report if it did not send the signal that ended the program") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.give({"sh", "-c", "kill -9 $$"});
  CHECK(next_of(link) == "ended 0 137");
  say_to(link, Type::ended);
  CHECK(process.code() == 137);
}

TEST_CASE("a process ends with the program's code if the agent closes the connection after the report") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  {
    Link link = agent.give({"sh", "-c", "exit 4"});
    CHECK(next_of(link) == "ended 0 4");
  }
  CHECK(process.code() == 4);
}

TEST_CASE(
    "a process waits for the frame `ended` after its report, and ignores a frame `signal` without a number") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.give({"sh", "-c", "trap 'exit 5' USR1; echo ready; while :; do sleep 0.01; done"});
  REQUIRE(in_time([&] { return agent.log.out() == "ready\n"; }));
  say_to(link, Type::signal);
  say_to(link, Type::stopping, SIGKILL);
  say_to(link, Type::signal, SIGUSR1);
  CHECK(next_of(link) == "ended 0 5 told");
  say_to(link, Type::signal, SIGKILL);
  CHECK(next_of(link, 100) == "silence");
  CHECK(process.runs());
  say_to(link, Type::ended);
  CHECK(process.code() == 5);
}

TEST_CASE("a process and its program end if the parent of the process ends") {
  const Played agent;
  Child orted([&] {
    if (::fork() == 0) ::_exit(as_rank(agent.environment));
    ::sleep(600);
    return 0;
  });
  Link link = agent.give({"sh", "-c", "echo $$; exec sleep 100"});
  REQUIRE(in_time([&] { return agent.log.out().ends_with("\n"); }));
  orted.signal(SIGKILL);
  CHECK(closes(link));
  const pid_t program = std::atoi(agent.log.out().c_str());
  CHECK(in_time([&] { return !is_alive(program); }));
}

TEST_CASE("if the pod has no log, the program writes to the outputs that mpirun reads") {
  const Played agent;
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.accept();
  CHECK(next_of(link).starts_with("process "));
  say_to(link, Type::program,
         encode(Program{.agent = 0, .folder = "/", .words = {"sh", "-c", "echo out; echo err >&2"}}));
  CHECK(next_of(link) == "ended 0 0");
  CHECK(process.out() == "out\n");
  CHECK(process.err() == "err\n");
}

TEST_CASE("Open MPI's folder for shared memory is not set if the pods are on several machines") {
  const int listener = listen_at({"0.0.0.0", "0"});
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size) == 0);
  Played agent;
  ::close(std::exchange(agent.listener, listener));
  agent.environment.own = {"0.0.0.0", number(ntohs(bound.sin_port))};
  agent.environment.folder = "/pods/x-0";
  Child process([&] { return as_rank(agent.environment); });
  Link link = agent.give(
      {"sh", "-c", "echo \"$OMPI_MCA_btl_vader_backing_directory$OMPI_MCA_btl_sm_backing_directory\""});
  CHECK(next_of(link) == "ended 0 0");
  CHECK(agent.log.out() == "\n");
}

}  // namespace
}  // namespace mlk::mpi
