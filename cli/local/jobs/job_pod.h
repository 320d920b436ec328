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
  bool tracked;   // has the finalizer: its Job has not counted it yet
  bool deleted;   // has a deletion time
  bool finished;  // its phase is final
  bool succeeded;
  bool failed;  // as the Job counts it: with replacement at once, a pod that is being deleted has failed
                // already
  bool ready;
  int failures;  // earlier failures of its index
  int ignored;
  std::optional<Time> ended;
  FailureRule rule;  // set for failed pods

  bool active() const { return !finished && !deleted; }
  bool terminating() const { return !finished && deleted; }
  int all_failures() const { return failures + ignored; }
  int failures_after() const { return failures + (rule.action == FailureAction::ignore ? 0 : 1); }
  int ignored_after() const { return ignored + (rule.action == FailureAction::ignore ? 1 : 0); }

  // `only_failed`: podReplacementPolicy Failed.
  static JobPod of(const nlohmann::json& pod, bool only_failed);
};

}  // namespace mlk::local
