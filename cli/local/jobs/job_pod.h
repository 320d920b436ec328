// One pod as the Job controller sees it. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/local/jobs/job_policy.h"
#include "cli/util/time.h"

namespace mlk::local {

inline constexpr char tracking_finalizer[] = "batch.kubernetes.io/job-tracking";
inline constexpr char index_annotation[] = "batch.kubernetes.io/job-completion-index";

struct JobPod {
  const nlohmann::json* object;
  std::string name, uid;
  int index;      // -1: the pod has no index
  bool tracked;   // the pod has tracking_finalizer: the Job has not counted the pod yet
  bool deleted;   // the pod has a deletionTimestamp
  bool finished;  // the phase is final
  bool succeeded;
  bool failed;  // as the Job counts: with podReplacementPolicy TerminatingOrFailed, a pod that is being
                // deleted has failed already
  bool ready;
  int failures;  // earlier failures of the index, without the ignored ones
  int ignored;   // earlier failures of the index, ignored by a rule
  std::optional<Time> ended;
  FailureRule rule;  // set for failed pods

  bool active() const { return !finished && !deleted; }
  bool terminating() const { return !finished && deleted; }
  int all_failures() const { return failures + ignored; }
  int failures_after() const { return failures + (rule.action == FailureAction::ignore ? 0 : 1); }
  int ignored_after() const { return ignored + (rule.action == FailureAction::ignore ? 1 : 0); }

  // `only_failed`: the podReplacementPolicy of the Job is Failed.
  static JobPod of(const nlohmann::json& pod, bool only_failed);
};

}  // namespace mlk::local
