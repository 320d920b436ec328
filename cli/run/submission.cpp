#include "cli/run/submission.h"

#include <algorithm>
#include <thread>

#include "cli/kube/access.h"
#include "cli/kube/dropped_fields.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/find.h"
#include "cli/run/labels.h"
#include "cli/run/status.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using kube::ApiError;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using json = nlohmann::json;

constexpr std::chrono::seconds gone_timeout{120};  // for objects of a run that is being deleted
constexpr int post_tries = 6;
constexpr std::chrono::seconds post_timeout{60};  // no further try after it

const kube::Resource& resource_of(const json& object) {
  const std::string kind = object.at("kind");
  using namespace kube::resources;
  for (const kube::Resource* resource : {&config_maps, &secrets, &services, &jobs}) {
    if (resource->kind == kind) return *resource;
  }
  throw Error(ExitCode::usage, "a template makes a " + kind + ", which mlk cannot create yet",
              "use ConfigMap, Secret, Service or Job");
}

std::string title(const json& object) {
  std::string kind = object.at("kind");
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return kind + "/" + kube::name_of(object);
}

bool exists_already(const ApiError& error) {
  return error.status() == 409 && error.reason() == "AlreadyExists";
}

// No answer, or one that says nothing about the object (409 also comes from a quota that others change at the
// same time): whether it was stored is not known, and POST is safe to repeat.
bool unclear(const ApiError& error) {
  return error.status() == 0 || error.status() == 429 || error.status() >= 500 ||
         (error.status() == 409 && !exists_already(error));
}

bool is_deleting(const json& object) { return !at_path(object, {"metadata", "deletionTimestamp"}).is_null(); }

bool is_owned_by(const json& object, const std::string& uid) {
  for (const json& owner : at_path(object, {"metadata", "ownerReferences"})) {
    if (text_of(owner, {"uid"}) == uid) return true;
  }
  return false;
}

class Submission {
 public:
  Submission(kube::Client& client, const SubmitRequest& request, const SubmitHooks& hooks)
      : client_(client), request_(request), hooks_(hooks) {}

  Submitted run() {
    options_.name_space = request_.name_space;
    options_.version = request_.version;
    options_.secret = hex(random_bytes(32));
    Rendered rendered = render_now();
    for (const json& object : rendered.objects) resource_of(object);  // throws while nothing is created yet
    ask_what_is_allowed();
    if (request_.dry_run) return check_on_server(rendered);
    options_.attempt = choose_attempt(rendered);
    rendered = render_now();
    const json owner = create_owner(rendered);
    owner_uid_ = kube::uid_of(owner);
    options_.owner_uid = owner_uid_;
    rendered = render_now();
    Submitted result{rendered.run, SubmitOutcome::created};
    if (!created_owner_) {
      const std::optional<SubmitOutcome> present = already_there(rendered);
      if (present) return {rendered.run, *present};
      result.outcome = SubmitOutcome::completed;
    }
    try {
      for (const json& object : rendered.objects) create_owned(object);
    } catch (const Error& error) {
      // Anything unclear leaves what is there: repeating the command goes on from it.
      if (error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure) take_back(rendered);
      throw;
    }
    return result;
  }

 private:
  Rendered render_now() const {
    return render(request_.experiment, request_.files, request_.templates, options_);
  }

