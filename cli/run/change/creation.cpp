#include "cli/run/change/creation.h"

#include <algorithm>
#include <thread>

#include "cli/kube/dropped_fields.h"
#include "cli/kube/forbidden.h"
#include "cli/kube/objects.h"
#include "cli/run/change/answers.h"
#include "cli/run/change/shared_content.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/deciding_job.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/order.h"
#include "cli/run/read/mark.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using kube::ApiError;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using json = nlohmann::json;

constexpr std::chrono::seconds gone_timeout{120};  // the longest wait until a deleted object is gone
constexpr int post_tries = 6;
constexpr std::chrono::seconds post_timeout{60};  // after this time, a POST is not sent again

// The resource of a ConfigMap, Secret, Service or Job, which needs no discovery; nullptr for other objects.
const kube::Resource* usual_resource(const json& object) {
  using namespace kube::resources;
  for (const kube::Resource* resource : {&config_maps, &secrets, &services, &jobs}) {
    const bool fits = resource->kind == text_of(object, {"kind"}) &&
                      kube::api_version_of(*resource) == text_of(object, {"apiVersion"});
    if (fits) return resource;
  }
  return nullptr;
}

// The garbage collector would delete a cluster-scoped object whose ownerReference names an owner in a
// namespace. So an annotation of the object names the owner instead.
json fit_to_scope(json object, const std::string& owner_uid) {
  object["metadata"].erase("namespace");
  object["metadata"].erase("ownerReferences");
  if (!owner_uid.empty()) object["metadata"]["annotations"][annotations::owner] = owner_uid;
  return object;
}

std::string title(const json& object) {
  return lower_case(object.at("kind").get<std::string>()) + "/" + kube::name_of(object);
}

bool is_deleting(const json& object) { return !at_path(object, {"metadata", "deletionTimestamp"}).is_null(); }

bool is_shared(const json& object) { return !kube::label_of(object, labels::shared).empty(); }

std::size_t bytes_of(const json& config_map) {
  std::size_t bytes = 0;
  for (const json& encoded : at_path(config_map, {"binaryData"}))
    bytes += encoded.get_ref<const std::string&>().size() / 4 * 3;
  return bytes;
}

bool is_owned_by(const json& object, const std::string& uid) {
  for (const json& owner : at_path(object, {"metadata", "ownerReferences"})) {
    if (text_of(owner, {"uid"}) == uid) return true;
  }
  return kube::annotation_of(object, annotations::owner) == uid;
}

// A shared object without owners was made by hand and must outlive the run. It counts as belonging to the
// run, so that mlk adds no owner to it.
bool belongs_to(const json& object, const std::string& uid) {
  return is_owned_by(object, uid) ||
         (is_shared(object) && at_path(object, {"metadata", "ownerReferences"}).empty());
}

}  // namespace

kube::Resource Creation::resource_of(const json& object, const std::string& source) {
  if (const kube::Resource* usual = usual_resource(object)) return *usual;
  const std::optional<kube::Resource> served = client_.served(object.at("apiVersion"), object.at("kind"));
  if (served) return *served;
  const std::string kind = object.at("kind"), api_version = object.at("apiVersion");
  throw Error(ExitCode::cannot_start,
              source + " makes " + kind + " " + kube::name_of(object) + " of apiVersion " + api_version +
                  ", which the cluster does not serve",
              "have the definition of " + kind +
                  " installed in the cluster, or correct apiVersion and kind; the known kinds: kubectl "
                  "api-resources");
}

std::vector<kube::AccessQuestion> Creation::check_kinds(const std::vector<json>& objects,
                                                        const std::string& source) {
  std::vector<kube::AccessQuestion> questions;
  for (const json& object : objects) {
    const kube::Resource resource = resource_of(object, source);
    if (is_shared(object)) questions.push_back({"patch", resource, ""});
    questions.push_back({"create", resource, ""});
  }
  return questions;
}

void Creation::ask_what_is_allowed(const std::vector<kube::AccessQuestion>& more) {
  // mlk reads the version in parallel with the questions about rights.
  auto version = std::async(std::launch::async, [this] { return kube::server_version(client_); });
  std::vector<kube::AccessQuestion> questions;
  using namespace kube::resources;
  const auto add = [&questions](const kube::AccessQuestion& question) {
    const auto same = [&](const kube::AccessQuestion& other) {
      return other.verb == question.verb && other.resource.group == question.resource.group &&
             other.resource.plural == question.resource.plural && other.subresource == question.subresource;
    };
    if (std::none_of(questions.begin(), questions.end(), same)) questions.push_back(question);
  };
  add({"create", config_maps, ""});  // the owner
  for (const kube::AccessQuestion& question : more) {
    if (question.verb == "create") add(question);
  }
  for (const kube::Resource* resource : {&config_maps, &jobs, &pods}) add({"list", *resource, ""});
  for (const kube::AccessQuestion& question : more) add(question);
  const std::vector<bool> answers = kube::may_all(client_, name_space_, questions);
  kube::require_version(version.get(), 1, 31);
  std::vector<std::string> refused;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i]) refused.push_back(questions[i].verb + " " + questions[i].resource.plural);
  }
  if (!refused.empty()) {
    throw Error(ExitCode::cluster,
                "you may not " + join(refused, ", ") + " in namespace '" + name_space_ + "'",
                "see what you may do with: mlk context; the ClusterRole 'edit' in that namespace is enough");
  }
}

