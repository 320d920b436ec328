// The fields that objects may have: the schema has all of them, and accepts only values of their types.
#include "cli/local/api/schema.h"

#include <doctest/doctest.h>

#include "cli/local/state/status.h"

TEST_SUITE_BEGIN("local/api/schema");

namespace mlk::local {
namespace {

using namespace nlohmann::literals;

// In the objects below a text that begins with "*" represents a field that accepts any value, and "1Gi" a
// field that accepts numbers and texts.
const json whole_metadata = R"({
  "name": "", "generateName": "", "namespace": "", "uid": "", "resourceVersion": "", "generation": 1,
  "creationTimestamp": "*", "deletionTimestamp": "*", "deletionGracePeriodSeconds": 1, "labels": {"a": ""},
  "annotations": {"a": ""}, "finalizers": [""], "managedFields": "*", "selfLink": "",
  "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "", "controller": true,
                       "blockOwnerDeletion": true}]})"_json;

const json whole_resources = R"({"limits": {"cpu": "1Gi"}, "requests": {"cpu": "1Gi"}, "claims": "*"})"_json;

const json whole_container = R"({
  "name": "", "image": "", "command": [""], "args": [""], "workingDir": "", "restartPolicy": "",
  "resizePolicy": "*", "restartPolicyRules": "*", "livenessProbe": "*", "readinessProbe": "*",
  "startupProbe": "*", "lifecycle": "*", "volumeDevices": "*", "terminationMessagePath": "",
  "terminationMessagePolicy": "", "imagePullPolicy": "", "stdin": true, "stdinOnce": true, "tty": true,
  "ports": [{"name": "", "hostPort": 1, "containerPort": 1, "protocol": "", "hostIP": ""}],
  "envFrom": [{"prefix": "", "configMapRef": {"name": "", "optional": true},
               "secretRef": {"name": "", "optional": true}}],
  "env": [{"name": "", "value": "", "valueFrom": {
    "fieldRef": {"apiVersion": "", "fieldPath": ""},
    "resourceFieldRef": {"containerName": "", "resource": "", "divisor": "1Gi"},
    "configMapKeyRef": {"name": "", "key": "", "optional": true},
    "secretKeyRef": {"name": "", "key": "", "optional": true}, "fileKeyRef": "*"}}],
  "volumeMounts": [{"name": "", "readOnly": true, "recursiveReadOnly": "", "mountPath": "", "subPath": "",
                    "mountPropagation": "", "subPathExpr": ""}],
  "securityContext": {
    "capabilities": {"add": [""], "drop": [""]}, "privileged": true, "seLinuxOptions": "*",
    "windowsOptions": "*", "runAsUser": 1, "runAsGroup": 1, "runAsNonRoot": true,
    "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": true, "procMount": "",
    "seccompProfile": {"type": "", "localhostProfile": ""}, "appArmorProfile": "*"}})"_json;

const json whole_selector = R"({"matchLabels": {"a": ""},
  "matchExpressions": [{"key": "", "operator": "", "values": [""]}]})"_json;

json whole_volume() {
  json volume = R"({
    "name": "", "hostPath": {"path": "", "type": ""}, "emptyDir": {"medium": "", "sizeLimit": "1Gi"},
    "secret": {"secretName": "", "items": [{"key": "", "path": "", "mode": 1}], "defaultMode": 1,
               "optional": true},
    "nfs": {"server": "", "path": "", "readOnly": true},
    "persistentVolumeClaim": {"claimName": "", "readOnly": true},
    "configMap": {"name": "", "items": [{"key": "", "path": "", "mode": 1}], "defaultMode": 1,
                  "optional": true}})"_json;
  for (const char* other : {"downwardAPI",
                            "projected",
                            "csi",
                            "ephemeral",
                            "image",
                            "iscsi",
                            "fc",
                            "cephfs",
                            "rbd",
                            "glusterfs",
                            "awsElasticBlockStore",
                            "gcePersistentDisk",
                            "azureDisk",
                            "azureFile",
                            "flexVolume",
                            "gitRepo",
                            "cinder",
                            "flocker",
                            "vsphereVolume",
                            "quobyte",
                            "photonPersistentDisk",
                            "portworxVolume",
                            "scaleIO",
                            "storageos"})
    volume[other] = "*";
  return volume;
}

