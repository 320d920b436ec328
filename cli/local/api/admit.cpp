#include "cli/local/api/admit.h"

#include <algorithm>

#include "cli/local/state/defaults.h"
#include "cli/local/state/metadata.h"
#include "cli/local/state/status.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

bool is_lower_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_label_value(const std::string& text) {
  const auto edge = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (text.empty()) return true;
  return text.size() <= 63 && edge(text.front()) && edge(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return edge(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_qualified_name(const std::string& text) {
  const auto slash = text.find('/');
  const std::string name = slash == text.npos ? text : text.substr(slash + 1);
  return !name.empty() && is_label_value(name) &&
         (slash == text.npos || is_dns_subdomain(text.substr(0, slash)));
}

void check_metadata(const Kind& kind, const json& metadata) {
  const std::string& name = text_of(metadata, {"name"});
  // The names of Services and Namespaces become parts of host names, so they contain no dots.
  const bool label = kind.kind == "Service" || kind.kind == "Namespace";
  if (label ? !is_label(name) : !is_dns_subdomain(name)) {
    throw invalid(kind.kind, name, "metadata.name",
                  "Invalid value: \"" + name + "\": a lowercase RFC 1123 " + (label ? "label" : "subdomain") +
                      " must consist of lower case alphanumeric characters" +
                      (label ? " or '-'" : ", '-' or '.'") +
                      ", and must start and end with an alphanumeric character");
  }
  for (const auto& [key, value] : at_path(metadata, {"labels"}).items()) {
    if (!is_qualified_name(key))
      throw invalid(kind.kind, name, "metadata.labels", "Invalid value: \"" + key + "\"");
    if (!is_label_value(value.get<std::string>())) {
      throw invalid(kind.kind, name, "metadata.labels",
                    "Invalid value: " + value.dump() + ": a valid label must be an " +
                        "empty string or consist of alphanumeric characters, '-', '_' or '.', at most 63");
    }
  }
  std::size_t annotation_bytes = 0;
  for (const auto& [key, value] : at_path(metadata, {"annotations"}).items()) {
    if (!is_qualified_name(lower_case(key)))
      throw invalid(kind.kind, name, "metadata.annotations", "Invalid value: \"" + key + "\"");
    annotation_bytes += key.size() + value.get_ref<const std::string&>().size();
  }
  if (annotation_bytes > 256 * 1024) {
    throw invalid(kind.kind, name, "metadata.annotations", "Too long: may not be more than 262144 bytes");
  }
  for (const json& owner : metadata.value("ownerReferences", json::array())) {
    for (const char* field : {"apiVersion", "kind", "name", "uid"}) {
      if (owner.value(field, "").empty()) {
        throw invalid(kind.kind, name, std::string("metadata.ownerReferences.") + field, "Required value");
      }
    }
  }
}

// The keys of a ConfigMap or Secret become file names, so only characters of file names are allowed.
void check_data(const Kind& kind, const json& object) {
  if (kind.kind != "ConfigMap" && kind.kind != "Secret") return;
  const std::string& name = name_of(object);
  std::size_t bytes = 0;
  for (const char* part : {"data", "binaryData"}) {
    for (const auto& [key, value] : at_path(object, {part}).items()) {
      const bool good = !key.empty() && key.size() <= 253 && key != "." && !key.starts_with("..") &&
                        std::all_of(key.begin(), key.end(), [](unsigned char c) {
                          return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                        });
      if (!good)
        throw invalid(kind.kind, name, std::string(part) + "[" + key + "]",
                      "Invalid value: a valid config key");
      const std::string& text = value.get_ref<const std::string&>();
      if (kind.kind == "ConfigMap" && std::string(part) == "data") {
        bytes += text.size();
      } else {
        try {
          bytes += base64_decode(text).size();
        } catch (const std::invalid_argument&) {
          throw bad_request(kind.kind + " \"" + name + "\": " + part + "[" + key + "] is not base64");
        }
      }
    }
  }
  if (bytes > 1024 * 1024)
    throw invalid(kind.kind, name, kind.kind == "Secret" ? "data" : "[]",
                  "Too long: may not be more than 1048576 bytes");
}

void complete_and_check(const Kind& kind, json& object) {
  object["apiVersion"] = kind.api_version();
  object["kind"] = kind.kind;
  set_defaults(kind, object);
  check_metadata(kind, object.at("metadata"));
  check_data(kind, object);
  check_rules(kind, object);
}

void check_unchanged(const Kind& kind, const json& before, const json& after,
                     const json::json_pointer& field) {
  const json old_value = before.contains(field) ? before.at(field) : json();
  const json new_value = after.contains(field) ? after.at(field) : json();
  if (old_value == new_value) return;
  std::string path = field.to_string().substr(1);
  std::replace(path.begin(), path.end(), '/', '.');
  throw invalid(kind.kind, name_of(before), path, "Invalid value: field is immutable");
}

// A change may add or lower the deadline, but may not raise or remove it.
void check_pod_deadline(const Kind& kind, const json& before, const json& after) {
  const json& old_value = at_path(before.at("spec"), {"activeDeadlineSeconds"});
  const json& new_value = at_path(after.at("spec"), {"activeDeadlineSeconds"});
  if (old_value.is_null()) return;
  const auto refuse = [&](const std::string& why) {
    throw invalid(kind.kind, name_of(before), "spec.activeDeadlineSeconds",
                  "Invalid value: " + new_value.dump() + ": " + why);
  };
  if (new_value.is_null()) refuse("must not update from a positive integer to nil value");
  if (new_value > old_value) refuse("must be less than or equal to previous value");
}

void check_immutable(const Kind& kind, const json& before, const json& after) {
  const auto same = [&](const char* field) {
    check_unchanged(kind, before, after, json::json_pointer(field));
  };
  if ((kind.kind == "ConfigMap" || kind.kind == "Secret") && before.value("immutable", false)) {
    for (const char* field : {"/data", "/binaryData", "/immutable"}) same(field);
  } else if (kind.kind == "Secret") {
    same("/type");
  } else if (kind.kind == "Service") {
    same("/spec/clusterIP");
  } else if (kind.kind == "Pod") {
    check_pod_deadline(kind, before, after);
    json old_spec = before.at("spec"), new_spec = after.at("spec");
    for (json* spec : {&old_spec, &new_spec}) {
      for (const char* field :
           {"tolerations", "activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds"}) {
        spec->erase(field);
      }
    }
    check_unchanged(kind, {{"metadata", before.at("metadata")}, {"spec", old_spec}}, {{"spec", new_spec}},
                    json::json_pointer("/spec"));
  } else if (kind.kind == "Job") {
    for (const char* field : {"/spec/completionMode", "/spec/selector", "/spec/podFailurePolicy",
                              "/spec/successPolicy", "/spec/backoffLimitPerIndex", "/spec/maxFailedIndexes",
                              "/spec/podReplacementPolicy", "/spec/managedBy"}) {
      same(field);
    }
    const json& spec = after.at("spec");
    // An elastic Job may change `completions` only to the new value of `parallelism`.
    if (spec.at("completions") != before.at("spec").at("completions") &&
        spec.at("completions") != spec.at("parallelism")) {
      same("/spec/completions");
    }
    same("/spec/template");
  }
}

}  // namespace

bool is_dns_subdomain(const std::string& text) {
  if (text.empty() || text.size() > 253 || text.back() == '.') return false;
  const std::vector<std::string> parts = split(text, '.');
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && is_lower_alphanumeric(part.front()) && is_lower_alphanumeric(part.back()) &&
           std::all_of(part.begin(), part.end(), [](char c) { return is_lower_alphanumeric(c) || c == '-'; });
  });
}