void Creation::check_on_server(const std::vector<json>& objects) {
  for (const json& object : objects) {
    json answer;
    try {
      const kube::Resource resource = resource_of(object);
      answer = client_.create(resource, name_space_, resource.namespaced ? object : fit_to_scope(object, ""),
                              {.dry_run = true});
    } catch (const ApiError& error) {
      if (is_there(object, error)) continue;  // the server accepted it when it was stored
      refuse(object, error);
    }
    check_dropped(object, answer);
    if (is_job(object)) check_pod_on_server(object);
    hooks_.note(title(object) + " is accepted (server dry run)");
  }
}

// The server accepts any Job and checks pods only when they are created, so mlk sends a pod for the check.
void Creation::check_pod_on_server(const json& job) {
  json pod = job.at("spec").at("template");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["name"] = kube::name_of(job) + "-0";
  pod["metadata"]["namespace"] = name_space_;
  try {
    (void)client_.create(kube::resources::pods, name_space_, pod, {.dry_run = true});
  } catch (const ApiError& error) {
    if (exists_already(error)) return;
    const kube::Forbidden why =
        error.status() == 403 ? kube::why_forbidden(error.what()) : kube::Forbidden::other;
    const bool not_the_pod = why == kube::Forbidden::rights || why == kube::Forbidden::quota;
    if (!not_the_pod) refuse(pod, error);
    hooks_.note(title(job) + ": " +
                (why == kube::Forbidden::quota
                     ? "its pods wait until the quota allows them: "
                     : "mlk could not check whether the cluster accepts its pods: ") +
                error.what());
  }
}

Creation::Stored Creation::create_owner(const json& owner) {
  Stored out = store_owner(owner);
  if (!hooks_.owner_is_there) return out;
  try {
    hooks_.owner_is_there();
  } catch (const Error& error) {
    explain_cut_off(error, kube::name_of(out.object));
    throw;
  }
  return out;
}

Creation::Stored Creation::store_owner(const json& owner) {
  const std::string name = kube::name_of(owner);
  const auto deadline = steady_clock::now() + gone_timeout;
  bool waiting_said = false;
  // If an answer was lost, the retry finds a stored object. The random mark shows whether this call has
  // stored it.
  json wanted = owner;
  const std::string mark = hex(random_bytes(8));
  wanted["metadata"]["annotations"][annotations::submit] = mark;
  if (const std::string submitter = hooks_.submitter ? hooks_.submitter() : ""; !submitter.empty())
    wanted["metadata"]["annotations"][annotations::submitter] = submitter;
  if (!hooks_.shell.empty()) wanted["metadata"]["annotations"][annotations::shell] = hooks_.shell;
  while (true) {
    wanted["metadata"]["annotations"][annotations::submitted] =
        submitted_at(std::chrono::system_clock::now());
    try {
      return {post(kube::resources::config_maps, wanted), true};
    } catch (const ApiError& error) {
      if (!is_there(owner, error)) refuse(owner, error);
    }
    const std::optional<json> existing = client_.find(kube::resources::config_maps, name_space_, name);
    if (existing && !is_deleting(*existing)) {
      if (kube::label_of(*existing, labels::hash) == kube::label_of(owner, labels::hash))
        return {*existing, kube::annotation_of(*existing, annotations::submit) == mark};
      throw Error(ExitCode::failure, "configmap/" + name + " exists and belongs to something else",
                  "change the experiment's name, or delete that object");
    }
    wait_for_gone(name, deadline, waiting_said);
  }
}

std::future<kube::Answer> Creation::create_all(const json& owner, const std::vector<json>& objects,
                                               const std::set<std::string>& jobs_with_pods_left) {
  const std::vector<std::string> made = jobs_made(owner);
  std::set<std::string> jobs_to_leave = jobs_with_pods_left;
  jobs_to_leave.insert(made.begin(), made.end());
  for (const json& object : objects) {
    const bool leave = is_job(object) && jobs_to_leave.count(kube::name_of(object)) > 0;
    if (!leave) create_owned(object, kube::uid_of(owner));
  }
  return mark_created(owner, objects);
}

