#include "cli/local/api/api.h"

#include <algorithm>
#include <charconv>

#include "cli/local/api/discovery.h"
#include "cli/local/api/selector.h"
#include "cli/local/state/patch.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

template <class Number>
std::optional<Number> number_parameter(const Request& request, const std::string& name) {
  const std::string text = request.parameter(name);
  if (text.empty()) return std::nullopt;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw bad_request("invalid value for " + name + ": \"" + text + "\"");
  }
  return value;
}

struct ContinueToken {
  std::uint64_t revision;
  std::string after;  // position_of() for the last object that was sent
};

std::string encode(const ContinueToken& token) {
  return base64_encode(json{{"rv", token.revision}, {"after", token.after}}.dump());
}

ContinueToken decode(const std::string& text) {
  try {
    const json token = json_or_null(base64_decode(text));
    const json& revision = token.at("rv");
    if (!revision.is_number_unsigned()) throw bad_request("continue key is not valid");
    return {revision.get<std::uint64_t>(), token.at("after").get<std::string>()};
  } catch (const std::exception&) {
    throw bad_request("continue key is not valid");
  }
}

// The position of an object in the order of the store: by namespace, then by name.
std::string position_of(const json& object) {
  const json& metadata = object.at("metadata");
  return metadata.value("namespace", "") + '\0' + metadata.at("name").get<std::string>();
}

const json* container_status(const json& pod) {
  const json::json_pointer at("/status/containerStatuses/0/state");
  return pod.contains(at) ? &pod.at(at) : nullptr;
}

}  // namespace

Answer json_answer(const json& value, int status) { return {.status = status, .body = value.dump()}; }

Api::Target Api::parse_target(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  std::erase_if(parts, [](const std::string& part) { return part.empty(); });
  const bool is_core = parts.size() >= 3 && parts[0] == "api";
  if (!is_core && (parts.size() < 4 || parts[0] != "apis")) throw no_such_resource();
  const std::string group = is_core ? "" : parts[1], version = parts[is_core ? 1 : 2];
  std::size_t at = is_core ? 2 : 3;
  Target target{nullptr, "", "", ""};
  const bool in_namespace = parts[at] == "namespaces" && parts.size() >= at + 3 &&
                            parts[at + 2] != "status" && parts[at + 2] != "finalize";
  if (in_namespace) {
    target.name_space = parts[at + 1];
    at += 2;
  }
  target.kind = find_kind(group, version, parts[at]);
  if (target.kind == nullptr ||
      target.kind->namespaced != (in_namespace || (target.kind->namespaced && parts.size() == at + 1))) {
    throw no_such_resource();
  }
  if (parts.size() > at + 1) target.name = parts[at + 1];
  if (parts.size() > at + 2) target.sub = parts[at + 2];
  if (parts.size() > at + 3) throw no_such_resource();
  return target;
}

void Api::stop() {
  stopping_ = true;
  store_.wake_watches();
  logs_.announce_all();
}

Answer Api::handle(const Request& request) {
  try {
    return dispatch(request);
  } catch (const StatusError& error) {
    return json_answer(error.status(), error.code());
  } catch (const json::exception& error) {
    return json_answer(bad_request(error.what()).status(), 400);
  } catch (const std::exception& error) {  // for example a full disk
    return json_answer(
        StatusError(500, "InternalError", std::string("Internal error occurred: ") + error.what()).status(),
        500);
  }
}

Answer Api::dispatch(const Request& request) {
  if (request.path == "/healthz" || request.path == "/livez" || request.path == "/readyz")
    return {.content_type = "text/plain", .body = "ok"};
  if (request.method == "GET") {
    const std::string path = request.path.size() > 1 && request.path.back() == '/'
                                 ? request.path.substr(0, request.path.size() - 1)
                                 : request.path;
    if (const auto document = discover(path)) {
      view_of(request.accept);  // throws 406 if the client does not accept JSON
      return json_answer(*document);
    }
  }
  if (request.path.starts_with("/apis/authorization.k8s.io/v1/") ||
      request.path.starts_with("/apis/authentication.k8s.io/v1/")) {
    return review(request);
  }
  const Target target = parse_target(request.path);
  if (!target.sub.empty() && target.sub != "status" && target.sub != "log") {
    throw StatusError(404, "NotFound",
                      "the local cluster does not serve " + target.kind->plural + "/" + target.sub);
  }
  if (target.sub == "log") {
    if (target.kind->kind != "Pod" || request.method != "GET") throw method_not_allowed();
    return log(request, target);
  }
  if (request.method == "GET") {
    if (!target.name.empty())
      return answer(request, *target.kind, *store_.get(target.kind->plural, target.name_space, target.name));
    return request.flag("watch") ? watch(request, target) : list(request, target);
  }
  if (!target.kind->writable) throw method_not_allowed();
  if (request.method == "POST" && target.name.empty()) return create(request, target);
  if (request.method == "PUT" && !target.name.empty()) return replace(request, target);
  if (request.method == "PATCH" && !target.name.empty()) return patch(request, target);
  if (request.method == "DELETE")
    return target.name.empty() ? remove_all(request, target) : remove(request, target);
  throw method_not_allowed();
}

