// Tests the states of ranks, the order in which ends of pods are blamed, and the cause of a failure.
#include "cli/run/state/ranks.h"

#include <functional>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("run/state/ranks");

namespace mlk {
namespace {

using std::chrono::seconds;

const Time moment = *parse_time("2026-01-03T12:00:00Z");

// A Job of three workers, and their pods.
struct OneJob {
  Facts facts;

  OneJob() {
    JobFacts job;
    job.name = "r-worker";
    job.role = "worker";
    job.completions = 3;
    job.attempts = 4;
    job.decides = true;
    facts.jobs = {job};
  }
  JobFacts& job() { return facts.jobs.front(); }
  PodFacts& add(int rank, const std::function<void(PodFacts&)>& change = {}) {
    PodFacts pod;
    pod.name = "p" + std::to_string(facts.pods.size());
    pod.job = "r-worker";
    pod.rank = rank;
    pod.phase = "Running";
    pod.scheduled = true;
    pod.created = moment;
    if (change) change(pod);
    facts.pods.push_back(pod);
    return facts.pods.back();
  }
  PodFacts& fail(int rank, int code, seconds after = seconds(0), const std::string& message = "") {
    return add(rank, [&](PodFacts& pod) {
      pod.phase = "Failed";
      pod.exit_code = code;
      pod.finished = moment + after;
      pod.end_message = message;
    });
  }
  // The exit codes of all ends, the likeliest cause first.
  std::vector<int> order(bool stopped = false) const {
    const std::vector<Rank> ranks = collect_ranks(facts);
    std::vector<int> codes;
    for (const PodEnd& end : collect_ends(ranks, stopped)) codes.push_back(end.failure.exit_code);
    return codes;
  }
  // The rank of the first cause. -1: there is no cause.
  int cause() const {
    const std::vector<Rank> ranks = collect_ranks(facts);
    const std::vector<PodEnd> ends = collect_ends(ranks, false);
    const PodEnd* found = first_cause(ends, facts.jobs.front());
    return found == nullptr ? -1 : found->pod->rank;
  }
};

using Codes = std::vector<int>;

TEST_CASE("the state of a rank follows from its newest pod and its Job") {
  const auto state = [](const std::function<void(PodFacts&)>& change,
                        const std::function<void(JobFacts&)>& in = {}) {
    OneJob run;
    run.add(0, change);
    if (in) in(run.job());
    return collect_ranks(run.facts).at(0).state;
  };
  const auto phase = [](const char* of) { return [of](PodFacts& pod) { pod.phase = of; }; };
  CHECK(state(phase("Running")) == RankState::running);
  CHECK(state(phase("Pending")) == RankState::starting);
  CHECK(state(phase("Failed")) == RankState::restarting);
  CHECK(state([](PodFacts& pod) {
          pod.phase = "Pending";
          pod.scheduled = false;
        }) == RankState::unscheduled);
  CHECK(state([](PodFacts& pod) {
          pod.phase = "Pending";
          pod.failures_before = 1;
        }) == RankState::restarting);
  CHECK(state([](PodFacts& pod) {
          pod.phase = "Failed";
          pod.final = true;
        }) == RankState::failed);
  CHECK(state([](PodFacts& pod) { pod.node_lost = true; }) == RankState::lost);
  CHECK(state([](PodFacts& pod) { pod.done = true; }) == RankState::succeeded);
  CHECK(state([](PodFacts& pod) { pod.exit_code = 3; }) == RankState::restarting);
  CHECK(state([](PodFacts& pod) {
          pod.exit_code = 3;
          pod.final = true;
        }) == RankState::failed);
  CHECK(state(phase("Failed"), [](JobFacts& job) { job.completed = {0}; }) == RankState::succeeded);
  CHECK(state(phase("Running"), [](JobFacts& job) { job.failed_ranks = {0}; }) == RankState::failed);
  CHECK(state(phase("Running"), [](JobFacts& job) { job.failed_ranks = {1}; }) == RankState::running);
  // The Job removes a pod when enough ranks have ended well.
  const auto deleted = [](PodFacts& pod) {
    pod.phase = "Failed";
    pod.deleting = true;
  };
  const auto ending = [](JobFacts& job) { job.ending = true; };
  CHECK(state(deleted, ending) == RankState::removed);
  CHECK(state(deleted, [](JobFacts& job) { job.end = JobFacts::End::succeeded; }) == RankState::removed);
  CHECK(state(deleted, [](JobFacts& job) { job.ending = job.failing = true; }) == RankState::restarting);
  CHECK(state(deleted, [](JobFacts& job) { job.end = JobFacts::End::failed; }) == RankState::restarting);
  CHECK(state(deleted) == RankState::restarting);
  CHECK(state(phase("Failed"), ending) == RankState::restarting);
  CHECK(state(
            [](PodFacts& pod) {
              pod.phase = "Failed";
              pod.deleting = true;
              pod.disruption = "EvictionByEvictionAPI";
            },
            ending) == RankState::restarting);
}

TEST_CASE("a rank has the pods of its Job, except ended pods of an earlier start of this Job") {
  OneJob run;
  run.job().started = moment;
  run.fail(1, 1, seconds(-1)).created = moment - seconds(2);
  run.fail(1, 2).created = moment;
  run.add(1);
  run.add(2).created = moment - seconds(1);  // a live pod
  run.add(0).job = "of another Job";
  run.add(7);  // the Job has no rank of this number
  std::vector<Rank> ranks = collect_ranks(run.facts);
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[0].pods.empty());
  CHECK(ranks[0].state == RankState::absent);
  CHECK(ranks[1].pods.size() == 2);
  CHECK(ranks[1].restarts == 1);
  CHECK(ranks[2].pods.size() == 1);
  CHECK(ranks[2].restarts == 0);
  run.facts.pods[2].failures_before = 5;
  ranks = collect_ranks(run.facts);
  CHECK(ranks[1].restarts == 5);
}

TEST_CASE("each state of a rank has its name") {
  PodFacts failed, waiting;
  failed.phase = "Failed";
  waiting.phase = "Pending";
  const auto name = [](RankState state, const PodFacts* pod = nullptr) {
    Rank rank;
    rank.state = state;
    if (pod != nullptr) rank.pods = {pod};
    return std::string(state_name(rank));
  };
  CHECK(name(RankState::succeeded) == "Succeeded");
  CHECK(name(RankState::failed) == "Failed");
  CHECK(name(RankState::running) == "Running");
  CHECK(name(RankState::absent) == "Missing");
  CHECK(name(RankState::lost) == "Missing");
  CHECK(name(RankState::removed) == "Missing");
  CHECK(name(RankState::unscheduled) == "Pending");
  CHECK(name(RankState::starting) == "Pending");
  CHECK(name(RankState::restarting, &failed) == "Failed");
  CHECK(name(RankState::restarting, &waiting) == "Pending");
}

TEST_CASE("if a failed rank blames a peer, its end is sorted as if it came two seconds later") {
  const auto order = [](seconds first, const std::string& says, seconds second) {
    OneJob run;
    run.fail(0, 1, first, says);
    run.fail(1, 2, second);
    return run.order();
  };
  CHECK(order(seconds(0), "", seconds(1)) == Codes{1, 2});
  CHECK(order(seconds(1), "", seconds(0)) == Codes{2, 1});
  CHECK(order(seconds(0), "broken pipe", seconds(1)) == Codes{2, 1});
  CHECK(order(seconds(0), "broken pipe", seconds(2)) == Codes{1, 2});
  CHECK(order(seconds(0), "broken pipe", seconds(3)) == Codes{1, 2});
  OneJob undated;
  undated.fail(0, 1).finished.reset();
  undated.fail(1, 2, seconds(60));
  CHECK(undated.order() == Codes{2, 1});
}

TEST_CASE("a disrupted pod is sorted by the time at which it was asked to end") {
  OneJob run;
  run.fail(0, 1, seconds(5));
  PodFacts& evicted = run.fail(1, 143, seconds(9));
  evicted.disruption = "EvictionByEvictionAPI";
  CHECK(run.order() == Codes{1, 143});
  run.facts.pods[1].asked_to_end = moment + seconds(4);
  CHECK(run.order() == Codes{143, 1});
  run.facts.pods[1].asked_to_end = moment + seconds(20);  // the pod ended before that time
  CHECK(run.order() == Codes{1, 143});
}

TEST_CASE("a pod has an end if it or its program failed, or if it is being deleted on a lost node") {
  const auto ends = [](const std::function<void(PodFacts&)>& change) {
    OneJob run;
    run.add(0, change);
    return run.order().size();
  };
  CHECK(ends([](PodFacts&) {}) == 0);
  CHECK(ends([](PodFacts& pod) { pod.phase = "Failed"; }) == 1);
  CHECK(ends([](PodFacts& pod) { pod.phase = "Succeeded"; }) == 0);
  CHECK(ends([](PodFacts& pod) { pod.exit_code = 3; }) == 1);
  CHECK(ends([](PodFacts& pod) { pod.exit_code = 0; }) == 0);
  CHECK(ends([](PodFacts& pod) { pod.node_lost = true; }) == 0);
  CHECK(ends([](PodFacts& pod) { pod.deleting = true; }) == 0);
  CHECK(ends([](PodFacts& pod) { pod.node_lost = pod.deleting = true; }) == 1);
}

TEST_CASE("a pod is not the cause of a failure if it was deleted by a stop, or by a Job that was ending") {
  const auto cascades = [](const std::function<void(PodFacts&)>& change,
                           const std::function<void(JobFacts&)>& in, bool stopped = false) {
    OneJob run;
    PodFacts& pod = run.fail(0, 137);
    pod.deleting = true;
    if (change) change(pod);
    if (in) in(run.job());
    const std::vector<Rank> ranks = collect_ranks(run.facts);
    return collect_ends(ranks, stopped).at(0).cascade;
  };
  const auto ending = [](JobFacts& job) { job.ending = true; };
  CHECK_FALSE(cascades({}, {}));
  CHECK(cascades({}, {}, true));
  CHECK(cascades({}, ending));
  CHECK(cascades({}, [](JobFacts& job) { job.end = JobFacts::End::failed; }));
  CHECK(cascades({}, [](JobFacts& job) { job.suspended = true; }));
  CHECK(cascades({}, [](JobFacts& job) { job.deleting = true; }));
  CHECK_FALSE(cascades([](PodFacts& pod) { pod.deleting = false; }, ending));
  CHECK_FALSE(cascades([](PodFacts& pod) { pod.disruption = "EvictionByEvictionAPI"; }, ending));
  CHECK_FALSE(cascades(
      [](PodFacts& pod) {
        pod.exit_code = 1;
        pod.asked_to_end = pod.finished;
      },
      ending));
}

TEST_CASE("the cause of a failed run is the first rank that used up its tries and blames no peer") {
  OneJob run;
  run.job().end = JobFacts::End::failed;
  run.job().end_reason = "FailedIndexes";
  CHECK(run.cause() == -1);
  run.fail(0, 1, seconds(1));
  run.fail(1, 75, seconds(2));  // this rank ended because it had lost a peer
  run.fail(2, 3, seconds(3));
  CHECK(run.cause() == 0);  // no rank is exhausted
  run.job().failed_ranks = {1, 2};
  CHECK(run.cause() == 2);
  run.job().failed_ranks = {1};
  CHECK(run.cause() == 0);
  run.job().failed_ranks = {2};
  run.facts.pods[2].disruption = "EvictionByEvictionAPI";
  CHECK(run.cause() == 2);  // only disruptions used up its tries
  run.facts.pods[2].disruption.clear();
  run.facts.pods[2].end_message = "socket closed";
  CHECK(run.cause() == 0);  // the cause is a peer that failed
  run.facts.pods[0].disruption = run.facts.pods[1].disruption = "EvictionByEvictionAPI";
  CHECK(run.cause() == 2);  // no peer failed by itself
  run.job().end_reason = "DeadlineExceeded";
  CHECK(run.cause() == -1);
}

}  // namespace
}  // namespace mlk