std::future<kube::Answer> Creation::mark_created(const json& owner, const std::vector<json>& objects) {
  const std::string decider = name_of_deciding_job(objects);
  if (!decider.empty() && jobs_made(owner).empty())
    return mark_owner(client_, name_space_, owner, annotations::created, decider);
  std::promise<kube::Answer> nothing;
  nothing.set_value(kube::Answer{});
  return nothing.get_future();
}

Creation::Stored Creation::create_owned(const json& given, const std::string& owner_uid) {
  if (is_shared(given)) return create_shared(given, owner_uid);
  const kube::Resource resource = resource_of(given);
  const json fitted = resource.namespaced ? json() : fit_to_scope(given, owner_uid);
  const json& object = resource.namespaced ? given : fitted;
  const auto deadline = steady_clock::now() + gone_timeout;
  bool waiting_said = false;
  while (true) {
    hooks_.check_interrupted();
    try {
      Stored out{post(resource, object), true};
      if (!resource.namespaced) note_of_cluster(resource, out.object);
      check_dropped(object, out.object);
      return out;
    } catch (const ApiError& error) {
      if (!is_there(object, error)) refuse(object, error);
    }
    const std::optional<json> existing = client_.find(resource, name_space_, kube::name_of(object));
    if (existing && is_owned_by(*existing, owner_uid) && !is_deleting(*existing)) {
      check_dropped(object, *existing);
      return {*existing, false};
    }
    if (existing && !is_deleting(*existing) && at_path(*existing, {"metadata", "ownerReferences"}).empty()) {
      throw Error(ExitCode::failure, title(object) + " exists and belongs to something else",
                  "delete it, or change the experiment's name");
    }
    wait_for_gone(title(object), deadline, waiting_said);
  }
}

// The name is made from the content. The object may be large, so mlk first asks whether an object of this
// name exists.
Creation::Stored Creation::create_shared(const json& object, const std::string& owner_uid) {
  const kube::Resource resource = resource_of(object);
  const auto deadline = steady_clock::now() + gone_timeout;
  bool waiting_said = false, sent = false;
  while (true) {
    hooks_.check_interrupted();
    const std::optional<json> existing = find_existing(object);
    if (!existing) {
      try {
        sent = true;
        Stored out{post(resource, object), true};
        check_dropped(object, out.object);
        note_own_content(out.object);
        hooks_.note("sent " + title(object) + ", " + human_size(bytes_of(object)));
        return out;
      } catch (const ApiError& error) {
        if (!is_there(object, error)) refuse(object, error);
      }
    } else if (is_deleting(*existing)) {
      wait_for_gone(title(object), deadline, waiting_said);
    } else {
      if (kube::annotation_of(*existing, annotations::digest) !=
          kube::annotation_of(object, annotations::digest))
        throw Error(ExitCode::failure, title(object) + " exists and belongs to something else",
                    "look at it with: kubectl describe " + title(object));
      const bool is_good = check_shared(client_, resource, name_space_, *existing) == SharedContent::good;
      if (is_good && (belongs_to(*existing, owner_uid) || add_owner(*existing, object))) {
        if (!sent) hooks_.note(title(object) + " is there already: nothing of it was sent");
        return {*existing, false};
      }
    }
    // Another command creates, changes or deletes the object at the same time, so mlk tries again.
    if (steady_clock::now() > deadline)
      throw Error(ExitCode::timed_out, "others change " + title(object) + " all the time", "type it again");
    std::this_thread::sleep_for(milliseconds(50));
  }
}

void Creation::restore_shared(const std::vector<json>& objects, const std::string& owner_uid) {
  for (const json& object : objects) {
    if (!is_shared(object)) continue;
    const std::optional<json> existing = find_owned(object, owner_uid);
    if (!existing || !is_known_content(*existing)) create_shared(object, owner_uid);
  }
}

// Returns false if the existing object was changed or deleted meanwhile.
bool Creation::add_owner(const json& existing, const json& object) {
  json owners = at_path(existing, {"metadata", "ownerReferences"});
  if (!owners.is_array()) owners = json::array();
  for (const json& owner : at_path(object, {"metadata", "ownerReferences"})) owners.push_back(owner);
  const json patch = {{"metadata",
                       {{"uid", kube::uid_of(existing)},
                        {"resourceVersion", text_of(existing, {"metadata", "resourceVersion"})},
                        {"ownerReferences", owners}}}};
  try {
    client_.patch(resource_of(object), name_space_, kube::name_of(object), patch);
    return true;
  } catch (const ApiError& error) {
    if (error.status() == 409 || error.status() == 404) return false;
    refuse(object, error);
  }
}

