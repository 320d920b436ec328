// Facts about pods, and the causes that the diagnosis finds for the pods, for the tests of the diagnosis.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include <doctest/doctest.h>

#include "cli/run/state/diagnosis.h"

namespace mlk::told {

using namespace std::chrono_literals;

inline const Time noon = *parse_time("2026-01-03T12:00:00Z");

inline PodFacts pod_with(const std::function<void(PodFacts&)>& change) {
  PodFacts pod;
  pod.name = "r-worker-3-abcde";
  pod.uid = "pod-uid";
  pod.role = "worker";
  pod.node = "n1";
  pod.rank = 3;
  pod.phase = "Pending";
  pod.scheduled = true;
  pod.image = "image:1";
  change(pod);
  return pod;
}

inline PodFacts failed_with(const std::function<void(PodFacts&)>& change) {
  return pod_with([&](PodFacts& pod) {
    pod.phase = "Failed";
    pod.exit_code = 1;
    pod.finished = noon;
    change(pod);
  });
}

inline JobFacts job_of_workers() {
  JobFacts job;
  job.name = "r-worker";
  job.uid = "job-uid";
  job.role = "worker";
  job.attempts = 4;
  return job;
}

inline std::string reason_of(const std::function<void(PodFacts&)>& change) {
  return describe_end(failed_with(change), job_of_workers(), true).reason;
}

struct Waiting {
  int weight;
  std::string text;
  bool cannot_start = false;

  bool operator==(const Waiting&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Waiting& waiting) {
  return out << waiting.weight << " " << waiting.text << (waiting.cannot_start ? " (for good)" : "");
}

inline Waiting why(const std::function<void(PodFacts&)>& change, const Facts& facts = {}) {
  const Cause cause = why_pod_waits(pod_with(change), job_of_workers(), facts);
  CHECK(cause.role == "worker");
  CHECK(cause.ranks == std::vector<int>{3});
  return {cause.weight, cause.text, cause.cannot_start};
}

inline Facts warning(const std::string& uid, const std::string& reason, const std::string& message) {
  Facts facts;
  facts.warnings[uid] = {reason, message, noon};
  return facts;
}

inline Waiting why_none(const std::string& message, const std::string& reason = "FailedCreate") {
  const Cause cause = why_no_pod(job_of_workers(), warning("job-uid", reason, message));
  CHECK(cause.role == (cause.weight > 0 ? "worker" : ""));
  CHECK(cause.ranks.empty());
  return {cause.weight, cause.text, cause.cannot_start};
}

}  // namespace mlk::told
