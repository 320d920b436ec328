// Tests how the times of a pod and of its Job decide whether the end of the pod counts.
#include "cli/run/facts/job_times.h"

#include <doctest/doctest.h>

#include "cli/run/facts/facts.h"

TEST_SUITE_BEGIN("run/facts/job_times");

namespace mlk {
namespace {

using std::chrono::seconds;

const Time start = *parse_time("2026-01-03T11:30:00Z");

TEST_CASE("a pod belongs to an earlier start of its Job if it ended before the new start") {
  JobFacts job;
  job.started = start;
  PodFacts pod;
  pod.created = start - seconds(1);  // the Job controller makes the pods before it sets the start
  pod.phase = "Running";
  CHECK_FALSE(is_of_earlier_start(pod, job));
  pod.finished = start;
  CHECK_FALSE(is_of_earlier_start(pod, job));
  pod.phase = "Failed";
  CHECK_FALSE(is_of_earlier_start(pod, job));
  pod.finished = start - seconds(1);
  CHECK(is_of_earlier_start(pod, job));
  pod.finished.reset();
  CHECK(is_of_earlier_start(pod, job));  // nothing shows that it ended later
  pod.finished = start + seconds(20);
  pod.asked_to_end = start + seconds(1);
  CHECK_FALSE(is_of_earlier_start(pod, job));
  pod.asked_to_end = start;  // stopped and resumed within one second
  CHECK(is_of_earlier_start(pod, job));
  pod.created = start;
  CHECK_FALSE(is_of_earlier_start(pod, job));
  pod.created = start - seconds(1);
  job.started.reset();
  CHECK_FALSE(is_of_earlier_start(pod, job));
}

TEST_CASE("was_asked_before_failure() is true if the Job decided to fail after the pod was asked to end") {
  JobFacts job;
  job.end = JobFacts::End::failed;
  job.failure_decided_at = start;
  PodFacts pod;
  pod.deleting = true;
  pod.finished = start + seconds(2);
  pod.exit_code = 143;
  CHECK_FALSE(was_asked_before_failure(pod, job));
  pod.asked_to_end = start;
  CHECK_FALSE(was_asked_before_failure(pod, job));
  pod.asked_to_end = start - seconds(1);
  CHECK(was_asked_before_failure(pod, job));
  job.suspended = true;
  CHECK_FALSE(was_asked_before_failure(pod, job));
  job.suspended = false;
  job.deleting = true;
  CHECK_FALSE(was_asked_before_failure(pod, job));
  job.deleting = false;
  pod.finished = start - seconds(2);
  pod.exit_code = 3;
  CHECK_FALSE(was_asked_before_failure(pod, job));  // it had failed by itself
  pod.exit_code = 143;
  job.failure_decided_at.reset();
  CHECK_FALSE(was_asked_before_failure(pod, job));
  job.failing = true;  // expected: the Job does not report it yet
  CHECK(was_asked_before_failure(pod, job));
}

}  // namespace
}  // namespace mlk
