#include "sweeps/start/start.h"

#include <functional>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/objects/objects.h"
#include "sweeps/objects/record.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/start/start");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char started_experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\nsweep: {parallel: "
    "2}\n";

}  // namespace

TEST_CASE("a second start of a sweep starts only the points that were added") {
  Sweeper sweeper(started_experiment);
  const Started first = sweeper.start({"lr=0.1,0.2"});
  CHECK(first.trials == 2);
  CHECK(first.started == 2);
  CHECK(first.jobs == 1);
  const Started again = sweeper.start({"lr=0.1,0.2"});
  CHECK(again.sweep == first.sweep);
  CHECK(again.started == 0);
  CHECK(again.trials == 2);
  sweeper.set_job_status(first.sweep + "-trials-0", "0-1");
  const Started more = sweeper.start({"lr=0.3,0.1,0.2"});
  CHECK(more.sweep == first.sweep);
  CHECK(more.started == 1);
  const std::map<int, Point> trials = sweeper.trials(first.sweep);
  REQUIRE(trials.size() == 3);
  CHECK(trials.at(0) == Point{{"train.optimizer.lr", 0.1}});
  CHECK(trials.at(2) == Point{{"train.optimizer.lr", 0.3}});
  // The configuration comes from the first call, and the new trial has a patch of this configuration.
  const std::vector<Batch> batches = sweeper.batches(first.sweep);
  CHECK(batches[1].trials[0].delta.config == json{{"optimizer", {{"lr", 0.3}}}});
}

TEST_CASE("--retry-failed starts failed trials again, with the same numbers") {
  Sweeper sweeper(started_experiment);
  const Started first = sweeper.start({"lr=0.1,0.2,0.3"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0", "1-2");
  CHECK(sweeper.start({"lr=0.1,0.2,0.3"}).started == 0);
  sweeper.retry_failed = true;
  const Started retried = sweeper.start({"lr=0.1,0.2,0.3"});
  CHECK(retried.started == 2);
  CHECK(retried.retried == 2);
  CHECK(retried.trials == 3);
  const std::vector<Batch> batches = sweeper.batches(first.sweep);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].trials[0].number == 1);
  CHECK(batches[1].trials[1].number == 2);
  CHECK(batches[1].trials[1].delta.config == batches[0].trials[2].delta.config);
}

TEST_CASE("--retry-failed also starts the trials that an ended Job has never started") {
  Sweeper sweeper(started_experiment);
  const Started first = sweeper.start({"lr=0.1,0.2,0.3,0.4"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0", "1");
  sweeper.retry_failed = true;
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4"}).retried == 3);
}

TEST_CASE("--retry-failed also retries a trial that exited with 0 but never reported the objective") {
  Sweeper sweeper(started_experiment);
  const Started first = sweeper.start({"lr=0.1,0.2"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0-1");
  kube::Client client(sweeper.cluster.config());
  const SweepObjects objects = fetch_sweep(client, "default", first.sweep, WithPods::no);
  Trial silent;
  silent.number = 1;
  silent.state = TrialState::failed;
  silent.tries = 1;
  silent.failure = never_reported("accuracy");
  REQUIRE(write_ledger(client, "default", objects.owner, objects.config_maps, {silent}, {}));
  sweeper.retry_failed = true;
  CHECK(sweeper.start({"lr=0.1,0.2"}).retried == 1);
  CHECK(sweeper.start({"lr=0.1,0.2"}).retried == 0);
  sweeper.set_job_status(first.sweep + "-trials-1", "0");
  CHECK(sweeper.start({"lr=0.1,0.2"}).retried == 0);
}

TEST_CASE("extract_owner() leaves out objects of an earlier sweep with the same name") {
  Sweeper sweeper(started_experiment);
  const Started first = sweeper.start({"lr=0.1,0.2"});
  kube::Client client(sweeper.cluster.config());
  SweepObjects objects = fetch_sweep(client, "default", first.sweep, WithPods::no);
  json stale = objects.config_maps.front();
  stale["metadata"]["ownerReferences"][0]["uid"] = "of-an-earlier-one";
  objects.config_maps.push_back(stale);
  objects.config_maps.push_back(objects.owner);
  const std::size_t before = objects.config_maps.size();
  REQUIRE(extract_owner(objects));
  CHECK(objects.config_maps.size() == before - 2);
}

TEST_CASE("a start sends the same number of requests for 3 trials and for 400") {
  const auto requests = [](const std::string& values) {
    Sweeper sweeper(started_experiment);
    std::atomic<int> count{0};
    sweeper.cluster.before([&](const local::Request&) -> std::optional<local::Answer> {
      ++count;
      return std::nullopt;
    });
    sweeper.start({values});
    return count.load();
  };
  const int few = requests("steps=1..3");
  CHECK(few > 5);
  CHECK(requests("steps=1..400") == few);
}

// For each request of a start that writes: calls `before`, starts the sweep of `values`, cuts the start off
// at this request, and repeats the start. `check` checks the resulting state.
void cut_everywhere(const std::string& values, const std::function<void(Sweeper&)>& before,
                    const std::function<void(Sweeper&, const Started&)>& check) {
  constexpr int most_requests = 20;
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = Sweeper::first_to_cut; which < most_requests; which += Sweeper::to_next_to_cut) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(started_experiment);
      before(sweeper);
      sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        sweeper.start({values});
      } catch (const Error& error) {
        CHECK((error.code() == ExitCode::interrupted || error.code() == ExitCode::cluster));
        was_cut = true;
      }
      sweeper.let_all_through();
      check(sweeper, sweeper.start({values}));
      if (!was_cut) {
        CHECK(which > 3);  // every request was cut off once
        break;
      }
      REQUIRE(which + Sweeper::to_next_to_cut < most_requests);
    }
  }
}