// Reads the object; of a shared object, only the metadata.
std::optional<json> Creation::find_existing(const json& object) {
  const kube::Resource resource = resource_of(object);
  if (!is_shared(object)) return client_.find(resource, name_space_, kube::name_of(object));
  const kube::ListOptions this_one{.field_selector = "metadata.name=" + kube::name_of(object),
                                   .metadata_only = true};
  std::vector<json> found = client_.list(resource, name_space_, this_one).items;
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

void Creation::note_of_cluster(const kube::Resource& resource, const json& object) {
  of_cluster_.push_back(object);
  const std::string type = resource.plural + (resource.group.empty() ? "" : "." + resource.group);
  hooks_.note(title(object) +
              " is of the whole cluster and stays when the run is deleted; delete it with: kubectl delete " +
              type + " " + kube::name_of(object));
}

std::optional<json> Creation::find_owned(const json& object, const std::string& owner_uid) {
  std::optional<json> existing = find_existing(object);
  if (!existing || !belongs_to(*existing, owner_uid) || is_deleting(*existing)) return std::nullopt;
  return existing;
}

// Repeats a POST, at most post_tries times, while the error is unclear() or the server has_just_started().
// Throws the error of the last try.
json Creation::post(const kube::Resource& resource, const json& object) {
  const auto deadline = steady_clock::now() + post_timeout;
  milliseconds pause{250};
  for (int attempt = 1;; ++attempt) {
    hooks_.check_interrupted();
    try {
      return client_.create(resource, name_space_, object);
    } catch (const ApiError& error) {
      const bool passes = unclear(error) || has_just_started(error);
      if (!passes || attempt == post_tries || steady_clock::now() > deadline) throw;
      hooks_.note(title(object) + ": " + error.what() + "; trying again (" + std::to_string(attempt + 1) +
                  " of " + std::to_string(post_tries) + ")");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(4000));
  }
}

void Creation::check_dropped(const json& sent, const json& answered) {
  if (sent.at("kind") == "Secret") return;  // an existing Secret has the key of an earlier submit
  const std::vector<std::string> dropped = kube::dropped_fields(sent, answered);
  if (dropped.empty()) return;
  throw Error(ExitCode::cannot_start, "the cluster dropped " + dropped.front() + " of " + title(sent),
              "a feature is switched off there; take the field out with patch:, or ask for the feature");
}

// A quota may refuse an object that exists already: another command, or an earlier request whose answer was
// lost, has stored it. If mlk believed this refusal, it would delete a run that may already train.
bool Creation::is_there(const json& object, const ApiError& error) {
  if (exists_already(error)) return true;
  if (is_inconclusive(error) || error.status() == 404) return false;
  try {
    return find_existing(object).has_value();
  } catch (const ApiError& unread) {
    if (unread.status() != 403) throw;
    return false;  // a user who may make the object may lack the right to read it; the first error says more
  }
}

void Creation::refuse(const json& object, const ApiError& error) const {
  if (is_inconclusive(error)) throw error;
  if (error.status() == 404) {
    throw Error(ExitCode::cluster, "there is no namespace '" + name_space_ + "'",
                "choose one with -n, or have it created");
  }
  throw Error(ExitCode::cannot_start, title(object) + " was refused: " + error.what(), error.hint());
}

void Creation::undo(const std::string& owner, const std::string& uid) {
  for (const json& object : of_cluster_) undo(object);
  try {
    client_.remove(kube::resources::config_maps, name_space_, owner, uid);
  } catch (const Error&) {
    hooks_.note("could not take back configmap/" + owner + "; delete it with: mlk delete " + owner);
  }
}

void Creation::undo(const json& object) {
  try {
    client_.remove(resource_of(object), name_space_, kube::name_of(object), kube::uid_of(object));
  } catch (const Error& error) {
    hooks_.note("could not take back " + title(object) + ": " + error.what());
  }
}

void Creation::wait_for_gone(const std::string& what, steady_clock::time_point deadline, bool& said) {
  if (steady_clock::now() > deadline) {
    throw Error(ExitCode::timed_out, what + " of an earlier run is still being deleted",
                "a finalizer may hold it; see metadata.finalizers in: kubectl get " + what + " -o yaml");
  }
  if (!said) hooks_.note("waiting for " + what + " of an earlier run to be deleted");
  said = true;
  hooks_.check_interrupted();
  std::this_thread::sleep_for(milliseconds(250));
}

void explain_cut_off(const Error& error, const std::string& owner) {
  if (error.code() != ExitCode::interrupted) return;
  throw Error(ExitCode::interrupted, std::string(error.what()) + ": " + owner + " may lack objects",
              "the same command again completes it; delete it with: mlk delete " + owner);
}

}  // namespace mlk
