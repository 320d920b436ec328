// Checks the launcher with a script instead of mpirun, and with the agents of two pods.
#include <doctest/doctest.h>

#include "pod/mpi/launcher.h"
#include "tests/unit/pod/mpi/played.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("pod/mpi/launcher_run");

namespace mlk::mpi {
namespace {

constexpr char open_mpi[] = "mpirun (Open MPI) 4.1.4";

struct Run {
  const TemporaryFolder folder;
  PodEnvironment environment = pods(2);

  Run() {
    environment.folder = folder.path().string();
    environment.processes = 2;
  }

  std::string path(const char* name) const { return (folder.path() / name).string(); }

  // Writes a script that plays mpirun: it prints `version`, or else executes `does`. $HERE is the folder.
  void write_mpirun(const std::string& version, const std::string& does, const char* name = "mpirun") const {
    const std::filesystem::path file = folder.write(
        std::string("bin/") + name, "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '" + version +
                                        "'; exit 0; fi\nHERE=" + path("") + "\n" + does + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  int first_pod() const {
    ::setenv("PATH", (path("bin") + ":/usr/bin:/bin").c_str(), 1);
    return launch(environment, {"train"}, "/mlk-mpi");
  }
  int second_pod() const { return serve(seen_by(environment, 1), {"train"}); }

  bool is_there(const char* name) const { return std::filesystem::exists(path(name)); }
};

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE(
    "the launcher starts mpirun when all pods are connected, and all pods end with 0 if mpirun succeeds") {
  const Run run;
  run.write_mpirun(open_mpi, "echo \"$@\" >$HERE/words; echo \"$TMPDIR\" >$HERE/tmp; echo hello");
  Child first([&] { return run.first_pod(); });
  ::usleep(400000);
  CHECK_FALSE(run.is_there("words"));
  Child second([&] { return run.second_pod(); });
  CHECK(first.code() == 0);
  CHECK(second.code() == 0);
  CHECK(first.out() == "hello\n");
  CHECK(text_of_file(run.path("words")) ==
        "--hostfile " + run.path("hosts") + " -wdir / -n 4 /mlk-mpi --rank\n");
  CHECK(text_of_file(run.path("hosts")) ==
        run.environment.all[0].host + " slots=2\n" + run.environment.all[1].host + " slots=2\n");
  CHECK(text_of_file(run.path("tmp")) == run.path("mpirun") + "\n");
}

TEST_CASE(
    "the launcher uses mpiexec if there is no mpirun, and fails if both are missing or mpirun is unknown") {
  SUBCASE("only mpiexec exists") {
    const Run run;
    run.write_mpirun("HYDRA build details:", "echo \"$1\" >$HERE/words", "mpiexec");
    Child first([&] {
      ::setenv("PATH", run.path("bin").c_str(), 1);
      return launch(run.environment, {"train"}, "/mlk-mpi");
    });
    Child second([&] { return run.second_pod(); });
    CHECK(first.code() == 0);
    CHECK(text_of_file(run.path("words")) == "-f\n");
  }
  SUBCASE("neither mpirun nor mpiexec exists") {
    const Run run;
    Child first([&] {
      ::setenv("PATH", run.path("").c_str(), 1);
      return launch(run.environment, {"train"}, "/mlk-mpi");
    });
    CHECK(first.code() == 127);
    CHECK(first.err().ends_with("mlk: the image has neither mpirun nor mpiexec in its PATH\n"));
  }
  SUBCASE("mpirun is an unknown program") {
    const Run run;
    run.write_mpirun("srun 23.02", "true");
    Child first([&] { return run.first_pod(); });
    CHECK(first.code() == 126);
  }
}

TEST_CASE("the first pod ends with mpirun's code if mpirun fails but no process has failed") {
  const Run run;
  run.write_mpirun(open_mpi, "exit 3");
  Child first([&] { return run.first_pod(); });
  Child second([&] { return run.second_pod(); });
  CHECK(first.code() == 3);
  CHECK(second.runs());  // the pod waits for the next attempt
}

TEST_CASE(
    "the pod of a failed process ends with the process's code, and mpirun starts again with a new pod") {
  const Run run;
  run.write_mpirun(open_mpi, "if [ -e $HERE/failed ]; then exit 0; fi; echo >$HERE/started; exec sleep 100");
  Child first([&] { return run.first_pod(); });
  {
    Child second([&] { return run.second_pod(); });
    REQUIRE(in_time([&] { return run.is_there("started"); }));
    Link process = reach(run.environment.all[1]);
    say_to(process, Type::process, encode(End{.rank = 3}));
    CHECK(next_of(process).starts_with("program "));
    run.folder.write("failed", "");
    say_to(process, Type::ended, encode(End{.rank = 3, .code = 7}));
    CHECK(second.code() == 7);
    CHECK(second.err().ends_with("mlk: rank 3 of MPI ended with exit code 7\n"));
    CHECK(first.runs());
  }
  Child second_again([&] { return run.second_pod(); });
  CHECK(first.code() == 0);
  CHECK(second_again.code() == 0);
  CHECK(first.err() == "mlk: worker/1 ends with 7; mpirun starts again when it is back\n");
}

TEST_CASE("the launcher waits for the end of each new mpirun, even if an earlier mpirun ended with 0") {
  const Run run;
  run.write_mpirun(
      open_mpi,
      "if [ -e $HERE/failed ]; then sleep 1; exit 3; fi\n"
      "echo >$HERE/started; while [ ! -e $HERE/failed ]; do sleep 0.02; done; sleep 0.3; exit 0");
  Child first([&] { return run.first_pod(); });
  {
    Child second([&] { return run.second_pod(); });
    REQUIRE(in_time([&] { return run.is_there("started"); }));
    Link process = reach(run.environment.all[1]);
    say_to(process, Type::process, encode(End{.rank = 3}));
    CHECK(next_of(process).starts_with("program "));
    say_to(process, Type::ended, encode(End{.rank = 3, .code = 7}));
    CHECK(next_of(process) == "ended");  // the agent has reported the failure to the launcher
    run.folder.write("failed", "");
    CHECK(second.code() == 7);
  }
  const Child second_again([&] { return run.second_pod(); });
  CHECK(first.code() == 3);
}

TEST_CASE("the launcher starts mpirun again, and blames no pod, if a pod was lost or stopped") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const Run run;
    run.write_mpirun(open_mpi, "if [ -e $HERE/lost ]; then exit 0; fi; echo >$HERE/started; exec sleep 100");
    Child first([&] { return run.first_pod(); });
    {
      Child second([&] { return run.second_pod(); });
      REQUIRE(in_time([&] { return run.is_there("started"); }));
      run.folder.write("lost", "");
      second.signal(signal);
      CHECK(second.code() == 128 + signal);
    }
    Child second_again([&] { return run.second_pod(); });
    CHECK(first.code() == 0);
    CHECK(first.err() == "mlk: a pod was lost or is being stopped; mpirun starts again when all are there\n");
  }
}

TEST_CASE("the first pod ends with mpirun's code if mpirun fails in the attempt after the loss of a pod") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const Run run;
    run.write_mpirun(open_mpi, "if [ -e $HERE/lost ]; then exit 3; fi; echo >$HERE/started; exec sleep 100");
    Child first([&] { return run.first_pod(); });
    {
      Child second([&] { return run.second_pod(); });
      REQUIRE(in_time([&] { return run.is_there("started"); }));
      run.folder.write("lost", "");
      second.signal(signal);
      CHECK(second.code() == 128 + signal);
    }
    const Child second_again([&] { return run.second_pod(); });
    CHECK(first.code() == 3);
  }
}