Answer Api::review(const Request& request) {
  if (request.method != "POST") throw method_not_allowed();
  const std::string plural = request.path.substr(request.path.rfind('/') + 1);
  json object = json::object();
  // `kubectl auth can-i` sends protobuf. The server need not read it, since every such review gets the same
  // answer.
  if (!request.content_type.starts_with("application/vnd.kubernetes.protobuf"))
    object = parse_body(request.body);
  object["apiVersion"] = request.path.substr(6, request.path.rfind('/') - 6);
  // The token belongs to the user who runs the cluster, so the server allows every request that it supports.
  if (plural == "selfsubjectaccessreviews") {
    object["kind"] = "SelfSubjectAccessReview";
    object["status"] = {{"allowed", true}};
  } else if (plural == "selfsubjectrulesreviews") {
    const json all = json::array({"*"});
    object["kind"] = "SelfSubjectRulesReview";
    object["status"] = {
        {"incomplete", false},
        {"resourceRules", json::array({{{"verbs", all}, {"apiGroups", all}, {"resources", all}}})},
        {"nonResourceRules", json::array({{{"verbs", all}, {"nonResourceURLs", all}}})}};
  } else if (plural == "selfsubjectreviews") {
    object["kind"] = "SelfSubjectReview";
    object["status"] = {{"userInfo", {{"username", "local"}, {"groups", {"system:authenticated"}}}}};
  } else {
    throw no_such_resource();
  }
  return json_answer(object, 201);
}

Answer Api::answer(const Request& request, const Kind& kind, const json& object, int status) const {
  return json_answer(show(kind, object, view_of(request.accept), now_()), status);
}

Answer Api::list(const Request& request, const Target& target) {
  const View view = view_of(request.accept);
  const LabelSelector labels(request.parameter("labelSelector"));
  const FieldSelector fields(request.parameter("fieldSelector"), *target.kind);
  const auto limit = number_parameter<std::size_t>(request, "limit").value_or(0);
  const std::string token_text = request.parameter("continue");
  const auto wanted = number_parameter<std::uint64_t>(request, "resourceVersion").value_or(0);
  Store::Snapshot snapshot;
  std::string after;
  if (!token_text.empty()) {
    // A later page shows the state at the time of the first page, so the continue token has the version of
    // the first page.
    const ContinueToken token = decode(token_text);
    snapshot = store_.snapshot_at(target.kind->plural, target.name_space, token.revision);
    after = token.after;
  } else {
    snapshot = store_.snapshot(target.kind->plural, target.name_space);
    if (wanted > snapshot.revision) {
      throw StatusError(504, "Timeout",
                        "Too large resource version: " + std::to_string(wanted) +
                            ", current: " + std::to_string(snapshot.revision),
                        {{"causes", json::array({{{"reason", "ResourceVersionTooLarge"},
                                                  {"message", "Too large resource version"}}})},
                         {"retryAfterSeconds", 1}});
    }
    if (request.parameter("resourceVersionMatch") == "Exact") {
      snapshot = store_.snapshot_at(target.kind->plural, target.name_space, wanted);
    }
  }
  ListPage page;
  page.revision = std::to_string(snapshot.revision);
  for (const Object& object : snapshot.objects) {
    if (!after.empty() && position_of(*object) <= after) continue;
    if (!labels.matches(*object) || !fields.matches(*object)) continue;
    if (limit != 0 && page.objects.size() >= limit) {
      ++page.remaining;
    } else {
      page.objects.push_back(object);
    }
  }
  if (page.remaining > 0) page.next = encode({snapshot.revision, position_of(*page.objects.back())});
  return json_answer(show_list(*target.kind, page, view, now_()));
}