TEST_CASE("the next start completes a start that was cut off at any request, and starts no trial twice") {
  cut_everywhere(
      "lr=0.1,0.2", [](Sweeper&) {},
      [](Sweeper& sweeper, const Started& started) {
        CHECK(started.trials == 2);
        CHECK(sweeper.trials(started.sweep).size() == 2);
      });
}

TEST_CASE("each added point has one trial if the command is cut off at any request and then repeated") {
  cut_everywhere(
      "lr=0.1,0.2,0.3,0.4",
      [](Sweeper& sweeper) {
        sweeper.set_job_status(sweeper.start({"lr=0.1,0.2"}).sweep + "-trials-0", "0-1");
      },
      [](Sweeper& sweeper, const Started& started) {
        CHECK(started.trials == 4);
        const std::map<int, Point> trials = sweeper.trials(started.sweep);
        REQUIRE(trials.size() == 4);
        CHECK(trials.at(3) == Point{{"train.optimizer.lr", 0.4}});
      });
}

TEST_CASE("each failed trial gets one more try if --retry-failed is cut off at any request and repeated") {
  cut_everywhere(
      "lr=0.1,0.2",
      [](Sweeper& sweeper) {
        sweeper.set_job_status(sweeper.start({"lr=0.1,0.2"}).sweep + "-trials-0", "0", "1");
        sweeper.retry_failed = true;
      },
      [](Sweeper& sweeper, const Started& started) {
        CHECK(started.trials == 2);
        const std::vector<Batch> batches = sweeper.batches(started.sweep);
        REQUIRE(batches.size() == 2);
        CHECK(batches[1].object.has_value());
        REQUIRE(batches[1].trials.size() == 1);
        CHECK(batches[1].trials[0].number == 1);
      });
}

TEST_CASE("before mlk creates any object, it reports a point that cannot be run") {
  Sweeper sweeper(started_experiment);
  CHECK_THROWS_WITH_AS(sweeper.start({"lr=0.1,0.2,fast"}), doctest::Contains("lr=fast cannot be run"), Error);
  CHECK(sweeper.cluster.names("configmaps").find("x-") == std::string::npos);
  const Definition sweep = sweeper.define({"workers.cpu=1,2"});
  CHECK(why_driven(sweeper.request(sweep), sweeper.hooks()) ==
        "roles.worker.cpu differs from trial to trial");
  CHECK(why_driven(sweeper.request(sweeper.define({"lr=1,2"})), sweeper.hooks()) == "");
}

TEST_CASE("why_driven() says why a sweep needs a driver, or returns an empty text if it needs none") {
  struct Case {
    std::string experiment, why;
  };
  const std::string program = "name: x\nmode: single\nrun: a ${sweep.lr}\n";
  const std::string trained = "train: {data: {path: /d}, steps: 4, optimizer: {lr: 0.5}}\n";
  for (const Case& c : std::initializer_list<Case>{
           {"name: x\nmode: single\n" + trained, ""},
           {"name: x\nmode: single\n" + trained +
                "sweep: {objective: minimize loss, search: {tpe: {trials: 2}}}\n",
            "search tpe chooses a trial by the results of earlier trials"},
           {"name: x\nmode: single\n" + trained + "sweep: {objective: minimize loss, stop: median}\n",
            "trials are ended early"},
           {"name: x\nmode: allreduce\n" + trained, "mode allreduce has several processes in a trial"},
           {program + "framework: torch\nworkers: {processes: 2}\n", "a launcher starts the program"}}) {
    INFO(c.experiment);
    Sweeper sweeper(c.experiment);
    CHECK(why_driven(sweeper.request(sweeper.define({"lr=1,2"})), sweeper.hooks()) == c.why);
  }
}

