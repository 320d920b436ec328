#include "cli/local/api/view.h"

#include <functional>

#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

std::string text_of(const json& object, const char* pointer, const std::string& otherwise = "") {
  const json::json_pointer at(pointer);
  if (!object.contains(at)) return otherwise;
  return text_or_json(object.at(at));
}

std::string age(const json& object, const char* pointer, Time now) {
  const auto since = parse_time(text_of(object, pointer));
  if (!since) return "<unknown>";
  return format_duration(std::chrono::duration_cast<std::chrono::seconds>(now - *since));
}

struct Column {
  const char* name;
  const char* type;
  std::function<json(const json&, Time)> cell;
};

std::string pod_status(const json& pod) {
  if (pod.contains("/metadata/deletionTimestamp"_json_pointer)) return "Terminating";
  for (const json& status : pod.value("/status/containerStatuses"_json_pointer, json::array())) {
    for (const char* state : {"/state/waiting/reason", "/state/terminated/reason"}) {
      const std::string reason = text_of(status, state);
      if (!reason.empty()) return reason;
    }
  }
  const std::string reason = text_of(pod, "/status/reason");
  return reason.empty() ? text_of(pod, "/status/phase") : reason;
}

std::string job_status(const json& job) {
  std::string result = "Running";
  for (const json& condition : job.value("/status/conditions"_json_pointer, json::array())) {
    if (condition.value("status", "") != "True") continue;
    const std::string type = condition.value("type", "");
    if (type == "Complete" || type == "Failed" || type == "Suspended" || type == "FailureTarget" ||
        type == "SuccessCriteriaMet") {
      result = type;
      if (type == "Complete" || type == "Failed") break;
    }
  }
  return result;
}

std::string job_duration(const json& job, Time now) {
  const auto start = parse_time(text_of(job, "/status/startTime"));
  if (!start) return "";
  const Time end = parse_time(text_of(job, "/status/completionTime")).value_or(now);
  return format_duration(std::chrono::duration_cast<std::chrono::seconds>(end - *start));
}