  void ask_what_is_allowed() {
    kube::require_version(kube::server_version(client_), 1, 31);
    std::vector<kube::AccessQuestion> questions;
    using namespace kube::resources;
    for (const kube::Resource* resource : {&config_maps, &secrets, &services, &jobs}) {
      questions.push_back({"create", *resource, ""});
    }
    for (const kube::Resource* resource : {&config_maps, &jobs, &pods})
      questions.push_back({"list", *resource, ""});
    const std::vector<bool> answers = kube::may_all(client_, request_.name_space, questions);
    std::vector<std::string> refused;
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (!answers[i]) refused.push_back(questions[i].verb + " " + questions[i].resource.plural);
    }
    if (!refused.empty()) {
      throw Error(
          ExitCode::cluster,
          "you may not " + join(refused, ", ") + " in namespace '" + request_.name_space + "'",
          "see what you may do with: mlk context; the ClusterRole 'edit' in that namespace is enough");
    }
  }

  Submitted check_on_server(const Rendered& rendered) {
    std::vector<json> objects{rendered.owner};
    objects.insert(objects.end(), rendered.objects.begin(), rendered.objects.end());
    for (const json& object : objects) {
      json answer;
      try {
        answer = client_.create(resource_of(object), request_.name_space, object, {.dry_run = true});
      } catch (const ApiError& error) {
        if (exists_already(error)) continue;  // it is there already; that it would be accepted was shown then
        throw refusal(object, error);
      }
      check_dropped(object, answer);
      hooks_.note(title(object) + " is accepted (server dry run)");
    }
    return {rendered.run, SubmitOutcome::created};
  }

  // The newest run of this very experiment; with --again the one after it, when it has ended or is stopped.
  int choose_attempt(const Rendered& first) {
    const kube::ListOptions same{
        .label_selector = std::string(labels::hash) + "=" + kube::label_of(first.owner, labels::hash),
        .field_selector = "",
        .metadata_only = true};
    int newest = 0;
    for (const json& owner : client_.list(kube::resources::config_maps, request_.name_space, same).items) {
      const std::string name = kube::name_of(owner);
      if (name == first.run) newest = std::max(newest, 1);
      if (name.starts_with(first.run + "-"))
        newest = std::max(newest, std::atoi(name.c_str() + first.run.size() + 1));
    }
    if (newest == 0) return 1;
    if (!request_.again) return newest;
    const std::string name = newest == 1 ? first.run : first.run + "-" + std::to_string(newest);
    const Phase phase = observe(fetch_run(client_, request_.name_space, name), now()).phase;
    return is_final(phase) || phase == Phase::stopped ? newest + 1 : newest;
  }

  json create_owner(const Rendered& rendered) {
    const auto deadline = steady_clock::now() + gone_timeout;
    bool waiting_said = false;
    // An answer may be lost, and the repeated request meets what the first one stored: it is ours all the
    // same.
    json wanted = rendered.owner;
    const std::string mark = hex(random_bytes(8));
    wanted["metadata"]["annotations"][labels::submit] = mark;
    while (true) {
      try {
        const json owner = post(wanted);
        created_owner_ = true;
        return owner;
      } catch (const ApiError& error) {
        if (!exists_already(error)) throw refusal(rendered.owner, error);
      }
      const std::optional<json> existing =
          client_.find(kube::resources::config_maps, request_.name_space, rendered.run);
      if (existing && !is_deleting(*existing)) {
        created_owner_ = kube::annotation_of(*existing, labels::submit) == mark;
        if (kube::label_of(*existing, labels::hash) == kube::label_of(rendered.owner, labels::hash))
          return *existing;
        throw Error(ExitCode::failure, "configmap/" + rendered.run + " exists and belongs to something else",
                    "change the experiment's name, or delete that object");
      }
      wait_for_gone(rendered.run, deadline, waiting_said);
    }
  }

  // A 409 means done only if the object belongs to our owner and nothing is being deleted; else it is of an
  // earlier run of the same name whose collection is under way.
  void create_owned(const json& object) {
    const auto deadline = steady_clock::now() + gone_timeout;
    bool waiting_said = false;
    while (true) {
      hooks_.check_interrupted();
      try {
        check_dropped(object, post(object));
        return;
      } catch (const ApiError& error) {
        if (!exists_already(error)) throw refusal(object, error);
      }
      const std::optional<json> existing =
          client_.find(resource_of(object), request_.name_space, kube::name_of(object));
      if (existing && is_owned_by(*existing, owner_uid_) && !is_deleting(*existing)) {
        check_dropped(object, *existing);
        return;
      }
      if (existing && !is_deleting(*existing) &&
          at_path(*existing, {"metadata", "ownerReferences"}).empty()) {
        throw Error(ExitCode::failure, title(object) + " exists and belongs to something else",
                    "delete it, or change the experiment's name");
      }
      wait_for_gone(title(object), deadline, waiting_said);
    }
  }

  // POST, repeated while it is unclear whether the server took it; throws the last error.
  json post(const json& object) {
    const auto deadline = steady_clock::now() + post_timeout;
    milliseconds pause{250};
    for (int attempt = 1;; ++attempt) {
      hooks_.check_interrupted();
      try {
        return client_.create(resource_of(object), request_.name_space, object);
      } catch (const ApiError& error) {
        if (!unclear(error) || attempt == post_tries || steady_clock::now() > deadline) throw;
        hooks_.note(title(object) + ": " + error.what() + "; trying again (" + std::to_string(attempt + 1) +
                    " of " + std::to_string(post_tries) + ")");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, milliseconds(4000));
    }
  }

  void check_dropped(const json& sent, const json& answered) {
    if (sent.at("kind") == "Secret") return;  // an earlier submit's key stays
    const std::vector<std::string> dropped = kube::dropped_fields(sent, answered);
    if (dropped.empty()) return;
    throw Error(ExitCode::cannot_start, "the cluster dropped " + dropped.front() + " of " + title(sent),
                "a feature is switched off there; take the field out with patch:, or ask for the feature");
  }

  Error refusal(const json& object, const ApiError& error) const {
    const bool unreachable = unclear(error) || error.status() == 401;
    if (unreachable) return Error(error.code(), error.what(), error.hint());
    if (error.status() == 404) {
      return Error(ExitCode::cluster, "there is no namespace '" + request_.name_space + "'",
                   "choose one with -n, or have it created");
    }
    return Error(ExitCode::cannot_start, title(object) + " was refused: " + error.what(), error.hint());
  }

  // nullopt: objects are missing, an earlier submit was cut off.
  std::optional<SubmitOutcome> already_there(const Rendered& rendered) {
    const RunObjects objects = fetch_run(client_, request_.name_space, rendered.run);
    const Phase phase = observe(objects, now()).phase;
    if (phase == Phase::stopped) return SubmitOutcome::stopped;
    if (is_final(phase)) return SubmitOutcome::ended;
    for (const json& object : rendered.objects) {
      const std::optional<json> existing =
          client_.find(resource_of(object), request_.name_space, kube::name_of(object));
      if (!existing || !is_owned_by(*existing, owner_uid_) || is_deleting(*existing)) return std::nullopt;
    }
    return SubmitOutcome::running;
  }

  void take_back(const Rendered& rendered) {
    if (!created_owner_) return;
    try {
      client_.remove(kube::resources::config_maps, request_.name_space, rendered.run,
                     {.uid = owner_uid_, .propagation = "Background", .grace_seconds = {}});
    } catch (const Error&) {
      hooks_.note("could not take back configmap/" + rendered.run + "; delete it with: mlk delete " +
                  rendered.run);
    }
  }

  void wait_for_gone(const std::string& what, steady_clock::time_point deadline, bool& said) {
    if (steady_clock::now() > deadline) {
      throw Error(ExitCode::timed_out, what + " of an earlier run is still being deleted",
                  "a finalizer may hold it; see metadata.finalizers in: kubectl get " + what + " -o yaml");
    }
    if (!said) hooks_.note("waiting for " + what + " of an earlier run to be deleted");
    said = true;
    hooks_.check_interrupted();
    std::this_thread::sleep_for(milliseconds(250));
  }

  static Time now() { return std::chrono::system_clock::now(); }

  kube::Client& client_;
  const SubmitRequest& request_;
  const SubmitHooks& hooks_;
  RenderOptions options_;
  std::string owner_uid_;
  bool created_owner_ = false;
};

}  // namespace

Submitted submit_run(kube::Client& client, const SubmitRequest& request, const SubmitHooks& hooks) {
  return Submission(client, request, hooks).run();
}

}  // namespace mlk
