// The half of the API that changes objects.
#include <algorithm>

#include "cli/local/api/admit.h"
#include "cli/local/api/api.h"
#include "cli/local/api/schema.h"
#include "cli/local/api/selector.h"
#include "cli/local/state/metadata.h"
#include "cli/local/state/patch.h"
#include "cli/local/state/seed.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

// A client requests a dry run in the query, or in the options of a DELETE.
bool is_dry_run(const Request& request, const json& options = json::object()) {
  std::string value = request.parameter("dryRun");
  for (const json& given : at_path(options, {"dryRun"}))
    value = given.is_string() ? given.get<std::string>() : "?";
  if (value.empty()) return false;
  if (value != "All")
    throw invalid("Options", "", "dryRun", "Unsupported value: \"" + value + "\": supported values: \"All\"");
  return true;
}

json read_object(const Request& request) {
  if (!request.content_type.empty() && !request.content_type.starts_with("application/json")) {
    // kubectl sends protobuf for objects that it makes itself (`create configmap`), and JSON for objects that
    // it reads. So the message suggests `kubectl apply`.
    throw StatusError(
        415, "UnsupportedMediaType",
        "the local cluster takes JSON only; with kubectl: kubectl create ... --dry-run=client -o yaml | "
        "kubectl apply -f -");
  }
  json object = parse_body(request.body);
  if (!object.is_object()) throw bad_request("the body is not an object");
  return object;
}

void check_type(const Kind& kind, const json& object) {
  const std::string api_version = object.value("apiVersion", kind.api_version());
  const std::string name = object.value("kind", kind.kind);
  if (api_version != kind.api_version() || name != kind.kind) {
    throw bad_request("the API version in the data (" + api_version + ", " + name +
                      ") does not match the expected API version (" + kind.api_version() + ", " + kind.kind +
                      ")");
  }
}

json delete_options(const Request& request) {
  json options = request.body.empty() ? json::object() : parse_body(request.body);
  const std::string asked = request.parameter("propagationPolicy");
  if (!asked.empty()) options["propagationPolicy"] = asked;
  const std::string grace = request.parameter("gracePeriodSeconds");
  if (grace.size() > 9 || grace.find_first_not_of("0123456789") != grace.npos)
    throw bad_request("invalid gracePeriodSeconds");
  if (!grace.empty()) options["gracePeriodSeconds"] = std::stoi(grace);
  const std::string policy = options.value("propagationPolicy", "Background");
  if (policy != "Background" && policy != "Foreground" && policy != "Orphan") {
    throw invalid("DeleteOptions", "", "propagationPolicy", "Unsupported value: \"" + policy + "\"");
  }
  return options;
}

void check_preconditions(const Kind& kind, const json& object, const json& options) {
  const json wanted = options.value("preconditions", json::object());
  const json& metadata = object.at("metadata");
  for (const char* field : {"uid", "resourceVersion"}) {
    const std::string value = wanted.value(field, "");
    if (value.empty() || value == metadata.at(field).get<std::string>()) continue;
    throw conflict(kind.plural, name_of(object),
                   std::string("Precondition failed: ") + field + " in precondition: " + value +
                       ", in object meta: " + metadata.at(field).get<std::string>());
  }
}

// This finalizer keeps an object until its dependents have lost their references to it. Until then, the
// object is marked as being deleted, so that a Job does not make new pods in place of those that it loses.
constexpr char orphan_finalizer[] = "orphan";