TEST_CASE("a sweep that is marked as stopped refuses new trials while its Job has not ended") {
  Sweeper sweeper(started_experiment);
  const std::string sweep = sweeper.start({"lr=0.1,0.2"}).sweep;
  const auto mark = [&](const json& value) {
    sweeper.cluster.ask("PATCH", test::config_maps_path + "/" + sweep,
                        {{"metadata", {{"annotations", {{annotations::stopped, value}}}}}},
                        "application/merge-patch+json");
  };
  mark("2026-11-23T10:00:00Z");
  try {
    sweeper.start({"lr=0.1,0.2,0.3"});
    FAIL("it was added");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::failure);
    CHECK(std::string(error.what()) == sweep + " is stopped, and more trials cannot be added");
    CHECK(error.hint() == "let it go on with: mlk resume " + sweep);
  }
  CHECK(sweeper.start({"lr=0.1,0.2"}).started == 0);  // this start adds nothing
  CHECK(sweeper.batches(sweep).size() == 1);
  mark(nullptr);
  sweeper.set_job_status(sweep + "-trials-0", "0", "1");
  mark("2026-11-23T10:00:00Z");  // its Job has ended
  sweeper.retry_failed = true;
  CHECK(sweeper.start({"lr=0.1,0.2"}).retried == 1);
}

TEST_CASE("--retry-failed is refused while the Jobs of other trials occupy all places") {
  Sweeper sweeper(
      "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
      "sweep: {parallel: 4}\n");
  sweeper.most_points_bytes = 300;  // enough for two trials
  const Started first = sweeper.start({"lr=0.1,0.2,0.3,0.4"});
  REQUIRE(first.jobs == 2);
  sweeper.set_job_status(first.sweep + "-trials-0", "0", "1");
  sweeper.retry_failed = true;
  REQUIRE(sweeper.start({"lr=0.1,0.2,0.3,0.4"}).retried == 1);
  sweeper.set_job_status(first.sweep + "-trials-2", "", "0");
  sweeper.file.text.replace(sweeper.file.text.find("parallel: 4"), 11, "parallel: 2");
  try {
    sweeper.start({"lr=0.1,0.2,0.3,0.4"});
    FAIL("it was started");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          first.sweep + " still runs, and trials that have failed cannot be started again meanwhile");
    CHECK(error.hint() == "wait for its end with: mlk wait " + first.sweep);
  }
}

TEST_CASE("the owner of a sweep says how many trials the sweep has, and which Jobs were made") {
  Sweeper sweeper(started_experiment);
  const std::string sweep = sweeper.start({"lr=0.1,0.2"}).sweep;
  const auto owner = [&] { return sweeper.cluster.ask("GET", test::config_maps_path + "/" + sweep); };
  CHECK(read_record(owner()).trials == 2);
  CHECK_FALSE(read_record(owner()).driven);
  CHECK(kube::annotation_of(owner(), annotations::roles) == R"({"trial":2})");
  CHECK(kube::annotation_of(owner(), annotations::created) == sweep + "-trials-0");
  sweeper.set_job_status(sweep + "-trials-0", "0-1");
  const Started more = sweeper.start({"lr=0.1,0.2,0.3"});
  CHECK(more.trials == 3);
  CHECK(read_record(owner()).trials == 3);
  CHECK(kube::annotation_of(owner(), annotations::created) == sweep + "-trials-0," + sweep + "-trials-1");
  CHECK(sweeper.start({"lr=0.1"}).trials == 3);  // a start with fewer values removes no trial
  CHECK(read_record(owner()).trials == 3);
}

TEST_CASE("a dry run of a sweep says how many trials there would be, and creates nothing") {
  Sweeper sweeper(started_experiment);
  const std::string before = sweeper.cluster.names("configmaps");
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2,0.3"});
  StartRequest request = sweeper.request(sweep);
  request.dry_run = true;
  const Started started = start_by_cluster(client, request, sweeper.hooks());
  CHECK(started.sweep == sweep.identity.run);
  CHECK(started.trials == 3);
  CHECK(started.started == 0);
  CHECK(sweeper.cluster.names("configmaps") == before);
  CHECK(sweeper.cluster.names("jobs") == "");
}
