#include "cli/local/jobs/job_pod.h"

#include <algorithm>
#include <charconv>

#include "cli/local/state/metadata.h"
#include "cli/util/json_path.h"

namespace mlk::local {

using nlohmann::json;

namespace {

int number_in(const json& annotations, const char* key, int otherwise) {
  const std::string& text = text_of(annotations, {key});
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<Time> end_of(const json& pod) {
  std::optional<Time> end;
  for (const json& status : at_path(pod, {"status", "containerStatuses"})) {
    const auto time = parse_time(text_of(status, {"state", "terminated", "finishedAt"}));
    if (time) end = std::max(end.value_or(*time), *time);
  }
  if (end) return end;
  // deletionTimestamp is the end of the grace period, so the deletion began one grace period earlier.
  const json& metadata = pod.at("metadata");
  const auto last_moment = parse_time(text_of(metadata, {"deletionTimestamp"}));
  if (!last_moment) return std::nullopt;
  return later(*last_moment, -metadata.value("deletionGracePeriodSeconds", 0L));
}

}  // namespace

// Copies no JSON, since after every change the controller reads each of thousands of pods.
JobPod JobPod::of(const json& pod, bool only_failed) {
  const json& metadata = pod.at("metadata");
  const json& annotations = at_path(metadata, {"annotations"});
  const json& status = at_path(pod, {"status"});
  const std::string& phase = text_of(status, {"phase"});
  JobPod result{};
  result.object = &pod;
  result.name = metadata.at("name").get<std::string>();
  result.uid = metadata.at("uid").get<std::string>();
  result.index = number_in(annotations, index_annotation, -1);
  result.tracked = has_finalizer(pod, tracking_finalizer);
  result.deleted = metadata.contains("deletionTimestamp");
  result.succeeded = phase == "Succeeded";
  result.finished = result.succeeded || phase == "Failed";
  result.failed = phase == "Failed" || (!only_failed && result.deleted && !result.succeeded);
  result.failures = number_in(annotations, "batch.kubernetes.io/job-index-failure-count", 0);
  result.ignored = number_in(annotations, "batch.kubernetes.io/job-index-ignored-failure-count", 0);
  result.ended = end_of(pod);
  for (const json& condition : at_path(status, {"conditions"})) {
    if (text_of(condition, {"type"}) == "Ready") result.ready = text_of(condition, {"status"}) == "True";
  }
  return result;
}

}  // namespace mlk::local
