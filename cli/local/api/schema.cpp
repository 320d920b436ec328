#include "cli/local/api/schema.h"

#include <map>
#include <sstream>

#include "cli/local/state/status.h"

namespace mlk::local {
namespace {

// One type per line: "Name: field=type ...". Types: s string, i integer, b boolean, q quantity (number or
// text), * anything, [T] list of T, {T} map of T, otherwise the name of another line. A field without a type
// is a string.
constexpr char schema_text[] = R"(
ObjectMeta: name generateName namespace uid resourceVersion generation=i creationTimestamp=* deletionTimestamp=* deletionGracePeriodSeconds=i labels={s} annotations={s} ownerReferences=[OwnerReference] finalizers=[s] managedFields=* selfLink
OwnerReference: apiVersion kind name uid controller=b blockOwnerDeletion=b
ConfigMap: data={s} binaryData={s} immutable=b
Secret: data={s} stringData={s} immutable=b type
Namespace: spec=* status=*
ServiceAccount: secrets=* imagePullSecrets=* automountServiceAccountToken=b
Node: spec=* status=*
Event: involvedObject=* reason message source=* firstTimestamp=* lastTimestamp=* count=i type eventTime=* series=* action related=* reportingComponent reportingInstance
Lease: spec=LeaseSpec
LeaseSpec: holderIdentity leaseDurationSeconds=i acquireTime=* renewTime=* leaseTransitions=i strategy preferredHolder
Service: spec=ServiceSpec status=*
ServiceSpec: ports=[ServicePort] selector={s} clusterIP clusterIPs=[s] type externalIPs=[s] sessionAffinity loadBalancerIP loadBalancerSourceRanges=[s] externalName externalTrafficPolicy healthCheckNodePort=i publishNotReadyAddresses=b sessionAffinityConfig=* ipFamilies=[s] ipFamilyPolicy allocateLoadBalancerNodePorts=b loadBalancerClass internalTrafficPolicy trafficDistribution
ServicePort: name protocol appProtocol port=i targetPort=q nodePort=i
Job: spec=JobSpec status=*
JobSpec: parallelism=i completions=i activeDeadlineSeconds=i podFailurePolicy=PodFailurePolicy successPolicy=SuccessPolicy backoffLimit=i backoffLimitPerIndex=i maxFailedIndexes=i selector=LabelSelector manualSelector=b template=PodTemplateSpec ttlSecondsAfterFinished=i completionMode suspend=b podReplacementPolicy managedBy
PodFailurePolicy: rules=[PodFailurePolicyRule]
PodFailurePolicyRule: action onExitCodes=OnExitCodes onPodConditions=[OnPodCondition]
OnExitCodes: containerName operator values=[i]
OnPodCondition: type status
SuccessPolicy: rules=[SuccessPolicyRule]
SuccessPolicyRule: succeededIndexes succeededCount=i
LabelSelector: matchLabels={s} matchExpressions=[LabelSelectorRequirement]
LabelSelectorRequirement: key operator values=[s]
PodTemplateSpec: metadata=ObjectMeta spec=PodSpec
Pod: spec=PodSpec status=*
PodSpec: activeDeadlineSeconds=i affinity=Affinity automountServiceAccountToken=b containers=[Container] dnsConfig=* dnsPolicy enableServiceLinks=b ephemeralContainers=* hostAliases=* hostIPC=b hostNetwork=b hostPID=b hostUsers=b hostname hostnameOverride imagePullSecrets=[LocalObjectReference] initContainers=[Container] nodeName nodeSelector={s} os=* overhead={q} preemptionPolicy priority=i priorityClassName readinessGates=* resourceClaims=* resources=Resources restartPolicy runtimeClassName schedulerName schedulingGates=[SchedulingGate] securityContext=PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN=b shareProcessNamespace=b subdomain terminationGracePeriodSeconds=i tolerations=[Toleration] topologySpreadConstraints=[TopologySpreadConstraint] volumes=[Volume]
SchedulingGate: name
LocalObjectReference: name
Toleration: key operator value effect tolerationSeconds=i
TopologySpreadConstraint: maxSkew=i topologyKey whenUnsatisfiable labelSelector=LabelSelector minDomains=i nodeAffinityPolicy nodeTaintsPolicy matchLabelKeys=[s]
Affinity: nodeAffinity=* podAffinity=* podAntiAffinity=*
PodSecurityContext: seLinuxOptions=* windowsOptions=* runAsUser=i runAsGroup=i runAsNonRoot=b supplementalGroups=[i] supplementalGroupsPolicy fsGroup=i sysctls=* fsGroupChangePolicy seccompProfile=SeccompProfile appArmorProfile=* seLinuxChangePolicy
SecurityContext: capabilities=Capabilities privileged=b seLinuxOptions=* windowsOptions=* runAsUser=i runAsGroup=i runAsNonRoot=b readOnlyRootFilesystem=b allowPrivilegeEscalation=b procMount seccompProfile=SeccompProfile appArmorProfile=*
SeccompProfile: type localhostProfile
Capabilities: add=[s] drop=[s]
Container: name image command=[s] args=[s] workingDir ports=[ContainerPort] envFrom=[EnvFrom] env=[EnvVar] resources=Resources resizePolicy=* restartPolicy restartPolicyRules=* volumeMounts=[VolumeMount] volumeDevices=* livenessProbe=* readinessProbe=* startupProbe=* lifecycle=* terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext=SecurityContext stdin=b stdinOnce=b tty=b
ContainerPort: name hostPort=i containerPort=i protocol hostIP
EnvFrom: prefix configMapRef=OptionalReference secretRef=OptionalReference
OptionalReference: name optional=b
EnvVar: name value valueFrom=EnvVarSource
EnvVarSource: fieldRef=FieldRef resourceFieldRef=ResourceFieldRef configMapKeyRef=KeyRef secretKeyRef=KeyRef fileKeyRef=*
FieldRef: apiVersion fieldPath
ResourceFieldRef: containerName resource divisor=q
KeyRef: name key optional=b
Resources: limits={q} requests={q} claims=*
VolumeMount: name readOnly=b recursiveReadOnly mountPath subPath mountPropagation subPathExpr
Volume: name hostPath=HostPath emptyDir=EmptyDir secret=SecretVolume nfs=Nfs persistentVolumeClaim=Claim configMap=ConfigMapVolume downwardAPI=* projected=* csi=* ephemeral=* image=* iscsi=* fc=* cephfs=* rbd=* glusterfs=* awsElasticBlockStore=* gcePersistentDisk=* azureDisk=* azureFile=* flexVolume=* gitRepo=* cinder=* flocker=* vsphereVolume=* quobyte=* photonPersistentDisk=* portworxVolume=* scaleIO=* storageos=*
HostPath: path type
EmptyDir: medium sizeLimit=q
Nfs: server path readOnly=b
Claim: claimName readOnly=b
SecretVolume: secretName items=[KeyToPath] defaultMode=i optional=b
ConfigMapVolume: name items=[KeyToPath] defaultMode=i optional=b
KeyToPath: key path mode=i
)";

using Fields = std::map<std::string, std::string>;
using Schema = std::map<std::string, Fields>;

Schema parse_schema() {
  Schema schema;
  std::istringstream lines(schema_text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string type, field;
    if (!(words >> type)) continue;
    type.pop_back();  // the colon
    while (words >> field) {
      const auto at = field.find('=');
      schema[type][field.substr(0, at)] = at == field.npos ? "s" : field.substr(at + 1);
    }
  }
  return schema;
}

const Schema& schema() {
  static const Schema parsed = parse_schema();
  return parsed;
}

class Pruner {
 public:
  explicit Pruner(const Kind& kind) : kind_(kind) {}

