// Creating an owner and the objects that belong to it so that it may be cut off and repeated at any point:
// never two of one, nothing left behind by a refusal.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/access.h"
#include "cli/kube/client.h"
#include "cli/util/error.h"

namespace mlk {

// Called by one thread at a time: who creates several things side by side sees to that.
struct SubmitHooks {
  std::function<void(const std::string&)> note;  // progress, for people
  std::function<void()> check_interrupted;       // throws when the user wants out
};

class Creation {
 public:
  // References must outlive it.
  Creation(kube::Client& client, const std::string& name_space, const SubmitHooks& hooks)
      : client_(client), name_space_(name_space), hooks_(hooks) {}

  // What the user has to be allowed beside the usual to create these objects. Throws Error{cannot_start} for
  // one of a kind that the cluster does not serve, naming `source`, the template that makes them.
  [[nodiscard]] std::vector<kube::AccessQuestion> check_kinds(const std::vector<nlohmann::json>& objects,
                                                              const std::string& source);

  // Throws Error{cluster} when the server is too old, or the user may not create and list what runs are made
  // of, or do `more`.
  void ask_what_is_allowed(const std::vector<kube::AccessQuestion>& more = {});

  // Lets the server check the objects and store nothing.
  void check_on_server(const std::vector<nlohmann::json>& objects);

  struct Stored {
    nlohmann::json object;  // as it is on the server
    bool created = false;   // by this call
  };
  // A ConfigMap with the label mlk.dev/hash: one of the same name and hash that is there already is taken for
  // it. Throws Error.
  [[nodiscard]] Stored create_owner(const nlohmann::json& owner);

  // One that is there already is taken for it if it belongs to the owner with this uid; while another of the
  // name is being deleted it is waited for. When an answer was lost it may be told as not created. An object
  // of the whole cluster cannot have an owner in a namespace: it gets the annotation mlk.dev/owner instead.
  Stored create_owned(const nlohmann::json& object, const std::string& owner_uid);

  // The object, if it is there, belongs to that owner and stays.
  [[nodiscard]] std::optional<nlohmann::json> find_owned(const nlohmann::json& object,
                                                         const std::string& owner_uid);

  // Deletes the owner, and so all that belongs to it, and the objects of the whole cluster that were created.
  void take_back(const std::string& owner, const std::string& uid);
  // Deletes an object that create_owned() has created. What cannot be deleted is told.
  void take_back(const nlohmann::json& object);

 private:
  kube::Resource resource_of(const nlohmann::json& object);
  nlohmann::json post(const kube::Resource& resource, const nlohmann::json& object);
  void note_of_cluster(const kube::Resource& resource, const nlohmann::json& object);
  void check_dropped(const nlohmann::json& sent, const nlohmann::json& answered);
  Error refusal(const nlohmann::json& object, const kube::ApiError& error) const;
  void wait_for_gone(const std::string& what, std::chrono::steady_clock::time_point deadline, bool& said);

  kube::Client& client_;
  const std::string& name_space_;
  const SubmitHooks& hooks_;
  std::vector<nlohmann::json> of_cluster_;  // created, and not deleted with the owner
};

}  // namespace mlk