json whole_pod_spec() {
  json spec = R"({
    "activeDeadlineSeconds": 1, "automountServiceAccountToken": true, "dnsConfig": "*", "dnsPolicy": "",
    "affinity": {"nodeAffinity": "*", "podAffinity": "*", "podAntiAffinity": "*"},
    "enableServiceLinks": true, "ephemeralContainers": "*", "hostAliases": "*", "hostIPC": true,
    "hostNetwork": true, "hostPID": true, "hostUsers": true, "hostname": "", "hostnameOverride": "",
    "imagePullSecrets": [{"name": ""}], "nodeName": "", "nodeSelector": {"a": ""}, "os": "*",
    "overhead": {"cpu": "1Gi"}, "preemptionPolicy": "", "priority": 1, "priorityClassName": "",
    "readinessGates": "*", "resourceClaims": "*", "restartPolicy": "", "runtimeClassName": "",
    "schedulerName": "", "schedulingGates": [{"name": ""}], "serviceAccount": "", "serviceAccountName": "",
    "setHostnameAsFQDN": true, "shareProcessNamespace": true, "subdomain": "",
    "terminationGracePeriodSeconds": 1,
    "tolerations": [{"key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": 1}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "",
      "minDomains": 1, "nodeAffinityPolicy": "", "nodeTaintsPolicy": "", "matchLabelKeys": [""]}],
    "securityContext": {"seLinuxOptions": "*", "windowsOptions": "*", "runAsUser": 1, "runAsGroup": 1,
      "runAsNonRoot": true, "supplementalGroups": [1], "supplementalGroupsPolicy": "", "fsGroup": 1,
      "sysctls": "*", "fsGroupChangePolicy": "", "seccompProfile": {"type": "", "localhostProfile": ""},
      "appArmorProfile": "*", "seLinuxChangePolicy": ""}})"_json;
  json container = whole_container;
  container["resources"] = whole_resources;
  spec["containers"] = json::array({container});
  spec["initContainers"] = json::array({container});
  spec["resources"] = whole_resources;
  spec["volumes"] = json::array({whole_volume()});
  spec["topologySpreadConstraints"][0]["labelSelector"] = whole_selector;
  return spec;
}

json whole_object(const std::string& kind) {
  json object;
  if (kind == "ConfigMap") object = R"({"data": {"a": ""}, "binaryData": {"a": ""}, "immutable": true})"_json;
  if (kind == "Secret")
    object = R"({"data": {"a": ""}, "stringData": {"a": ""}, "immutable": true, "type": ""})"_json;
  if (kind == "Namespace" || kind == "Node") object = R"({"spec": "*", "status": "*"})"_json;
  if (kind == "ServiceAccount")
    object = R"({"secrets": "*", "imagePullSecrets": "*", "automountServiceAccountToken": true})"_json;
  if (kind == "Event")
    object = R"({"involvedObject": "*", "reason": "", "message": "", "source": "*", "firstTimestamp": "*",
      "lastTimestamp": "*", "count": 1, "type": "", "eventTime": "*", "series": "*", "action": "",
      "related": "*", "reportingComponent": "", "reportingInstance": ""})"_json;
  if (kind == "Lease")
    object = R"({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": "*",
      "renewTime": "*", "leaseTransitions": 1, "strategy": "", "preferredHolder": ""}})"_json;
  if (kind == "Service")
    object = R"({"status": "*", "spec": {
      "ports": [{"name": "", "protocol": "", "appProtocol": "", "port": 1, "targetPort": "1Gi",
                 "nodePort": 1}],
      "selector": {"a": ""}, "clusterIP": "", "clusterIPs": [""], "type": "", "externalIPs": [""],
      "sessionAffinity": "", "loadBalancerIP": "", "loadBalancerSourceRanges": [""], "externalName": "",
      "externalTrafficPolicy": "", "healthCheckNodePort": 1, "publishNotReadyAddresses": true,
      "sessionAffinityConfig": "*", "ipFamilies": [""], "ipFamilyPolicy": "",
      "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "", "internalTrafficPolicy": "",
      "trafficDistribution": ""}})"_json;
  if (kind == "Pod") object = {{"status", "*"}, {"spec", whole_pod_spec()}};
  if (kind == "Job") {
    object = R"({"status": "*", "spec": {
      "parallelism": 1, "completions": 1, "activeDeadlineSeconds": 1, "backoffLimit": 1,
      "backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "manualSelector": true, "ttlSecondsAfterFinished": 1,
      "completionMode": "", "suspend": true, "podReplacementPolicy": "", "managedBy": "",
      "podFailurePolicy": {"rules": [{"action": "", "onPodConditions": [{"type": "", "status": ""}],
        "onExitCodes": {"containerName": "", "operator": "", "values": [1]}}]},
      "successPolicy": {"rules": [{"succeededIndexes": "", "succeededCount": 1}]}}})"_json;
    object["spec"]["selector"] = whole_selector;
    object["spec"]["template"] = {{"metadata", whole_metadata}, {"spec", whole_pod_spec()}};
  }
  object["apiVersion"] = "";
  object["kind"] = "";
  object["metadata"] = whole_metadata;
  return object;
}

std::string refused_fields(const Kind& kind, json object) {
  try {
    const json before = object;
    if (!prune_unknown_fields(kind, object).empty() || object != before) return "pruned";
  } catch (const StatusError& refusal) {
    return std::to_string(refusal.code()) + " " + refusal.what();
  }
  return "taken";
}

