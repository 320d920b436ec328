#include "cli/local/jobs/new_pod.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/local/jobs/job_pod.h"

namespace mlk::local {

using nlohmann::json;

json pod_of(const json& job, const NewPod& pod, const std::string& suffix) {
  const json& spec = job.at("spec");
  const json& job_metadata = job.at("metadata");
  const std::string host = job_metadata.at("name").get<std::string>() + "-" + std::to_string(pod.index);
  const std::string index = std::to_string(pod.index);
  json metadata = spec.at("template").value("metadata", json::object());
  metadata["generateName"] = host + "-";
  metadata["name"] = host + "-" + suffix;
  metadata["labels"][index_annotation] = index;
  metadata["annotations"][index_annotation] = index;
  if (spec.contains("backoffLimitPerIndex")) {
    metadata["annotations"]["batch.kubernetes.io/job-index-failure-count"] = std::to_string(pod.failures);
    if (pod.ignored > 0)
      metadata["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] =
          std::to_string(pod.ignored);
  }
  metadata["finalizers"] = json::array({tracking_finalizer});
  metadata["ownerReferences"] = json::array({{{"apiVersion", "batch/v1"},
                                              {"kind", "Job"},
                                              {"name", job_metadata.at("name")},
                                              {"uid", job_metadata.at("uid")},
                                              {"controller", true},
                                              {"blockOwnerDeletion", true}}});
  json pod_spec = spec.at("template").at("spec");
  pod_spec["hostname"] = host;
  for (json& container : pod_spec["containers"]) {
    json& env = container["env"];
    if (env.is_null()) env = json::array();
    if (std::any_of(env.begin(), env.end(),
                    [](const json& e) { return e.value("name", "") == "JOB_COMPLETION_INDEX"; }))
      continue;
    env.push_back({{"name", "JOB_COMPLETION_INDEX"},
                   {"valueFrom",
                    {{"fieldRef",
                      {{"apiVersion", "v1"},
                       {"fieldPath", std::string("metadata.labels['") + index_annotation + "']"}}}}}});
  }
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", pod_spec}};
}

}  // namespace mlk::local
