// Deletes runs and sweeps with everything that belongs to them. The cluster's garbage collector does the
// work, so the deletion continues after the end of mlk.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/change/hooks.h"
#include "cli/run/facts/submitter.h"

namespace mlk::kube {
class Client;
struct Resource;
}  // namespace mlk::kube

namespace mlk {

// Deletes the object of this name and uid. Does nothing if the object is gone, or another object has its
// name. Throws ApiError.
void remove_if_there(kube::Client& client, const std::string& name_space, const kube::Resource& resource,
                     const std::string& name, const std::string& uid);

// The owner of the run or sweep that the user means. The name of an experiment is accepted only if the
// experiment has a single run or sweep, not counting trials, and runs of other users if one is mine. If the
// name meant the newest run, the same command typed twice would delete two runs. If the owner is gone but has
// left objects, the returned owner has no uid. Throws Error{usage} and ApiError.
std::optional<nlohmann::json> find_owner_to_delete(kube::Client& client, const std::string& name,
                                                   const Me& me = {});

// One run or sweep that is being deleted. The class identifies objects by uid, since a new run of the same
// name may exist before the old run is gone.
class Deletion {
 public:
  // `owner`: the result of find_owner_to_delete().
  Deletion(kube::Client& client, const nlohmann::json& owner);

  const std::string& run() const { return run_; }

  // Deletes the owner, and the pods that a deleted Job has left. If the owner is gone, deletes all objects
  // that have lost it. A missing object is not an error. `awaited`: whether the caller will call wait().
  enum class IsAwaited { yes, no };
  void begin(IsAwaited awaited);

  // Waits until all objects are gone. If the user may not list objects, reports this and does not wait.
  // Throws ApiError, Error{interrupted}, and Error{timed_out}, which names the objects that are left. The
  // cluster continues the deletion without mlk.
  void wait(std::chrono::steady_clock::time_point deadline, const ChangeHooks& hooks);

 private:
  std::vector<std::string> left();
  std::vector<std::string> jobs_left();
  std::vector<nlohmann::json> list(const kube::Resource& resource);
  void add_ours(const kube::Resource& resource, std::vector<std::string>& left);
  bool is_ours(const nlohmann::json& object) const;

  kube::Client& client_;
  const nlohmann::json owner_;
  const std::string run_, label_;
  std::set<std::string> owners_;  // uids: the run's ConfigMap, its Jobs, and ownerless objects
};

}  // namespace mlk
