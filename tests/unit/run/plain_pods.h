// A pod and a Job of a run, as the API returns them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"

namespace mlk::told {

inline const Time midday = *parse_time("2026-01-03T12:00:00Z");

inline nlohmann::json plain_pod() {
  return {
      {"metadata",
       {{"name", "r-worker-2-abcde"},
        {"uid", "pod-uid"},
        {"creationTimestamp", "2026-01-03T11:00:00Z"},
        {"labels", {{"batch.kubernetes.io/job-name", "r-worker"}, {"mlk.dev/role", "worker"}}},
        {"annotations", {{"batch.kubernetes.io/job-completion-index", "2"}}}}},
      {"spec",
       {{"nodeName", "n1"},
        {"containers", {{{"name", "main"}, {"image", "image:1"}}, {{"name", "side"}, {"image", "side:1"}}}}}},
      {"status", {{"phase", "Running"}}}};
}

inline nlohmann::json plain_job(const std::string& role = "worker") {
  return {{"metadata", {{"name", "r-" + role}, {"uid", "job-uid"}, {"labels", {{"mlk.dev/role", role}}}}},
          {"spec", {{"completions", 4}, {"parallelism", 4}}}};
}

}  // namespace mlk::told
