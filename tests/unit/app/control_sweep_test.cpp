// Tests mlk stop, resume and delete for sweeps, for single trials, and for the selection of --where.

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("app/control_sweep");

namespace mlk {
namespace {

using nlohmann::json;
using test::PlayedControllers;
using test::Sweeper;
using test::Tree;

constexpr char two_processes[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy, max_failures: 9}\n";
constexpr char one_process[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n";

// mlk on a cluster with one sweep. mlk can ask questions only if the test gives an `answer`.
struct Console {
  Sweeper sweeper;
  std::string sweep;
  std::string answer;  // the answer that the user types; empty: there is no user
  int asked = 0;

  explicit Console(const char* experiment) : sweeper(experiment) {}

  struct Said {
    int code;
    std::string out, err;
    bool has(const std::string& part) const { return err.find(part) != std::string::npos; }
  };
  Said type(std::vector<std::string> words) {
    Tree tree;
    if (!answer.empty())
      tree.session.read_answer = [this] {
        ++asked;
        return answer;
      };
    words.insert(words.end(), {"--kubeconfig", sweeper.cluster.kubeconfig()});
    const int code = tree.run(words);
    return {code, tree.out.str(), tree.err.str()};
  }
  std::string flags() const { return " --kubeconfig " + shell_word(sweeper.cluster.kubeconfig()); }
  std::string trial(int number) const { return sweep + "/" + std::to_string(number); }

  sweeps::SweepStatus status() {
    kube::Client client(sweeper.cluster.config());
    return sweeps::observe_sweep(sweeps::fetch_sweep(client, "default", sweep, sweeps::WithPods::yes),
                                 std::chrono::system_clock::now());
  }
  // "suspended " or "going " for the Job of each run, in the order of their trials.
  std::string jobs() {
    std::string out;
    const json all = sweeper.cluster.ask("GET", test::jobs_path);
    const sweeps::SweepStatus now = status();
    for (const auto& [number, run] : now.newest_runs) {
      for (const json& job : all["items"]) {
        if (kube::label_of(job, "mlk.dev/run") == run)
          out += at_path(job, {"spec", "suspend"}) == true ? "suspended " : "going ";
      }
    }
    return out;
  }
  std::string everything() const {
    return sweeper.cluster.names("configmaps") + sweeper.cluster.names("jobs");
  }
};

// Two trials run, each as a run of its own, and the sweep has no driver.
struct TwoRun : Console {
  TwoRun() : Console(two_processes) {
    const PlayedControllers controllers(sweeper.cluster, [](double) { return PlayedControllers::runs_on; });
    sweep = sweeper.drive_until_running({"lr=0.1,0.2"}, 2);
  }
};

// The trials are indexes of a Job.
struct OfCluster : Console {
  OfCluster() : Console(one_process) { sweep = sweeper.start({"lr=0.1,0.2"}).sweep; }
};

// Counts the requests that change something.
void count_changes(Sweeper& sweeper, std::atomic<int>& changes) {
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const bool is_review = asked.path.find("selfsubject") != std::string::npos;  // it changes nothing
    changes += asked.method == "GET" || is_review ? 0 : 1;
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("mlk stop, mlk resume and mlk delete refuse a trial that is only an index of a Job") {
  OfCluster console;
  const std::string before = console.everything();
  for (const std::string doing : {"stop", "resume", "delete"}) {
    const auto said = console.type({doing, console.trial(1)});
    INFO(said.err);
    CHECK(said.code == 2);
    CHECK(said.has("the cluster runs " + console.trial(1) + " by itself, as an index of a Job, and cannot " +
                   doing + " it alone"));
    CHECK(said.has("hint: " + doing + " the whole sweep: mlk " + doing + " " + console.sweep +
                   console.flags()));
  }
  CHECK(console.everything() == before);
  CHECK(console.status().phase == Phase::scheduling);
}

TEST_CASE("mlk logs says why there are no lines if a sweep has no pods") {
  OfCluster console;
  const auto told = [&] {
    const auto said = console.type({"logs", console.sweep});
    CHECK(said.code == 0);
    CHECK(said.out.empty());
    return said.err;
  };
  const std::string& sweep = console.sweep;
  CHECK(told() == "no trial of sweep " + sweep + " has started; wait for their logs with: mlk logs -f " +
                      sweep + console.flags() + ", or for those of one with: mlk logs -f " + sweep + "/0" +
                      console.flags() + "\n");
  const json jobs = console.sweeper.cluster.ask("GET", test::jobs_path);
  for (const json& job : jobs["items"]) {
    console.sweeper.cluster.store.modify("jobs", "default", kube::name_of(job), [](json& changed) {
      changed["status"] = {
          {"startTime", "2026-11-21T07:00:00Z"}, {"succeeded", 1}, {"completedIndexes", "0"}};
    });
  }
  CHECK(told() == "no log of sweep " + console.sweep +
                      " is left, as its pods were deleted; look at the results with: mlk results " +
                      console.sweep + console.flags() + "\n");
}

TEST_CASE(
    "mlk stop, mlk resume and mlk delete fail with exit code 3 if the sweep has no trial of this number") {
  TwoRun console;
  const std::string run = console.status().newest_runs.at(0);
  for (const std::string doing : {"stop", "resume", "delete"}) {
    const auto said = console.type({doing, console.trial(7)});
    INFO(said.err);
    CHECK(said.code == 3);
    CHECK(said.has("sweep " + console.sweep + " has no trial 7"));
    CHECK(said.has("list them with: mlk results " + console.sweep + console.flags()));
    CHECK(console.type({doing, console.sweep + "/x"}).has("'x' is no number of a trial"));
    const auto of_run = console.type({doing, run + "/0"});
    CHECK(of_run.code == 2);
    CHECK(of_run.has(run + " is no sweep: it has no trials"));
  }
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("mlk stop and mlk resume of one trial of a sweep leave its other trials running") {
  TwoRun console;
  const auto stopped = console.type({"stop", console.trial(1)});
  CHECK(stopped.code == 0);
  CHECK(stopped.err == "stopped " + console.trial(1) + "; let it go on with: mlk resume " + console.trial(1) +
                           console.flags() + "\n");
  CHECK(console.jobs() == "going suspended ");
  CHECK(console.status().trials[1].state == sweeps::TrialState::stopped);
  CHECK(console.status().phase == Phase::running);
  CHECK(console.type({"stop", console.trial(1)}).err == stopped.err);
  const auto resumed = console.type({"resume", console.trial(1)});
  CHECK(resumed.code == 0);
  CHECK(resumed.err == "resumed " + console.trial(1) + "\n");
  CHECK(console.jobs() == "going going ");
  CHECK(console.type({"resume", console.trial(1)}).has(console.trial(1) + " is not stopped: "));
  CHECK(console.type({"stop", console.trial(0), "--drain"}).code == 2);
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("mlk stop and mlk resume change no trial if one of the typed names is wrong") {
  TwoRun console;
  const std::vector<std::string> both{console.trial(0), console.trial(1), console.trial(0)};
  const auto type = [&](const std::string& doing, const std::string& more = "") {
    std::vector<std::string> words = both;
    words.insert(words.begin(), doing);
    if (!more.empty()) words.push_back(more);
    return console.type(words);
  };
  for (const std::string doing : {"stop", "resume"}) {
    CHECK(type(doing, "gone").code == 3);
    CHECK(console.jobs() == (doing == "stop" ? "going going " : "suspended suspended "));
    const auto said = type(doing);
    CHECK(said.code == 0);
    CHECK(split(said.err, '\n').size() == 3);  // a line for each trial, and the empty text at the end
    CHECK(console.jobs() == (doing == "stop" ? "suspended suspended " : "going going "));
  }
}

TEST_CASE("if mlk stop or mlk resume of a trial was cut off, a second call completes the work") {
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = 0; which < 2; ++which) {
      INFO(which);
      TwoRun console;
      console.sweeper.cut_off_at(which, cut);
      CHECK(console.type({"stop", console.trial(0)}).code == 4);
      console.sweeper.let_all_through();
      CHECK(console.type({"stop", console.trial(0)}).code == 0);
      CHECK(console.jobs() == "suspended going ");
      CHECK(console.status().trials[0].state == sweeps::TrialState::stopped);
      console.sweeper.cut_off_at(which, cut);
      CHECK(console.type({"resume", console.trial(0)}).code == 4);
      console.sweeper.let_all_through();
      CHECK(console.type({"resume", console.trial(0)}).code == 0);
      CHECK(console.jobs() == "going going ");
      CHECK(console.status().trials[0].state != sweeps::TrialState::stopped);
    }
  }
}

TEST_CASE("the sweep keeps the results of a deleted trial and does not start the trial again") {
  Console console(two_processes);
  {
    const PlayedControllers controllers(console.sweeper.cluster,
                                        [](double lr) { return lr < 0.15 ? 0 : PlayedControllers::runs_on; });
    console.sweep = console.sweeper.drive_until_running({"lr=0.1,0.2,0.3"}, 2);
  }
  const auto runs = console.status().newest_runs;
  const auto said = console.type({"delete", console.trial(0), console.trial(1), "--no-wait"});
  INFO(said.err);
  CHECK(said.code == 0);
  CHECK_FALSE(console.sweeper.cluster.has("configmaps", runs.at(0)));
  CHECK_FALSE(console.sweeper.cluster.has("configmaps", runs.at(1)));
  CHECK(console.sweeper.cluster.has("configmaps", runs.at(2)));
  const sweeps::SweepStatus status = console.status();
  REQUIRE(status.trials.size() == 3);
  CHECK(status.trials[0].state == sweeps::TrialState::succeeded);
  CHECK(status.trials[0].objective == doctest::Approx(0.9));
  CHECK(status.trials[1].state == sweeps::TrialState::stopped);
  CHECK(status.trials[1].failure == "deleted");
  CHECK(status.trials[2].state == sweeps::TrialState::running);
  const PlayedControllers controllers(console.sweeper.cluster, [](double) { return 64; });
  const sweeps::SweepStatus last = console.sweeper.drive_to_end({"lr=0.1,0.2,0.3"});
  CHECK(last.counts.succeeded == 1);
  CHECK(last.counts.stopped == 1);
  CHECK(last.counts.failed == 1);
  CHECK_FALSE(console.sweeper.cluster.has("configmaps", runs.at(1)));
}

TEST_CASE("mlk delete keeps a trial whose results cannot be stored") {
  TwoRun console;
  console.sweeper.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || !asked.path.ends_with("/configmaps")) return std::nullopt;
    return test::refusal(403, "Forbidden", "no more ConfigMaps");
  });
  const auto said = console.type({"delete", console.trial(0), "--no-wait"});
  CHECK(said.code == 1);
  CHECK(said.has("the results of the trials could not be stored: "));
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("a command with --where suggests --yes and changes nothing if there is no terminal") {
  TwoRun console;
  std::atomic<int> changes{0};
  const std::string before = console.everything();
  for (const std::string doing : {"stop", "delete"}) {
    count_changes(console.sweeper, changes);
    for (const std::string& name : {console.sweep, std::string()}) {
      changes = 0;
      std::vector<std::string> words{doing};
      if (!name.empty()) words.push_back(name);
      words.insert(words.end(), {"--where", name.empty() ? "mode==sweep" : "state==Running"});
      const auto said = console.type(words);
      INFO(said.err);
      CHECK(said.code == 2);
      const std::string targets = name.empty() ? "1: " + console.sweep + " (a sweep)"
                                               : "2: " + console.trial(0) + ", " + console.trial(1);
      CHECK(said.has("mlk needs a terminal to ask whether to " + doing + " " + targets));
      CHECK(said.has("hint: add --yes"));
      CHECK(changes == 0);
    }
  }
  CHECK(console.everything() == before);
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("a command with --where changes only the selected runs and trials") {
  TwoRun console;
  const auto said = console.type({"stop", console.sweep, "--where", "lr<0.15", "--yes"});
  CHECK(said.code == 0);
  CHECK(said.has("stop 1: " + console.trial(0) + "\n"));
  CHECK(console.jobs() == "suspended going ");
  CHECK(console.type({"resume", console.sweep, "--where", "state==Stopped", "--yes"}).code == 0);
  CHECK(console.jobs() == "going going ");
  console.answer = "n";
  const auto refused = console.type({"stop", console.sweep, "--where", "lr>0.15"});
  CHECK(refused.code == 0);
  CHECK(refused.has("stop 1: " + console.trial(1) + "? [y/N] "));
  CHECK(refused.has("nothing was changed"));
  CHECK(console.jobs() == "going going ");
  for (const std::string unclear : {" ", "yess", "Y e s"}) {
    console.answer = unclear;
    console.type({"stop", console.sweep, "--where", "lr>0.15"});
  }
  CHECK(console.jobs() == "going going ");
  console.answer = " y\n";
  CHECK(console.type({"stop", console.sweep, "--where", "lr>0.15"}).code == 0);
  CHECK(console.jobs() == "going suspended ");
  CHECK(console.asked == 5);
  console.answer = "";
  CHECK(console.type({"stop", "--where", "mode==sweep", "--yes"}).code == 0);  // of all runs in the namespace
  CHECK(console.jobs() == "suspended suspended ");
  CHECK(console.status().phase == Phase::stopped);
}

TEST_CASE("a command asks no question if --where selects no run") {
  TwoRun console;
  console.answer = "y";
  for (const std::string doing : {"stop", "resume", "delete"}) {
    const auto said = console.type({doing, console.sweep, "--where", "lr>7"});
    CHECK(said.code == 0);
    CHECK(said.has("nothing to " + doing + ": no run or trial matches lr>7"));
  }
  CHECK(console.asked == 0);
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("mlk stop, mlk resume and mlk delete refuse --yes without a run") {
  TwoRun console;
  for (const std::string doing : {"stop", "resume", "delete"}) {
    const auto none = console.type({doing, "--yes"});
    CHECK(none.code == 2);
    CHECK(none.has("a run is required"));
    const auto trial = console.type({doing, console.trial(0), "--where", "lr<1", "--yes"});
    CHECK(trial.code == 2);
    CHECK(trial.has("name the sweep: " + console.sweep));
  }
  CHECK(console.jobs() == "going going ");
}

TEST_CASE("the error for a mistake in --where shows the mistake's position") {
  TwoRun console;
  struct Mistake {
    std::string where, told, under;
  };
  for (const Mistake& mistake :
       {Mistake{"state == Runing", "--where:1:10: ", "         ^"}, Mistake{"lr <", "--where:1:5: ", "    ^"},
        Mistake{"lrr < 1", "--where:1:1: ", "^"},
        Mistake{"duration > 2weeks", "--where:1:12: ", "           ^"}}) {
    const auto said = console.type({"stop", console.sweep, "--where", mistake.where, "--yes"});
    INFO(said.err);
    CHECK(said.code == 2);
    CHECK(said.has(mistake.told));
    const std::size_t line = said.err.find("\n", said.err.find(mistake.told));
    REQUIRE(line != std::string::npos);
    CHECK(said.err.find(mistake.where, line) != std::string::npos);
    CHECK(said.has(mistake.under + "\n"));
  }
  for (const std::string where : {"phase = = 1", "phase == Runing"})
    CHECK(console.type({"stop", "--where", where, "--yes"}).code == 2);
  CHECK(console.jobs() == "going going ");
}

}  // namespace mlk