// Replaces the value at each place of the object by other values, one at a time.
void check_types(const Kind& kind, const json& object, const json::json_pointer& at,
                 const std::string& path) {
  const json& value = object.at(at);
  const auto with = [&](const json& other) {
    json changed = object;
    changed[at] = other;
    return refused_fields(kind, changed);
  };
  const auto refuses = [&](const json& other, const std::string& type) {
    const std::string start = "400 " + kind.kind + " in version \"" + kind.version +
                              "\" cannot be handled as a " + kind.kind + ": json: cannot unmarshal " +
                              other.type_name() + " into field " + path + " of type ";
    const std::string said = with(other);
    CHECK_MESSAGE((type.empty() ? said.starts_with(start) : said == start + type), said);
  };
  if (value == "*") {
    for (const json& any : {json("x"), json(1), json(true), json::array(), json::object()})
      CHECK_MESSAGE(with(any) == "taken", path);
  } else if (value == "1Gi") {
    for (const json& quantity : {json("x"), json(1), json(0.5)})
      CHECK_MESSAGE(with(quantity) == "taken", path);
    refuses(true, "Quantity");
    refuses(json::array(), "Quantity");
  } else if (value.is_string()) {
    refuses(1, "string");
    refuses(json::object(), "string");
  } else if (value.is_boolean()) {
    refuses("true", "bool");
    refuses(1, "bool");
  } else if (value.is_number()) {
    refuses("1", "int32");
    refuses(1.5, "int32");
  } else if (value.is_array()) {
    refuses("x", "");
    refuses(json::object(), "");
    check_types(kind, object, at / 0, path + "[0]");
  } else {
    if (!path.empty()) refuses("x", "");
    if (!path.empty()) refuses(json::array(), "");
    for (const auto& [key, element] : value.items())
      check_types(kind, object, at / key, path.empty() ? key : path + "." + key);
  }
}

TEST_CASE("the schema knows every field of every kind, and refuses values of the wrong type") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.kind);
    const json object = whole_object(kind.kind);
    CHECK(refused_fields(kind, object) == "taken");
    if (kind.kind != "Job") check_types(kind, object, json::json_pointer(), "");
  }
  // Checks only the fields of a Job that pods do not have, since the pods of a Job are checked above.
  json object = whole_object("Job");
  object["spec"]["template"] = R"({"metadata": {"name": ""}, "spec": {"nodeName": ""}})"_json;
  check_types(kind_of("jobs"), object, json::json_pointer(), "");
}

TEST_CASE("a value of the wrong type is reported with its field and the type that the field needs") {
  const auto refused = [](const char* plural, const json& object) {
    return refused_fields(kind_of(plural), object);
  };
  const std::string start = "400 Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal ";
  CHECK(refused("pods", R"({"spec": {"containers": {}}})"_json) ==
        start + "object into field spec.containers of type []Container");
  CHECK(refused("pods", R"({"spec": {"nodeSelector": []}})"_json) ==
        start + "array into field spec.nodeSelector of type map[string]s");
  CHECK(refused("pods", R"({"spec": []})"_json) == start + "array into field spec of type PodSpec");
  CHECK(refused("pods", R"({"metadata": 1})"_json) ==
        start + "number into field metadata of type ObjectMeta");
  CHECK(refused("pods", R"({"spec": {"containers": [{"name": "a"}, {"name": 1}]}})"_json) ==
        start + "number into field spec.containers[1].name of type string");
}

TEST_CASE(
    "prune_unknown_fields() removes unknown fields and nulls, and returns the paths of the unknown fields") {
  json pod = R"({"x": 1, "kind": "Pod", "spec": {"hostname": null, "y": {}, "apiVersion": "v1", "kind": "a",
    "metadata": {}, "containers": [{"name": "a"}, {"comand": [], "env": [{"name": "A", "z": 1}]}],
    "nodeSelector": {"any": "b"}}, "status": {"anything": {"goes": 1}}, "metadata": {"labels": {"l": "1"},
    "label": {}}, "apiVersion": null, "w": null})"_json;
  CHECK(prune_unknown_fields(kind_of("pods"), pod) ==
        std::vector<std::string>{"metadata.label", "spec.apiVersion", "spec.containers[1].comand",
                                 "spec.containers[1].env[0].z", "spec.kind", "spec.metadata", "spec.y", "w",
                                 "x"});
  CHECK(pod == R"({"kind": "Pod", "spec": {"containers": [{"name": "a"}, {"env": [{"name": "A"}]}],
    "nodeSelector": {"any": "b"}}, "status": {"anything": {"goes": 1}},
    "metadata": {"labels": {"l": "1"}}})"_json);
  json job = R"({"spec": {"template": {"kind": "x", "metadata": {"kind": "y"}}}})"_json;
  CHECK(prune_unknown_fields(kind_of("jobs"), job) ==
        std::vector<std::string>{"spec.template.kind", "spec.template.metadata.kind"});
  json nothing = json::object();
  CHECK(prune_unknown_fields(kind_of("jobs"), nothing).empty());
  CHECK(nothing == json::object());
}

}  // namespace
}  // namespace mlk::local