Answer Api::watch(const Request& request, const Target& target) {
  WatchOptions options;
  options.view = view_of(request.accept);
  options.label_selector = request.parameter("labelSelector");
  options.field_selector = request.parameter("fieldSelector");
  options.revision = request.parameter("resourceVersion");
  options.bookmarks = request.flag("allowWatchBookmarks");
  options.initial_events = request.flag("sendInitialEvents");
  const long timeout = number_parameter<long>(request, "timeoutSeconds").value_or(3600);
  options.timeout = std::chrono::seconds(std::clamp(timeout, 0L, 1'000'000L));
  // Parses the selectors now, since a mistake in them must be reported before the stream begins.
  const LabelSelector labels(options.label_selector);
  const FieldSelector fields(options.field_selector, *target.kind);
  if (!options.revision.empty() && options.revision != "0" && !options.initial_events) {
    std::uint64_t revision = number_parameter<std::uint64_t>(request, "resourceVersion").value_or(0);
    store_.changes_after(revision, target.kind->plural,
                         std::chrono::steady_clock::now());  // throws 410 if the version is too old
  }
  Answer answer;
  answer.stream = [this, target, options](const Sink& sink) {
    const Sink bounded{sink.write, [&] { return !stopping_ && sink.alive(); }};
    stream_watch(store_, *target.kind, target.name_space, options, now_, bounded);
  };
  return answer;
}

Answer Api::log(const Request& request, const Target& target) {
  const Object pod = store_.get("pods", target.name_space, target.name);
  const std::string container = pod->at("/spec/containers/0/name"_json_pointer).get<std::string>();
  if (const std::string asked = request.parameter("container"); !asked.empty() && asked != container) {
    throw bad_request("container " + asked + " is not valid for pod " + target.name);
  }
  if (request.flag("previous")) {
    throw bad_request("previous terminated container \"" + container + "\" in pod \"" + target.name +
                      "\" not found");
  }
  LogOptions options;
  options.follow = request.flag("follow");
  options.timestamps = request.flag("timestamps");
  options.tail_lines = number_parameter<long long>(request, "tailLines");
  options.limit_bytes = number_parameter<std::uint64_t>(request, "limitBytes");
  if (options.limit_bytes == 0)
    throw invalid("PodLogOptions", target.name, "limitBytes", "Invalid value: 0: must be greater than 0");
  const auto seconds = number_parameter<long>(request, "sinceSeconds");
  const std::string since = request.parameter("sinceTime");
  if (seconds && !since.empty())
    throw invalid("PodLogOptions", target.name, "sinceSeconds",
                  "at most one of `sinceTime` or `sinceSeconds` may be specified");
  if (seconds && *seconds < 1)
    throw invalid("PodLogOptions", target.name, "sinceSeconds", "Invalid value: must be greater than 0");
  if (seconds) options.since = later(now_(), -*seconds);
  if (!since.empty()) {
    const auto time = parse_time(since);
    if (!time) throw bad_request("unable to parse sinceTime: \"" + since + "\"");
    options.since = std::chrono::floor<std::chrono::seconds>(*time);  // as in Kubernetes
  }
  Answer answer;
  answer.content_type = "text/plain";
  const bool scheduled = pod->at("spec").contains("nodeName");
  const json* state = container_status(*pod);
  if (!scheduled) return answer;  // Kubernetes, too, sends an empty log
  if (state == nullptr || state->contains("waiting")) {
    const std::string reason =
        state == nullptr ? "ContainerCreating" : state->at("waiting").value("reason", "ContainerCreating");
    throw bad_request("container \"" + container + "\" in pod \"" + target.name +
                      "\" is waiting to start: " + reason);
  }
  const std::string uid = pod->at("/metadata/uid"_json_pointer).get<std::string>();
  answer.stream = [this, target, options, uid](const Sink& sink) {
    const auto ended = [&] {
      const Object now = store_.find("pods", target.name_space, target.name);
      const json* current = now ? container_status(*now) : nullptr;
      return current == nullptr || now->at("/metadata/uid"_json_pointer) != uid ||
             current->contains("terminated");
    };
    logs_.read(uid, options, sink.write, [&] { return !stopping_ && sink.alive(); }, ended);
  };
  return answer;
}

}  // namespace mlk::local