TEST_CASE("mpirun starts again if it fails while a stopping pod saves its work") {
  const Run run;
  run.write_mpirun(open_mpi,
                   "if [ -e $HERE/saved ]; then exit 0; fi\n"
                   "echo >$HERE/started; while [ ! -e $HERE/stopped ]; do sleep 0.02; done; exit 1");
  Child first([&] { return run.first_pod(); });
  {
    Child second([&] { return run.second_pod(); });
    REQUIRE(in_time([&] { return run.is_there("started"); }));
    std::optional<Link> process = reach(run.environment.all[1]);
    say_to(*process, Type::process, encode(End{.rank = 3}));
    CHECK(next_of(*process).starts_with("program "));
    second.signal(SIGTERM);
    CHECK(next_of(*process) == "signal 15");
    run.folder.write("stopped", "");
    REQUIRE(in_time([&] { return !first.runs() || first.err() != ""; }));
    run.folder.write("saved", "");
    process.reset();
    CHECK(second.code() == 143);
  }
  Child second_again([&] { return run.second_pod(); });
  CHECK(first.code() == 0);
  // The line is printed once or twice, since the launcher may try again before the pod has ended.
  CHECK(first.err().starts_with(
      "mlk: a pod was lost or is being stopped; mpirun starts again when all are there\n"));
}

TEST_CASE("the first pod ends on SIGTERM like any other pod") {
  const Run run;
  run.write_mpirun(open_mpi, "echo >$HERE/started; exec sleep 100");
  Child first([&] { return run.first_pod(); });
  Child second([&] { return run.second_pod(); });
  REQUIRE(in_time([&] { return run.is_there("started"); }));
  first.signal(SIGTERM);
  CHECK(first.code() == 143);
}

TEST_CASE("the first pod ends if another pod has not come within patience_ms, and names the missing pod") {
  Run run;
  run.environment.patience_ms = 500;
  run.write_mpirun(open_mpi, "true");
  Child first([&] { return run.first_pod(); });
  CHECK(first.code() == gave_up);
  CHECK(first.err() == "mlk: worker/1 is not there\n");
}

TEST_CASE(
    "mpirun gets no descriptor and no blocked signal of the launcher, and other users cannot read mpirun's "
    "files") {
  const Run run;
  run.folder.write("tell", tell_descriptors);
  run.write_mpirun(open_mpi, "sh -c \"$(cat $HERE/tell)\"; cat /proc/self/status");
  Child first([&] {
    ::close_range(3, ~0U, 0);  // descriptors that the tests have inherited
    return run.first_pod();
  });
  Child second([&] { return run.second_pod(); });
  CHECK(first.code() == 0);
  const std::string status = first.out();
  CHECK(status.starts_with("\n"));
  CHECK(hears_our_signals(status));
  using std::filesystem::perms;
  CHECK(std::filesystem::status(run.path("hosts")).permissions() == (perms::owner_read | perms::owner_write));
  CHECK(std::filesystem::status(run.path("mpirun")).permissions() == perms::owner_all);
}

}  // namespace
}  // namespace mlk::mpi
