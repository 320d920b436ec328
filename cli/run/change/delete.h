// Deletes runs with everything that belongs to them. The cluster's garbage collector does the work, so it
// continues without mlk.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/change/hooks.h"

namespace mlk::kube {
class Client;
struct Resource;
}  // namespace mlk::kube

namespace mlk {

// The owner of the run or sweep that the user means. A bare name is accepted only if it has one run:
// otherwise deleting "the newest" twice would delete two. An owner that is not there any more, but has left
// objects, is one without a uid. Throws Error{usage} and ApiError.
std::optional<nlohmann::json> find_owner_to_delete(kube::Client& client, const std::string& name);

// One run or sweep that is being deleted. It knows the objects by uid: a new run of the same name may exist
// before the old one is gone.
class Deletion {
 public:
  // `owner` as find_owner_to_delete() gives it.
  Deletion(kube::Client& client, const nlohmann::json& owner);

  const std::string& run() const { return run_; }

  // Deletes the owner, and what has lost it. What is not there is no error.
  enum class IsAwaited { yes, no };
  void begin(IsAwaited awaited);

  // Waits until all is gone. Who may not list objects is told so, and does not wait. Throws Error: timed_out
  // with what is left, and interrupted; the cluster goes on by itself.
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
  std::set<std::string> owners_;  // uids: the run's ConfigMap, its Jobs, and what has lost its owner
};

}  // namespace mlk
