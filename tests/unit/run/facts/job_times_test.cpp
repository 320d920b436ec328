// Tests whether the end of a pod counts, from the times of the pod and of its Job.
#include "cli/run/facts/job_times.h"

#include <doctest/doctest.h>

#include "cli/run/facts/facts.h"

TEST_SUITE_BEGIN("run/facts/job_times");

namespace mlk {
namespace {

using std::chrono::seconds;

const Time start = *parse_time("2026-01-03T11:30:00Z");

TEST_CASE("a pod is of an earlier start of its Job if it had ended, or was asked to end, before this start") {
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

}  // namespace
}  // namespace mlk