  void prune_fields(const std::string& type, json& object, const std::string& path) {
    const Fields& fields = schema().at(type);
    for (auto at = object.begin(); at != object.end();) {
      const std::string field = path.empty() ? at.key() : path + "." + at.key();
      std::string field_type;
      if (path.empty() && (at.key() == "apiVersion" || at.key() == "kind")) {
        field_type = "s";
      } else if (path.empty() && at.key() == "metadata") {
        field_type = "ObjectMeta";
      } else if (const auto known = fields.find(at.key()); known != fields.end()) {
        field_type = known->second;
      }
      if (field_type.empty()) {
        unknown.push_back(field);
        at = object.erase(at);
      } else if (at->is_null()) {
        at = object.erase(at);  // null means that the field is absent
      } else {
        check(field_type, *at, field);
        ++at;
      }
    }
  }

  std::vector<std::string> unknown;

 private:
  void check(const std::string& type, json& value, const std::string& path) {
    if (type == "*") return;
    if (type == "s") return expect(value.is_string(), value, path, "string");
    if (type == "b") return expect(value.is_boolean(), value, path, "bool");
    if (type == "i") return expect(value.is_number_integer(), value, path, "int32");
    if (type == "q") return expect(value.is_string() || value.is_number(), value, path, "Quantity");
    const std::string inner = type.substr(1, type.size() - 2);
    if (type.front() == '[') {
      expect(value.is_array(), value, path, "[]" + inner);
      for (std::size_t i = 0; i < value.size(); ++i)
        check(inner, value[i], path + "[" + std::to_string(i) + "]");
    } else if (type.front() == '{') {
      expect(value.is_object(), value, path, "map[string]" + inner);
      for (auto& [key, element] : value.items()) check(inner, element, path + "." + key);
    } else {
      expect(value.is_object(), value, path, type);
      prune_fields(type, value, path);
    }
  }

  void expect(bool good, const json& value, const std::string& path, const std::string& type) const {
    if (good) return;
    throw bad_request(kind_.kind + " in version \"" + kind_.version + "\" cannot be handled as a " +
                      kind_.kind + ": json: cannot unmarshal " + value.type_name() + " into field " + path +
                      " of type " + type);
  }

  const Kind& kind_;
};

}  // namespace

std::vector<std::string> prune_unknown_fields(const Kind& kind, json& object) {
  Pruner pruner(kind);
  pruner.prune_fields(kind.kind, object, "");
  return pruner.unknown;
}

}  // namespace mlk::local