json admit_new(const Admission& admission, json object) {
  const Kind& kind = admission.kind;
  json& metadata = object["metadata"];
  if (metadata.is_null()) metadata = json::object();
  std::string name = metadata.value("name", "");
  if (name.empty() && metadata.contains("generateName")) {
    // Cuts the prefix, as Kubernetes does, so that the name with its suffix has at most 63 characters.
    name = metadata.at("generateName").get<std::string>().substr(0, 58) + admission.random_suffix;
    metadata["name"] = name;
  }
  if (name.empty())
    throw invalid(kind.kind, "", "metadata.name", "Required value: name or generateName is required");
  if (kind.namespaced) {
    const std::string given = metadata.value("namespace", admission.name_space);
    if (given != admission.name_space) {
      throw bad_request(
          "the namespace of the provided object does not match the namespace sent on the request");
    }
    metadata["namespace"] = admission.name_space;
  } else {
    metadata.erase("namespace");
  }
  for (const char* field :
       {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}) {
    metadata.erase(field);
  }
  metadata["uid"] = admission.uid;
  metadata["creationTimestamp"] = format_time(admission.now);
  if (kind.has_generation) metadata["generation"] = 1;
  if (kind.has_status) object.erase("status");
  complete_and_check(kind, object);
  return object;
}

json admit_change(const Admission& admission, const json& before, json after, bool of_status) {
  const Kind& kind = admission.kind;
  const json& old_metadata = before.at("metadata");
  const std::string name = old_metadata.at("name").get<std::string>();
  json& metadata = after["metadata"];
  if (metadata.is_null()) metadata = json::object();
  if (metadata.value("name", name) != name) {
    throw bad_request("the name of the object (" + metadata.value("name", "") +
                      ") does not match the name on the URL (" + name + ")");
  }
  const std::string version = metadata.value("resourceVersion", "");
  if (!version.empty() && version != "0" &&
      version != old_metadata.at("resourceVersion").get<std::string>()) {
    throw conflict(
        kind.plural, name,
        "the object has been modified; please apply your changes to the latest version and try again");
  }
  if (const std::string uid = metadata.value("uid", ""); !uid.empty() && uid != uid_of(before)) {
    throw conflict(
        kind.plural, name,
        "Precondition failed: UID in precondition: " + uid + ", UID in object meta: " + uid_of(before));
  }
  if (of_status) {
    json result = before;
    if (after.contains("status")) result["status"] = after["status"];
    return result;
  }
  metadata.erase("managedFields");
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation",
                            "generateName", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    metadata.erase(field);
    if (old_metadata.contains(field)) metadata[field] = old_metadata.at(field);
  }
  if (kind.has_status) {
    after.erase("status");
    if (before.contains("status")) after["status"] = before.at("status");
  }
  complete_and_check(kind, after);
  check_immutable(kind, before, after);
  if (kind.has_generation && after.value("spec", json()) != before.value("spec", json())) {
    metadata["generation"] = old_metadata.value("generation", 1) + 1;
  }
  return after;
}

}  // namespace mlk::local
