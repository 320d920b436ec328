// A sweep that a test starts on its own cluster.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/run/inputs/prepare.h"
#include "cli/util/error.h"
#include "sweeps/driver/drive.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/objects.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/start/start.h"
#include "tests/unit/fake_cluster.h"

namespace mlk::test {

// A tenth of the usual times, for drivers that a test cuts off.
inline constexpr sweeps::LeaseTimes short_lease{.duration = std::chrono::milliseconds(1500),
                                                .renew_deadline = std::chrono::milliseconds(1000),
                                                .renew_every = std::chrono::milliseconds(400),
                                                .ask_every = std::chrono::milliseconds(200),
                                                .longest_refusal = std::chrono::milliseconds(3000)};

struct Sweeper {
  explicit Sweeper(std::string experiment) : file{"x.yaml", "", std::move(experiment)} {}

  ExperimentFile file;
  Templates templates;
  FileContext file_context;
  FakeCluster cluster;
  std::atomic<bool> interrupted{false};
  bool retry_failed = false;
  std::size_t most_points_bytes = sweeps::most_points_bytes;

  // `trials`: the number of trials of search tpe.
  sweeps::Definition define(const std::vector<std::string>& words, const std::string& trials = "") const {
    PrepareOptions options;
    if (!trials.empty()) options.overrides.set.push_back("sweep.search={tpe: {trials: " + trials + "}}");
    return sweeps::define_sweep(file, options, words, templates);
  }
  sweeps::StartRequest request(const sweeps::Definition& sweep) const {
    return {.definition = sweep,
            .file_context = file_context,
            .templates = templates,
            .name_space = "default",
            .version = "0",
            .local = true,
            .retry_failed = retry_failed,
            .dry_run = false,
            .most_points_bytes = most_points_bytes};
  }
  SubmitHooks hooks() {
    return {.note = [](const std::string&) {},
            .check_interrupted =
                [this] {
                  if (interrupted) throw Error(ExitCode::interrupted, "interrupted");
                }};
  }
  sweeps::Started start(const std::vector<std::string>& words) {
    kube::Client client(cluster.config());
    const sweeps::Definition sweep = define(words);
    return sweeps::start_by_cluster(client, request(sweep), hooks());
  }

  std::vector<sweeps::Batch> batches(const std::string& sweep) {
    kube::Client client(cluster.config());
    return sweeps::batches_of(sweeps::fetch_sweep(client, "default", sweep, sweeps::WithPods::no));
  }
  // The points of all trials, by number. Fails if a trial exists twice or has no Job.
  std::map<int, sweeps::Point> trials(const std::string& sweep) {
    std::map<int, sweeps::Point> out;
    std::set<std::string> hashes;
    for (const sweeps::Batch& batch : batches(sweep)) {
      CHECK(batch.object.has_value() == batch.by_cluster);
      for (const sweeps::TrialLine& trial : batch.trials) {
        CHECK(out.emplace(trial.number, trial.point).second);
        CHECK(hashes.insert(trial.hash).second);
      }
    }
    return out;
  }
  // Drives the sweep, until it has ended or is stopped.
  sweeps::SweepStatus drive_to_end(const std::vector<std::string>& words, const std::string& trials = "",
                                   const std::function<void(const sweeps::SweepStatus&)>& changed = {}) {
    kube::Client client(cluster.config());
    const sweeps::Definition sweep = define(words, trials);
    const sweeps::StartRequest asked = request(sweep);
    sweeps::prepare_driven(client, asked, hooks());
    return sweeps::drive(client, asked,
                         {.submit = hooks(),
                          .changed =
                              [&](const sweeps::SweepStatus& status) {
                                if (changed) changed(status);
                              },
                          .waiting = [](const std::string&) {},
                          .judge_every = std::chrono::milliseconds(50),
                          .lease = short_lease});
  }
  // Drives the sweep until so many trials run, and leaves the sweep in this state. Returns the name of the
  // sweep.
  std::string drive_until_running(const std::vector<std::string>& words, int running) {
    const auto stop_driving = [&](const sweeps::SweepStatus& status) {
      if (status.counts.running == running) interrupted = true;
    };
    CHECK_THROWS_WITH_AS(drive_to_end(words, "", stop_driving), "interrupted", Error);
    interrupted = false;
    return define(words).identity.run;
  }

  // Writes the status of a Job as the Job controller does. Without `ended` the Job has not finished.
  void set_job_status(const std::string& job, const std::string& completed, const std::string& failed = "",
                      bool ended = true) {
    nlohmann::json status = nlohmann::json::object();
    if (ended) {
      status["conditions"] = {{{"type", failed.empty() ? "Complete" : "Failed"},
                               {"status", "True"},
                               {"reason", failed.empty() ? "CompletionsReached" : "FailedIndexes"},
                               {"lastTransitionTime", "2026-11-23T10:00:00Z"}}};
    }
    if (!failed.empty()) status["failedIndexes"] = failed;
    if (!completed.empty()) status["completedIndexes"] = completed;
    cluster.ask("PATCH", jobs_path + "/" + job + "/status", {{"status", status}},
                "application/merge-patch+json");
  }

  // Where a request is lost: before the server gets the request, or after the server has executed it.
  enum class Cut { before, after };
  // The first request to cut off, and the step to the next, for tests that cut off every second request in
  // each of the two ways. These are enough, since a request that is lost before it arrives has the same
  // effect as a lost answer to the request before: before 0, 2, 4 and after 0, 2, 4 the server has executed
  // 0, 2, 4 and 1, 3, 5 requests.
  static constexpr int first_to_cut = 0, to_next_to_cut = 2;
  // Cuts off a command at the `which`-th request that writes: this request is lost, and the command is
  // interrupted. The handler `otherwise` gets all other requests.
  void cut_off_at(int which, Cut cut, FakeCluster::Step otherwise = {}) {
    cluster.before(
        [this, which, cut, otherwise = std::move(otherwise), count = std::make_shared<std::atomic<int>>(0)](
            const local::Request& asked) -> std::optional<local::Answer> {
          const bool writes = asked.method != "GET" && asked.path.find("/selfsubject") == std::string::npos;
          if (!writes || (*count)++ != which) return otherwise ? otherwise(asked) : std::nullopt;
          if (cut == Cut::after)
            cluster.ask(asked.method, asked.path, nlohmann::json::parse(asked.body), asked.content_type);
          interrupted = true;
          return refusal(503, "ServiceUnavailable", "cut off");
        });
  }
  void let_all_through(FakeCluster::Step otherwise = {}) {
    cluster.before(std::move(otherwise));
    interrupted = false;
  }
};

}  // namespace mlk::test
