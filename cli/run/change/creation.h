// Creates an owner and the objects that belong to it. The creation may be cut off and repeated at any point.
// No object is made twice. If the server refuses an object, the caller calls undo(), which deletes the
// objects that were made before.
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
  // The arguments must outlive this object.
  Creation(kube::Client& client, const std::string& name_space, const SubmitHooks& hooks)
      : client_(client), name_space_(name_space), hooks_(hooks) {}

  // Returns exactly the rights that the user needs to create these objects. Throws Error{cannot_start} for an
  // object of a kind that the cluster does not serve. The error names `source`, the template that makes the
  // objects.
  [[nodiscard]] std::vector<kube::AccessQuestion> check_kinds(const std::vector<nlohmann::json>& objects,
                                                              const std::string& source);

  // Throws Error{cluster} if the server is too old, or if the user may not create an owner, may not list the
  // objects of a run, or lacks one of the rights in `more`.
  void ask_what_is_allowed(const std::vector<kube::AccessQuestion>& more = {});

  // Lets the server check the objects, and a pod of each Job, without storing anything.
  void check_on_server(const std::vector<nlohmann::json>& objects);

  struct Stored {
    nlohmann::json object;  // as it is on the server
    bool created = false;   // by this call
  };
  // Creates a ConfigMap with the label mlk.dev/hash. If a ConfigMap of the same name and hash exists, returns
  // the existing ConfigMap. Throws Error, and what the hook owner_is_there throws.
  [[nodiscard]] Stored create_owner(const nlohmann::json& owner);

  // Creates the object. If it exists already and belongs to the owner with this uid, returns the existing
  // object. If it belongs to another owner or is being deleted, waits until it is gone. If it has no owner,
  // throws Error{failure}. If an answer was lost, `created` may be false although this call created the
  // object. A cluster-scoped object cannot have an owner in a namespace: it gets the annotation mlk.dev/owner
  // instead. An object with the label mlk.dev/shared is sent only if there is no object of its name.
  // Otherwise the owner is added to the owners of the existing object, if that object has any owner.
  Stored create_owned(const nlohmann::json& object, const std::string& owner_uid);

  // Creates the missing objects of a run. Then gives the owner the mark annotations::created, which says that
  // all objects were made. The request for the mark runs in parallel with later requests, so the caller has
  // to wait for the returned answer. If the mark is not set, a missing Job counts as not made yet. If the
  // owner has the mark already, a missing deciding Job was deleted and is not made again, since the run would
  // be trained twice. Jobs that have pods left (pods_left.h) are not made again either.
  [[nodiscard]] std::future<kube::Answer> create_all(const nlohmann::json& owner,
                                                     const std::vector<nlohmann::json>& objects,
                                                     const std::set<std::string>& jobs_with_pods_left = {});
  // Only sets the mark annotations::created, for a run whose objects all exist.
  [[nodiscard]] std::future<kube::Answer> mark_created(const nlohmann::json& owner,
                                                       const std::vector<nlohmann::json>& objects);

  // Call it after create_all(): creates missing shared objects again. The garbage collector may have deleted
  // a shared object because it had not seen yet that create_all() added an owner to the object.
  void restore_shared(const std::vector<nlohmann::json>& objects, const std::string& owner_uid);

  // Returns the object if it exists, belongs to this owner (or is a shared object without owners) and is not
  // being deleted.
  [[nodiscard]] std::optional<nlohmann::json> find_owned(const nlohmann::json& object,
                                                         const std::string& owner_uid);

  // Deletes the created cluster-scoped objects and the owner. The cluster then deletes all objects that
  // belong to the owner.
  void undo(const std::string& owner, const std::string& uid);
  // Deletes an object that create_owned() has created. If the object cannot be deleted, reports the object to
  // the user.
  void undo(const nlohmann::json& object);

 private:
  Stored store_owner(const nlohmann::json& owner);
  void check_pod_on_server(const nlohmann::json& job);
  kube::Resource resource_of(const nlohmann::json& object, const std::string& source = "a template");
  nlohmann::json post(const kube::Resource& resource, const nlohmann::json& object);
  Stored create_shared(const nlohmann::json& object, const std::string& owner_uid);
  bool add_owner(const nlohmann::json& existing, const nlohmann::json& object);
  std::optional<nlohmann::json> find_existing(const nlohmann::json& object);
  void note_of_cluster(const kube::Resource& resource, const nlohmann::json& object);
  void check_dropped(const nlohmann::json& sent, const nlohmann::json& answered);
  // Whether the object exists, although the server has answered its creation with this error.
  bool is_there(const nlohmann::json& object, const kube::ApiError& error);
  // Throws Error{cannot_start} if the object is refused for good. Otherwise throws an error after which the
  // created objects stay.
  [[noreturn]] void refuse(const nlohmann::json& object, const kube::ApiError& error) const;
  void wait_for_gone(const std::string& what, std::chrono::steady_clock::time_point deadline, bool& said);

  kube::Client& client_;
  const std::string& name_space_;
  const SubmitHooks& hooks_;
  std::vector<nlohmann::json> of_cluster_;  // the created cluster-scoped objects, which outlive the owner
};

// If Ctrl-C ended the creation of a run or sweep, throws the error again with a hint at the objects that may
// be missing. Does nothing after other errors.
void explain_cut_off(const Error& error, const std::string& owner);

}  // namespace mlk