// Marks an object as being deleted. A pod that has a node and has not ended gets a grace period. For any
// other object, this period is 0, so the store removes the object as soon as no finalizer is left.
void mark_deleted(const Kind& kind, json& object, const json& options, Time now) {
  json& metadata = object["metadata"];
  long grace = 0;
  if (kind.kind == "Pod") {
    const json& spec = object.at("spec");
    const bool given =
        options.contains("gracePeriodSeconds") && options.at("gracePeriodSeconds").is_number_integer();
    grace = given ? options.at("gracePeriodSeconds").get<long>()
                  : spec.value("terminationGracePeriodSeconds", 30L);
    if (has_ended(object) || !spec.contains("nodeName")) grace = 0;
    grace = std::max(0L, grace);
    if (metadata.contains("deletionTimestamp"))
      grace = std::min(grace, metadata.value("deletionGracePeriodSeconds", 0L));
  }
  if (!metadata.contains("deletionTimestamp") || metadata.value("deletionGracePeriodSeconds", 0L) != grace) {
    metadata["deletionTimestamp"] = format_time(later(now, grace));
    metadata["deletionGracePeriodSeconds"] = grace;
  }
  const std::string policy = options.value("propagationPolicy", "Background");
  if (policy == "Background") return;
  const char* const name = policy == "Foreground" ? "foregroundDeletion" : orphan_finalizer;
  if (!has_finalizer(object, name)) metadata["finalizers"].push_back(name);
}

}  // namespace

json Api::strict(const Request& request, const Kind& kind, json object, std::string& warning) const {
  const std::string mode = request.parameter("fieldValidation");
  if (!mode.empty() && mode != "Strict" && mode != "Warn" && mode != "Ignore") {
    throw invalid("Options", "", "fieldValidation", "Unsupported value: \"" + mode + "\"");
  }
  const std::vector<std::string> unknown = prune_unknown_fields(kind, object);
  if (unknown.empty() || mode == "Ignore") return object;
  std::vector<std::string> parts;
  for (const std::string& field : unknown) parts.push_back("unknown field \"" + field + "\"");
  const std::string message = join(parts, ", ");
  if (mode == "Strict") {
    throw bad_request(kind.kind + " in version \"" + kind.version + "\" cannot be handled as a " + kind.kind +
                      ": strict decoding error: " + message);
  }
  warning = message;
  return object;
}

Answer Api::create(const Request& request, const Target& target) {
  const Kind& kind = *target.kind;
  view_of(request.accept);
  const bool dry_run = is_dry_run(request);
  std::string warning;
  json given = read_object(request);
  check_type(kind, given);
  given = strict(request, kind, std::move(given), warning);
  if (kind.namespaced) {
    const Object name_space = store_.get("namespaces", "", target.name_space);
    if (name_space->at("metadata").contains("deletionTimestamp")) {
      throw StatusError(403, "Forbidden",
                        "unable to create new content in namespace " + target.name_space +
                            " because it is being terminated");
    }
  }
  json object = admit_new({kind, target.name_space, new_uid(), random_suffix(), now_()}, std::move(given));
  if (kind.kind == "Pod") object["status"] = {{"phase", "Pending"}, {"qosClass", "BestEffort"}};
  if (kind.kind == "Job") object["status"] = json::object();
  if (dry_run) {
    const std::string& name = name_of(object);
    if (store_.find(kind.plural, target.name_space, name)) throw already_exists(kind.plural, name);
  } else {
    object = *store_.create(kind.plural, std::move(object));
    if (kind.kind == "Namespace") add_default_account(store_, name_of(object), now_());
  }
  Answer result = answer(request, kind, object, 201);
  result.warning = warning;
  return result;
}

Answer Api::change(const Request& request, const Target& target,
                   const std::function<json(const json&)>& edit) {
  const Kind& kind = *target.kind;
  view_of(request.accept);
  const bool of_status = target.sub == "status";
  if (of_status && !kind.has_status) throw no_such_resource();
  const bool dry_run = is_dry_run(request);
  const Admission admission{kind, target.name_space, "", "", now_()};
  std::string warning;
  json result;
  const auto apply = [&](json& object) {
    json edited = edit(object);
    check_type(kind, edited);
    edited = strict(request, kind, std::move(edited), warning);
    object = admit_change(admission, object, std::move(edited), of_status);
  };
  if (dry_run) {
    result = *store_.get(kind.plural, target.name_space, target.name);
    apply(result);
  } else {
    result = *store_.modify(kind.plural, target.name_space, target.name, apply);
  }
  Answer changed = answer(request, kind, result);
  changed.warning = warning;
  return changed;
}

Answer Api::replace(const Request& request, const Target& target) {
  const json object = read_object(request);
  return change(request, target, [&](const json&) { return object; });
}

