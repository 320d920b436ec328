#include "cli/local/state/defaults.h"

#include <limits>
#include <set>

#include "cli/local/state/status.h"
#include "cli/util/hash.h"
#include "cli/util/indexes.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

void put_if_missing(json& object, const char* field, json value) {
  if (!object.contains(field)) object[field] = std::move(value);
}

void default_container(json& container) {
  put_if_missing(container, "terminationMessagePath", "/dev/termination-log");
  put_if_missing(container, "terminationMessagePolicy", "File");
  put_if_missing(container, "imagePullPolicy", "IfNotPresent");
  put_if_missing(container, "resources", json::object());
  json& resources = container["resources"];
  for (const auto& [name, limit] : at_path(resources, {"limits"}).items()) {
    put_if_missing(resources["requests"], name.c_str(), limit);
  }
  if (container.contains("ports")) {
    for (json& port : container["ports"]) put_if_missing(port, "protocol", "TCP");
  }
  if (!container.contains("env")) return;
  for (json& variable : container["env"]) {
    if (variable.contains("/valueFrom/fieldRef"_json_pointer)) {
      put_if_missing(variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
    }
  }
}

void default_pod_spec(json& spec) {
  put_if_missing(spec, "restartPolicy", "Always");
  put_if_missing(spec, "dnsPolicy", "ClusterFirst");
  put_if_missing(spec, "terminationGracePeriodSeconds", 30);
  put_if_missing(spec, "schedulerName", "default-scheduler");
  put_if_missing(spec, "securityContext", json::object());
  for (const char* list : {"containers", "initContainers"}) {
    if (!spec.contains(list)) continue;
    for (json& container : spec[list]) default_container(container);
  }
  if (!spec.contains("volumes")) return;
  for (json& volume : spec["volumes"]) {
    if (volume.contains("configMap")) put_if_missing(volume["configMap"], "defaultMode", 0644);
    if (volume.contains("secret")) put_if_missing(volume["secret"], "defaultMode", 0644);
    if (volume.contains("hostPath")) put_if_missing(volume["hostPath"], "type", "");
  }
}

void default_job(json& object) {
  json& spec = object["spec"];
  put_if_missing(spec, "completionMode", "NonIndexed");
  if (!spec.contains("completions") && !spec.contains("parallelism")) spec["completions"] = 1;
  put_if_missing(spec, "completions", spec.value("parallelism", 1));
  put_if_missing(spec, "parallelism", 1);
  put_if_missing(spec, "backoffLimit",
                 spec.contains("backoffLimitPerIndex") ? std::numeric_limits<int>::max() : 6);
  put_if_missing(spec, "suspend", false);
  put_if_missing(spec, "podReplacementPolicy",
                 spec.contains("podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
  const std::string uid = object.at("metadata").at("uid").get<std::string>();
  const std::string name = object.at("metadata").at("name").get<std::string>();
  put_if_missing(spec, "selector", {{"matchLabels", {{"batch.kubernetes.io/controller-uid", uid}}}});
  json& labels = spec["template"]["metadata"]["labels"];
  if (labels.is_null()) labels = json::object();
  for (const std::string prefix : {"batch.kubernetes.io/", ""}) {
    labels[prefix + "controller-uid"] = uid;
    labels[prefix + "job-name"] = name;
  }
  if (spec["template"].contains("spec")) {
    // By default, a pod restarts for ever. This is wrong for the pods of a Job, so Kubernetes requires an
    // explicit restartPolicy in a Job.
    const bool given = spec["template"]["spec"].contains("restartPolicy");
    default_pod_spec(spec["template"]["spec"]);
    if (!given) spec["template"]["spec"].erase("restartPolicy");
  }
}

class Rules {
 public:
  Rules(const Kind& kind, const json& object)
      : kind_(kind), name_(object.at("metadata").at("name").get<std::string>()) {}

  // Returns `good`, and collects the mistake if `good` is false. finish() reports all mistakes in one error.
  bool require(bool good, const std::string& field, const std::string& message) {
    if (!good) causes_.push_back({field, message});
    return good;
  }
  void finish() const {
    if (!causes_.empty()) throw invalid(kind_.kind, name_, causes_);
  }
  void not_negative(const json& spec, const char* field) {
    if (!spec.contains(field)) return;
    const auto value = spec.at(field).get<long long>();
    require(value >= 0 && value <= std::numeric_limits<int>::max(), std::string("spec.") + field,
            "Invalid value: " + std::to_string(value) + ": must be greater than or equal to 0");
  }

  void containers(const json& spec, const std::string& path, const char* list) {
    std::set<std::string> volumes;
    for (const json& volume : spec.value("volumes", json::array())) {
      require(volumes.insert(volume.value("name", "")).second, path + ".volumes.name", "Duplicate value");
    }
    std::set<std::string> names;
    int index = 0;
    for (const json& container : at_path(spec, {list})) {
      const std::string at = path + "." + list + "[" + std::to_string(index++) + "]";
      const std::string name = container.value("name", "");
      if (require(!name.empty(), at + ".name", "Required value"))
        require(is_label(name), at + ".name", "Invalid value: \"" + name + "\": a lowercase RFC 1123 label");
      require(names.insert(container.value("name", "")).second, at + ".name", "Duplicate value");
      require(!container.value("image", "").empty(), at + ".image", "Required value");
      for (const json& mount : container.value("volumeMounts", json::array())) {
        require(volumes.contains(mount.value("name", "")), at + ".volumeMounts.name",
                "Not found: \"" + mount.value("name", "") + "\"");
        require(!mount.value("mountPath", "").empty(), at + ".volumeMounts.mountPath", "Required value");
        const std::string sub_path = mount.value("subPath", "");
        require(!sub_path.starts_with("/") && sub_path.find("..") == sub_path.npos,
                at + ".volumeMounts.subPath", "Invalid value: must be a relative path without '..'");
      }
      for (const json& variable : container.value("env", json::array())) {
        require(!variable.value("name", "").empty(), at + ".env.name", "Required value");
        require(variable.value("name", "").find('=') == std::string::npos, at + ".env.name", "Invalid value");
        require(!variable.contains("valueFrom") || text_of(variable, {"value"}).empty(),
                at + ".env.valueFrom", "Invalid value: may not be specified when `value` is not empty");
      }
    }
  }

  void pod_spec(const json& spec, const std::string& path) {
    if (require(!at_path(spec, {"containers"}).empty(), path + ".containers", "Required value")) {
      containers(spec, path, "containers");
      require(spec.at("containers").size() == 1, path + ".containers",
              "Unsupported: a pod of the local cluster is one process, it cannot have several containers");
    }
    containers(spec, path, "initContainers");
    require(spec.value("initContainers", json::array()).empty(), path + ".initContainers",
            "Unsupported: a pod of the local cluster is one process, it cannot have init containers");
    const std::string restart = spec.value("restartPolicy", "");
    if (require(!restart.empty(), path + ".restartPolicy",
                "Required value: valid values: \"OnFailure\", \"Never\""))
      require(restart == "Never", path + ".restartPolicy",
              "Unsupported value: \"" + restart + "\": the local cluster knows \"Never\" alone");
    if (spec.contains("activeDeadlineSeconds")) {
      const auto seconds = spec.at("activeDeadlineSeconds").get<long long>();
      require(seconds >= 1 && seconds <= std::numeric_limits<int>::max(), path + ".activeDeadlineSeconds",
              "Invalid value: " + std::to_string(seconds) + ": must be between 1 and 2147483647, inclusive");
    }
    const std::string host = spec.value("hostname", ""), subdomain = spec.value("subdomain", "");
    require(host.empty() || is_label(host), path + ".hostname", "Invalid value: \"" + host + "\"");
    require(subdomain.empty() || is_label(subdomain), path + ".subdomain",
            "Invalid value: \"" + subdomain + "\"");
  }

  void job(const json& spec) {
    for (const char* field : {"parallelism", "completions", "backoffLimit", "backoffLimitPerIndex",
                              "maxFailedIndexes", "ttlSecondsAfterFinished", "activeDeadlineSeconds"}) {
      not_negative(spec, field);
    }
    require(spec.at("completionMode") == "Indexed", "spec.completionMode",
            "Unsupported value: " + spec.at("completionMode").dump() +
                ": the local cluster knows \"Indexed\" alone");
    const int completions = spec.at("completions").get<int>();
    require(completions <= 100000, "spec.completions", "Invalid value: must be at most 100000");
    require(spec.at("parallelism").get<int>() <= 100000, "spec.parallelism",
            "Invalid value: must be at most 100000");
    const json none = json::object(), &of_pods = at_path(spec, {"template", "spec"});
    pod_spec(of_pods.is_object() ? of_pods : none, "spec.template.spec");
    const std::string last = name_ + "-" + std::to_string(completions > 0 ? completions - 1 : 0);
    require(is_label(last), "metadata.name",
            "Invalid value: will not able to create pod with invalid DNS label: " + last);
    require(!spec.contains("maxFailedIndexes") || spec.contains("backoffLimitPerIndex"),
            "spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified");
    failure_policy(spec);
    for (const json& rule : spec.value("/successPolicy/rules"_json_pointer, json::array())) {
      require(rule.contains("succeededCount") || rule.contains("succeededIndexes"),
              "spec.successPolicy.rules",
              "Required value: at least one of succeededCount or succeededIndexes must be specified");
      require(!rule.contains("succeededCount") || rule.at("succeededCount").get<long long>() > 0,
              "spec.successPolicy.rules.succeededCount", "Invalid value: must be greater than zero");
      require(!rule.contains("succeededIndexes") ||
                  Indexes::parse(rule.at("succeededIndexes").get<std::string>()).has_value(),
              "spec.successPolicy.rules.succeededIndexes", "Invalid value: error parsing succeededIndexes");
    }
  }

 private:
  void failure_policy(const json& spec) {
    if (!spec.contains("podFailurePolicy")) return;
    require(spec.value("podReplacementPolicy", "") == "Failed", "spec.podReplacementPolicy",
            "Unsupported value: only Failed is allowed with podFailurePolicy");
    const std::string field = "spec.podFailurePolicy.rules";
    for (const json& rule : spec.at("podFailurePolicy").value("rules", json::array())) {
      const std::string action = rule.value("action", "");
      require(action == "FailJob" || action == "FailIndex" || action == "Ignore" || action == "Count",
              field + ".action", "Unsupported value: \"" + action + "\"");
      require(action != "FailIndex" || spec.contains("backoffLimitPerIndex"), field + ".action",
              "Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set");
      require(rule.contains("onExitCodes") != rule.contains("onPodConditions"), field,
              "Invalid value: specifying one of OnExitCodes and OnPodConditions is required");
      if (!rule.contains("onExitCodes")) continue;
      const json& codes = rule.at("onExitCodes");
      const std::string op = codes.value("operator", "");
      require(op == "In" || op == "NotIn", field + ".onExitCodes.operator",
              "Unsupported value: \"" + op + "\"");
      require(!codes.value("values", json::array()).empty(), field + ".onExitCodes.values",
              "Invalid value: at least one value is required");
      for (const json& value : at_path(codes, {"values"})) {
        require(op != "In" || value != 0, field + ".onExitCodes.values",
                "Invalid value: 0: must not be 0 for the In operator");
      }
    }
  }

  const Kind& kind_;
  const std::string name_;
  std::vector<Cause> causes_;
};

}  // namespace

void set_defaults(const Kind& kind, json& object) {
  if (kind.kind == "Pod" && object.contains("spec")) {
    default_pod_spec(object["spec"]);
    put_if_missing(object["spec"], "enableServiceLinks", true);
    put_if_missing(object["spec"], "serviceAccountName", "default");
  } else if (kind.kind == "Job") {
    put_if_missing(object, "spec", json::object());
    default_job(object);
  } else if (kind.kind == "Service" && object.contains("spec")) {
    json& spec = object["spec"];
    put_if_missing(spec, "type", "ClusterIP");
    put_if_missing(spec, "sessionAffinity", "None");
    put_if_missing(spec, "clusterIP", "None");
    put_if_missing(spec, "clusterIPs", json::array({spec.at("clusterIP")}));
    if (spec.contains("ports")) {
      for (json& port : spec["ports"]) {
        put_if_missing(port, "protocol", "TCP");
        const json target = port.value("targetPort", json());
        const bool is_empty_name = target.is_string() && target.get_ref<const std::string&>().empty();
        if (target.is_null() || target == 0 || is_empty_name) port["targetPort"] = port.value("port", 0);
      }
    }
    put_if_missing(object, "status", {{"loadBalancer", json::object()}});
  } else if (kind.kind == "Secret") {
    put_if_missing(object, "type", "Opaque");
    const json plain = object.value("stringData", json::object());
    for (const auto& [key, value] : plain.items())
      object["data"][key] = base64_encode(value.get<std::string>());
    object.erase("stringData");
  } else if (kind.kind == "Namespace") {
    put_if_missing(object, "status", {{"phase", "Active"}});
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = object.at("metadata").at("name");
  }
}

void check_rules(const Kind& kind, const json& object) {
  Rules rules(kind, object);
  const json& spec = at_path(object, {"spec"});
  const bool needs_spec = kind.kind == "Pod" || kind.kind == "Job" || kind.kind == "Service";
  if (!needs_spec) return;
  if (rules.require(spec.is_object(), "spec", "Required value")) {
    if (kind.kind == "Pod") rules.pod_spec(spec, "spec");
    if (kind.kind == "Job") rules.job(spec);
    if (kind.kind == "Service") {
      rules.require(spec.at("clusterIP") == "None", "spec.clusterIP",
                    "Unsupported value: the local cluster knows headless services alone (clusterIP: None)");
    }
  }
  rules.finish();
}

}  // namespace mlk::local