std::vector<Column> columns_of(const Kind& kind) {
  const auto path = [](const char* pointer, const char* otherwise = "") {
    return
        [pointer, otherwise](const json& object, Time) { return json(text_of(object, pointer, otherwise)); };
  };
  const auto entries = [](const json& object, Time) {
    return json(object.value("data", json::object()).size() +
                object.value("binaryData", json::object()).size());
  };
  const Column name{"Name", "string", path("/metadata/name")};
  const Column since{"Age", "string", [](const json& o, Time now) {
                       return json(age(o, "/metadata/creationTimestamp", now));
                     }};
  if (kind.kind == "Pod") {
    return {name,
            {"Ready", "string",
             [](const json& o, Time) {
               return json(text_of(o, "/status/containerStatuses/0/ready") == "true" ? "1/1" : "0/1");
             }},
            {"Status", "string", [](const json& o, Time) { return json(pod_status(o)); }},
            {"Restarts", "string", [](const json&, Time) { return json("0"); }},
            since};
  }
  if (kind.kind == "Job") {
    return {name,
            {"Status", "string", [](const json& o, Time) { return json(job_status(o)); }},
            {"Completions", "string",
             [](const json& o, Time) {
               return json(text_of(o, "/status/succeeded", "0") + "/" + text_of(o, "/spec/completions", "1"));
             }},
            {"Duration", "string", [](const json& o, Time now) { return json(job_duration(o, now)); }},
            since};
  }
  if (kind.kind == "ConfigMap") return {name, {"Data", "integer", entries}, since};
  if (kind.kind == "Secret")
    return {name, {"Type", "string", path("/type")}, {"Data", "integer", entries}, since};
  if (kind.kind == "Service") {
    return {name,
            {"Type", "string", path("/spec/type")},
            {"Cluster-IP", "string", path("/spec/clusterIP")},
            since};
  }
  if (kind.kind == "Namespace") return {name, {"Status", "string", path("/status/phase")}, since};
  if (kind.kind == "Lease") return {name, {"Holder", "string", path("/spec/holderIdentity")}, since};
  if (kind.kind == "Node")
    return {name, {"Status", "string", [](const json&, Time) { return json("Ready"); }}, since};
  if (kind.kind == "Event") {
    return {
        {"Last Seen", "string", [](const json& o, Time now) { return json(age(o, "/lastTimestamp", now)); }},
        {"Type", "string", path("/type")},
        {"Reason", "string", path("/reason")},
        {"Object", "string",
         [](const json& o, Time) {
           std::string object_kind = text_of(o, "/involvedObject/kind");
           for (char& c : object_kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
           return json(object_kind + "/" + text_of(o, "/involvedObject/name"));
         }},
        {"Message", "string", path("/message")}};
  }
  return {name, since};
}

json metadata_only(const json& object) {
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", object.at("metadata")}};
}

json table(const Kind& kind, const std::vector<const json*>& objects, json metadata, Time now) {
  const std::vector<Column> columns = columns_of(kind);
  json definitions = json::array(), rows = json::array();
  for (const Column& column : columns) {
    const char* format = std::string(column.name) == "Name" ? "name" : "";
    definitions.push_back({{"name", column.name},
                           {"type", column.type},
                           {"format", format},
                           {"description", ""},
                           {"priority", 0}});
  }
  for (const json* object : objects) {
    json cells = json::array();
    for (const Column& column : columns) cells.push_back(column.cell(*object, now));
    rows.push_back({{"cells", cells}, {"object", metadata_only(*object)}});
  }
  return {{"kind", "Table"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", std::move(metadata)},
          {"columnDefinitions", definitions},
          {"rows", rows}};
}

}  // namespace

View view_of(const std::string& accept) {
  if (trim(accept).empty()) return View::object;
  for (const std::string& part : split(accept, ',')) {
    const std::vector<std::string> parameters = split(part, ';');
    const std::string_view type = parameters.empty() ? std::string_view() : trim(parameters[0]);
    if (type != "application/json" && type != "*/*" && type != "application/*") continue;
    bool known = true;
    View view = View::object;
    for (const std::string& raw : parameters) {
      const std::string_view parameter = trim(raw);
      if (!parameter.starts_with("as=")) continue;
      if (parameter == "as=Table") {
        view = View::table;
      } else if (parameter == "as=PartialObjectMetadata" || parameter == "as=PartialObjectMetadataList") {
        view = View::metadata;
      } else {
        known = false;
      }
    }
    if (known) return view;
  }
  throw StatusError(406, "NotAcceptable", "only the following media types are accepted: application/json");
}

json show(const Kind& kind, const json& object, View view, Time now) {
  if (view == View::metadata) return metadata_only(object);
  if (view == View::object) return object;
  return table(kind, {&object}, {{"resourceVersion", text_of(object, "/metadata/resourceVersion")}}, now);
}

json show_list(const Kind& kind, const ListPage& page, View view, Time now) {
  json metadata = {{"resourceVersion", page.revision}};
  if (!page.next.empty()) {
    metadata["continue"] = page.next;
    metadata["remainingItemCount"] = page.remaining;
  }
  if (view == View::table) {
    std::vector<const json*> objects;
    for (const Object& object : page.objects) objects.push_back(object.get());
    return table(kind, objects, metadata, now);
  }
  const bool is_partial = view == View::metadata;
  json items = json::array();
  for (const Object& object : page.objects) {
    if (is_partial) {
      items.push_back(metadata_only(*object));
      continue;
    }
    json item = *object;  // items of a typed list have no fields for their type
    item.erase("kind");
    item.erase("apiVersion");
    items.push_back(std::move(item));
  }
  return {{"kind", is_partial ? "PartialObjectMetadataList" : kind.kind + "List"},
          {"apiVersion", is_partial ? "meta.k8s.io/v1" : kind.api_version()},
          {"metadata", metadata},
          {"items", items}};
}

}  // namespace mlk::local