Answer Api::patch(const Request& request, const Target& target) {
  if (is_apply_patch(request.content_type) && request.parameter("fieldManager").empty())
    throw invalid("PatchOptions", "", "fieldManager", "Required value: is required for apply patch");
  if (is_apply_patch(request.content_type) &&
      !store_.find(target.kind->plural, target.name_space, target.name)) {
    // Server-side apply creates the object if it does not exist.
    Request creation = request;
    creation.method = "POST";
    creation.content_type = "application/json";
    json object = parse_body(request.body);
    if (object.is_object()) object["metadata"]["name"] = target.name;
    creation.body = object.dump();
    return create(creation, target);
  }
  return change(request, target,
                [&](const json& before) { return apply_patch(request.content_type, before, request.body); });
}

json Api::remove_object(const Target& target, const json& options, bool dry_run) {
  const Kind& kind = *target.kind;
  const Object object = store_.get(kind.plural, target.name_space, target.name);
  check_preconditions(kind, *object, options);
  if (dry_run) return *object;
  const std::string uid = uid_of(*object);
  const Object result = store_.modify(kind.plural, target.name_space, target.name, [&](json& current) {
    check_preconditions(kind, current, options);
    if (current.at("metadata").at("uid") != uid)
      throw conflict(kind.plural, target.name, "the object has been replaced");
    mark_deleted(kind, current, options, now_());
    if (kind.kind == "Namespace") {
      // This finalizer keeps the namespace until its contents are deleted: see garbage.cpp.
      current["metadata"]["finalizers"] = json::array({"kubernetes"});
      current["status"]["phase"] = "Terminating";
    }
  });
  if (options.value("propagationPolicy", "Background") != "Orphan") return *result;
  orphan_dependents(uid);
  return *store_.modify(kind.plural, target.name_space, target.name, [&](json& current) {
    if (current.at("metadata").at("uid") == uid) drop_finalizer(current, orphan_finalizer);
  });
}

void Api::orphan_dependents(const std::string& uid) {
  const auto is_owner = [&](const json& owner) { return owner.value("uid", "") == uid; };
  for (const Kind& kind : kinds()) {
    for (const Object& object : store_.list(kind.plural)) {
      const json owners = object->at("metadata").value("ownerReferences", json::array());
      if (std::none_of(owners.begin(), owners.end(), is_owner)) continue;
      store_.modify(kind.plural, namespace_of(*object), name_of(*object), [&](json& dependent) {
        json& list = dependent["metadata"]["ownerReferences"];
        list.erase(std::remove_if(list.begin(), list.end(), is_owner), list.end());
      });
    }
  }
}

Answer Api::remove(const Request& request, const Target& target) {
  const json options = delete_options(request);
  const bool dry_run = is_dry_run(request, options);
  const json object = remove_object(target, options, dry_run);
  if (dry_run || store_.find(target.kind->plural, target.name_space, target.name)) return json_answer(object);
  return json_answer({{"kind", "Status"},
                      {"apiVersion", "v1"},
                      {"metadata", json::object()},
                      {"status", "Success"},
                      {"details",
                       {{"name", target.name},
                        {"group", target.kind->group},
                        {"kind", target.kind->plural},
                        {"uid", uid_of(object)}}}});
}

Answer Api::remove_all(const Request& request, const Target& target) {
  const LabelSelector labels(request.parameter("labelSelector"));
  const FieldSelector fields(request.parameter("fieldSelector"), *target.kind);
  const json options = delete_options(request);
  const bool dry_run = is_dry_run(request, options);
  if (target.kind->namespaced && target.name_space.empty()) throw method_not_allowed();
  ListPage page;
  page.revision = std::to_string(store_.revision());
  for (const Object& object : store_.list(target.kind->plural, target.name_space)) {
    if (!labels.matches(*object) || !fields.matches(*object)) continue;
    Target one = target;
    one.name = name_of(*object);
    try {
      page.objects.push_back(std::make_shared<const json>(remove_object(one, options, dry_run)));
    } catch (const StatusError& error) {
      if (error.code() != 404) throw;  // 404: the object was deleted meanwhile
    }
  }
  return json_answer(show_list(*target.kind, page, View::object, now_()));
}

}  // namespace mlk::local
