// Creates an owner and the objects that belong to it. May be cut off and repeated at any point: never makes
// two of one object, and leaves nothing behind if an object is refused.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/access.h"
#include "cli/kube/client.h"
#include "cli/run/change/hooks.h"
#include "cli/util/error.h"

namespace mlk {

class Creation {
 public:
  // References must outlive it.
  Creation(kube::Client& client, const std::string& name_space, const SubmitHooks& hooks)
      : client_(client), name_space_(name_space), hooks_(hooks) {}

  // What the user has to be allowed to create these objects, and no more. Throws Error{cannot_start} for
  // one of a kind that the cluster does not serve, naming `source`, the template that makes them.
  [[nodiscard]] std::vector<kube::AccessQuestion> check_kinds(const std::vector<nlohmann::json>& objects,
                                                              const std::string& source);

  // Throws Error{cluster} if the server is too old, or the user may not create an owner, list the objects
  // of a run, or do `more`.
  void ask_what_is_allowed(const std::vector<kube::AccessQuestion>& more = {});

  // Lets the server check the objects, and of each Job a pod, without storing them.
  void check_on_server(const std::vector<nlohmann::json>& objects);

  struct Stored {
    nlohmann::json object;  // as it is on the server
    bool created = false;   // by this call
  };
  // Creates a ConfigMap with the label mlk.dev/hash. An existing one of the same name and hash counts as
  // created. Throws Error, and what the hook owner_is_there throws.
  [[nodiscard]] Stored create_owner(const nlohmann::json& owner);

  // Creates the object. An existing one counts as created if it belongs to the owner with this uid. If
  // another one of the name is being deleted, waits for that. If an answer was lost, `created` may be false
  // although this call created it. An object of the whole cluster cannot have an owner in a namespace: it
  // gets the annotation mlk.dev/owner instead. An object with the label mlk.dev/shared is sent only if there
  // is none of its name; otherwise the owner becomes one more of its owners, if it has any.
  Stored create_owned(const nlohmann::json& object, const std::string& owner_uid);

  // Creates what is missing of a run. Then its owner says that all was made (annotations::created): the
  // answer to that request, which may go on beside others, is to be waited for; if it is lost, the old rule
  // holds for the run. If the owner says so already, a deciding Job that is missing was deleted, and is not
  // made again: the run would be trained twice. Nor are Jobs of which pods are left (pods_left.h).
  [[nodiscard]] std::future<kube::Answer> create_all(const nlohmann::json& owner,
                                                     const std::vector<nlohmann::json>& objects,
                                                     const std::set<std::string>& jobs_with_pods_left = {});
  // Only the last part: all objects are there.
  [[nodiscard]] std::future<kube::Answer> mark_created(const nlohmann::json& owner,
                                                       const std::vector<nlohmann::json>& objects);

  // Once more after all others: a garbage collector that had seen a shared object without its new owner may
  // have deleted it meanwhile.
  void keep_shared(const std::vector<nlohmann::json>& objects, const std::string& owner_uid);

  // The object, if it exists, belongs to that owner and is not being deleted.
  [[nodiscard]] std::optional<nlohmann::json> find_owned(const nlohmann::json& object,
                                                         const std::string& owner_uid);

  // Deletes the owner, and so everything that belongs to it, and the objects of the whole cluster that were
  // created.
  void take_back(const std::string& owner, const std::string& uid);
  // Deletes an object that create_owned() has created. Reports an object that cannot be deleted.
  void take_back(const nlohmann::json& object);

 private:
  Stored store_owner(const nlohmann::json& owner);
  void check_pod_on_server(const nlohmann::json& job);
  kube::Resource resource_of(const nlohmann::json& object);
  nlohmann::json post(const kube::Resource& resource, const nlohmann::json& object);
  Stored create_shared(const nlohmann::json& object, const std::string& owner_uid);
  bool add_owner(const nlohmann::json& existing, const nlohmann::json& object);
  std::optional<nlohmann::json> find_existing(const nlohmann::json& object);
  void note_of_cluster(const kube::Resource& resource, const nlohmann::json& object);
  void check_dropped(const nlohmann::json& sent, const nlohmann::json& answered);
  // Whether the object is there, although the server has answered with this error to its creation.
  bool is_there(const nlohmann::json& object, const kube::ApiError& error);
  // Throws Error{cannot_start} if the object is refused for good, and otherwise an error after which all that
  // was created stays.
  [[noreturn]] void refuse(const nlohmann::json& object, const kube::ApiError& error) const;
  void wait_for_gone(const std::string& what, std::chrono::steady_clock::time_point deadline, bool& said);

  kube::Client& client_;
  const std::string& name_space_;
  const SubmitHooks& hooks_;
  std::vector<nlohmann::json> of_cluster_;  // created, and not deleted with the owner
};

// For an error that ended the creation of a run or sweep: if it was Ctrl-C, throws it with a hint at what is
// left.
void explain_cut_off(const Error& error, const std::string& owner);

}  // namespace mlk
