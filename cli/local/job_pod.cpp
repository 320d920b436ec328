#include "cli/local/job_pod.h"

#include <algorithm>
#include <charconv>

#include "cli/local/reconcile.h"

namespace mlk::local {

using nlohmann::json;

namespace {

int number_in(const json& annotations, const std::string& key, int otherwise) {
  const std::string text = annotations.value(key, "");
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<Time> end_of(const json& pod) {
  std::optional<Time> end;
  for (const json& status : pod.value("/status/containerStatuses"_json_pointer, json::array())) {
    const auto time = parse_time(status.value("/state/terminated/finishedAt"_json_pointer, ""));
    if (time) end = std::max(end.value_or(*time), *time);
  }
  if (end) return end;
  // deletionTimestamp is the end of the grace.
  const auto last_moment = parse_time(pod.value("/metadata/deletionTimestamp"_json_pointer, ""));
  if (!last_moment) return std::nullopt;
  return later(*last_moment, -pod.value("/metadata/deletionGracePeriodSeconds"_json_pointer, 0L));
}

}  // namespace

JobPod JobPod::of(const json& pod, bool only_failed) {
  const json& metadata = pod.at("metadata");
  const json annotations = metadata.value("annotations", json::object());
  const json finalizers = metadata.value("finalizers", json::array());
  const std::string phase = pod.value("/status/phase"_json_pointer, "Pending");
  JobPod result{};
  result.object = &pod;
  result.name = metadata.at("name").get<std::string>();
  result.uid = metadata.at("uid").get<std::string>();
  result.index = number_in(annotations, index_annotation, -1);
  result.tracked = std::find(finalizers.begin(), finalizers.end(), tracking_finalizer) != finalizers.end();
  result.deleted = metadata.contains("deletionTimestamp");
  result.succeeded = phase == "Succeeded";
  result.finished = result.succeeded || phase == "Failed";
  result.failed = phase == "Failed" || (!only_failed && result.deleted && !result.succeeded);
  result.failures = number_in(annotations, "batch.kubernetes.io/job-index-failure-count", 0);
  result.ignored = number_in(annotations, "batch.kubernetes.io/job-index-ignored-failure-count", 0);
  result.ended = end_of(pod);
  for (const json& condition : pod.value("/status/conditions"_json_pointer, json::array())) {
    if (condition.value("type", "") == "Ready") result.ready = condition.value("status", "") == "True";
  }
  return result;
}

}  // namespace mlk::local
