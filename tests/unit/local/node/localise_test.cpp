// A pod as a local process.
#include "cli/local/node/localise.h"

#include <doctest/doctest.h>

#include "cli/local/node/pod_values.h"
#include "cli/util/quantity.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/localise");

using namespace mlk::local;
using mlk::parse_quantity;
using mlk::local::samples::json;

namespace {

struct Place {
  std::map<std::string, json> objects = {
      {"configmaps/config", {{"kind", "ConfigMap"}, {"data", {{"config.json", "{}"}, {"other", "x"}}}}},
      {"secrets/key", {{"kind", "Secret"}, {"data", {{"key", "c2VjcmV0"}}}}}};
  std::map<std::string, std::string> volumes;

  PodContext file_context() {
    PodContext around;
    around.pod_folder = "/state/pods/u1";
    around.claims = "/state/claims";
    around.volumes = volumes;
    around.services = {"run"};
    around.inherited = {{"PATH", "/bin"}, {"HOME", "/home/me"}};
    around.find = [this](const std::string& plural, const std::string& name) -> const json* {
      const auto found = objects.find(plural + "/" + name);
      return found == objects.end() ? nullptr : &found->second;
    };
    around.address_of = [](const std::string& host) { return "<" + host + ">"; };
    return around;
  }
};

json pod_with(const json& container, const json& spec = json::object()) {
  json pod = {{"metadata",
               {{"name", "run-worker-1-abcde"},
                {"namespace", "default"},
                {"uid", "u1"},
                {"labels", {{"l", "label"}}},
                {"annotations", {{"batch.kubernetes.io/job-completion-index", "1"}}}}},
              {"spec",
               {{"hostname", "run-worker-1"},
                {"subdomain", "run"},
                {"containers", json::array({{{"name", "main"}, {"command", {"prog"}}}})}}}};
  if (container.is_object()) pod["spec"]["containers"][0].merge_patch(container);
  pod["spec"].merge_patch(spec);
  return pod;
}

std::string env_of(const Process& process, const std::string& name) {
  for (const auto& [key, value] : process.env) {
    if (key == name) return value;
  }
  return "(none)";
}

std::string obstacle(const json& pod, Place place = {}) {
  try {
    localise(pod, place.file_context());
  } catch (const WaitingReason& caught) {
    return caught.reason() + ": " + caught.what();
  }
  return "";
}

json field(const std::string& path) { return {{"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}}; }

json named(const std::string& name, json variable) {
  variable["name"] = name;
  return variable;
}

}  // namespace

TEST_CASE("peer names in every form of DNS are replaced by addresses") {
  const auto replace = [](const std::string& text) {
    return replace_peers(text, "default", {"run"}, [](const std::string& host) { return "<" + host + ">"; });
  };
  CHECK(replace("w-0.run") == "<w-0>");
  CHECK(replace("w-0.run:7070") == "<w-0>:7070");
  CHECK(replace("w-0.run:1,w-11.run:1") == "<w-0>:1,<w-11>:1");
  CHECK(replace("w-0.run.default") == "<w-0>");
  CHECK(replace("w-0.run.default.svc") == "<w-0>");
  CHECK(replace("tcp://w-0.run.default.svc.cluster.local:80/x") == "tcp://<w-0>:80/x");
  CHECK(replace("{\"worker\":[\"w-0.run:1\"]}") == "{\"worker\":[\"<w-0>:1\"]}");
}

TEST_CASE("a text that resembles a peer name is not changed") {
  const auto replace = [](const std::string& text) {
    return replace_peers(text, "default", {"run"}, [](const std::string&) { return "wrong"; });
  };
  for (const std::string text : {"w-0.other", "w-0.run.elsewhere", "model.run", "w-0", "run",
                                 "w-0.run.default.svc.cluster", "-0.run", "W-0.runner", ""}) {
    CHECK(replace(text) == text);
  }
}

TEST_CASE("replace_peers() replaces the port after the name of a peer by the peer's real port") {
  const auto local = [](const std::string& text) {
    return replace_peers(
        text, "default", {"run"}, [](const std::string&) { return "127.64.0.1"; },
        [](const std::string& service, const std::string& host, int port) {
          return service == "run" && host == "run-worker-0" ? port + 1 : port;
        });
  };
  CHECK(local("run-worker-0.run:7070,run-worker-1.run:7070") == "127.64.0.1:7071,127.64.0.1:7070");
  CHECK(local("http://run-worker-0.run.default.svc:80/x") == "http://127.64.0.1:81/x");
  CHECK(local("run-worker-0.run:name") == "127.64.0.1:name");
  CHECK(local("run-worker-0.run:123456") == "127.64.0.1:123456");
  CHECK(local("run-worker-0.run:") == "127.64.0.1:");
  CHECK(local("elsewhere.example:7070") == "elsewhere.example:7070");
}

TEST_CASE("if a path lies in several mounts, replace_paths() replaces the longest mount path") {
  const std::map<std::string, std::string> mounts = {
      {"/data", "/real/data"}, {"/data/mnist", "/real/mnist"}, {"/dev/termination-log", "/pod/message"}};
  const auto replace = [&](const std::string& text) { return replace_paths(text, mounts); };
  CHECK(replace("/data") == "/real/data");
  CHECK(replace("/data/x") == "/real/data/x");
  CHECK(replace("/data/mnist/train") == "/real/mnist/train");
  CHECK(replace("/data/mnist2") == "/real/data/mnist2");
  CHECK(replace("/database") == "/database");
  CHECK(replace("--in=/data:/data/mnist") == "--in=/real/data:/real/mnist");
  CHECK(replace("/home/data/x") == "/home/data/x");
  CHECK(replace("file:///data/x") == "file:///real/data/x");
  CHECK(replace("{\"p\":\"/data\"}") == "{\"p\":\"/real/data\"}");
  CHECK(replace("/dev/termination-log") == "/pod/message");
}

TEST_CASE("replace_paths() does not replace a path that it has inserted itself") {
  const std::map<std::string, std::string> mounts = {{"/tmp", "/state/tmp"}, {"/state", "/elsewhere"}};
  CHECK(replace_paths("/tmp/x", mounts) == "/state/tmp/x");
}

TEST_CASE("variables in a text are expanded as in Kubernetes") {
  const std::map<std::string, std::string> env = {{"A", "1"}, {"B", "$(A)"}};
  const struct {
    const char* text;
    const char* expanded;
  } table[] = {{"$(A)", "1"},     {"x$(A)y", "x1y"}, {"$(NONE)", "$(NONE)"},
               {"$$(A)", "$(A)"}, {"$(B)", "$(A)"},  {"$A", "$A"},
               {"$", "$"},        {"$$", "$"},       {"$(A", "$(A"},
               {"$(A)$(A)", "11"}};
  for (const auto& row : table) CHECK(expand_variables(row.text, env) == row.expanded);
}

TEST_CASE("a variable may use a field of its pod, a key of a ConfigMap or Secret, or a variable above it") {
  const json env = {
      named("RANK", field("metadata.annotations['batch.kubernetes.io/job-completion-index']")),
      named("LABEL", field("metadata.labels['l']")),
      named("UID", field("metadata.uid")),
      named("IP", field("status.podIP")),
      {{"name", "SELF"}, {"value", "run-worker-$(RANK).run:7070"}},
      {{"name", "FROM_MAP"}, {"valueFrom", {{"configMapKeyRef", {{"name", "config"}, {"key", "other"}}}}}},
      {{"name", "FROM_SECRET"}, {"valueFrom", {{"secretKeyRef", {{"name", "key"}, {"key", "key"}}}}}},
      {{"name", "ABSENT"},
       {"valueFrom", {{"secretKeyRef", {{"name", "none"}, {"key", "key"}, {"optional", true}}}}}}};
  Place place;
  const Process process = localise(
      pod_with({{"env", env}, {"args", {"--rank=$(RANK)", "run-worker-0.run:1"}}}), place.file_context());
  CHECK(env_of(process, "RANK") == "1");
  CHECK(env_of(process, "LABEL") == "label");
  CHECK(env_of(process, "UID") == "u1");
  CHECK(env_of(process, "IP") == "<run-worker-1>");
  CHECK(env_of(process, "SELF") == "<run-worker-1>:7070");
  CHECK(env_of(process, "FROM_MAP") == "x");
  CHECK(env_of(process, "FROM_SECRET") == "secret");
  CHECK(env_of(process, "ABSENT") == "(none)");
  CHECK(env_of(process, "HOME") == "/home/me");
  CHECK(env_of(process, "HOSTNAME") == "run-worker-1");
  CHECK(process.argv == std::vector<std::string>{"prog", "--rank=1", "<run-worker-0>:1"});
}

TEST_CASE("the port in X_PORT is replaced if X_ADDR or another variable X_... names a peer") {
  Place place;
  PodContext around = place.file_context();
  around.port_of = [](const std::string&, const std::string&, int port) { return port + 1; };
  const auto port_beside = [&](const std::string& host, const std::string& port) {
    const json env = {{{"name", "MASTER_PORT"}, {"value", port}}, {{"name", "MASTER_ADDR"}, {"value", host}}};
    return env_of(localise(pod_with({{"env", env}}), around), "MASTER_PORT");
  };
  CHECK(port_beside("run-worker-0.run", "7070") == "7071");
  CHECK(port_beside("db.example", "7070") == "7070");
  CHECK(port_beside("run-worker-0.run", "http") == "http");
  CHECK(port_beside("run-worker-0.run", "") == "");
  const auto port_of = [&](const json& env) {
    return env_of(localise(pod_with({{"env", env}}), around), "T_PORT");
  };
  const json port = {{"name", "T_PORT"}, {"value", "7070"}};
  const json peer = {{"name", "T_URI"}, {"value", "run-worker-0.run"}};
  CHECK(port_of({port, {{"name", "T_ID"}, {"value", "3"}}, peer}) == "7071");
  CHECK(port_of({port, {{"name", "TT_URI"}, {"value", "run-worker-0.run"}}}) == "7070");
  const json alone = {{{"name", "MASTER_PORT"}, {"value", "7070"}}};
  CHECK(env_of(localise(pod_with({{"env", alone}}), around), "MASTER_PORT") == "7070");
}

TEST_CASE("a value from a Secret stays unchanged even if it is the name of a peer") {
  Place place;
  place.objects["secrets/key"]["data"]["key"] = "cnVuLXdvcmtlci0wLnJ1bg==";  // run-worker-0.run
  const json env = {{{"name", "S"}, {"valueFrom", {{"secretKeyRef", {{"name", "key"}, {"key", "key"}}}}}}};
  CHECK(env_of(localise(pod_with({{"env", env}}), place.file_context()), "S") == "run-worker-0.run");
}

TEST_CASE("volumes become folders and files that only their owner can read") {
  const json spec = {
      {"volumes",
       {{{"name", "config"}, {"configMap", {{"name", "config"}, {"defaultMode", 0644}}}},
        {{"name", "key"},
         {"secret",
          {{"secretName", "key"}, {"items", {{{"key", "key"}, {"path", "sub/k"}, {"mode", 0400}}}}}}},
        {{"name", "scratch"}, {"emptyDir", json::object()}},
        {{"name", "host"}, {"hostPath", {{"path", "/srv/data"}}}},
        {{"name", "claim"}, {"persistentVolumeClaim", {{"claimName", "ckpt"}}}},
        {{"name", "given"}, {"persistentVolumeClaim", {{"claimName", "mine"}}}}}}};
  const json mounts = {{{"name", "config"}, {"mountPath", "/etc/mlk"}},
                       {{"name", "key"}, {"mountPath", "/etc/key/"}},
                       {{"name", "scratch"}, {"mountPath", "/scratch"}},
                       {{"name", "host"}, {"mountPath", "/data"}, {"subPath", "mnist"}},
                       {{"name", "claim"}, {"mountPath", "/ckpt"}},
                       {{"name", "given"}, {"mountPath", "/mine"}}};
  Place place;
  place.volumes = {{"mine", "/home/me/mine"}};
  const json container = {
      {"volumeMounts", mounts},
      {"workingDir", "/scratch/work"},
      {"args", {"/etc/mlk/config.json", "/etc/key/sub/k", "/data/t10k", "/ckpt/run", "/mine"}}};
  const Process process = localise(pod_with(container, spec), place.file_context());
  const std::vector<std::string> words(process.argv.begin() + 1, process.argv.end());
  CHECK(words == std::vector<std::string>{"/state/pods/u1/volumes/config/config.json",
                                          "/state/pods/u1/volumes/key/sub/k", "/srv/data/mnist/t10k",
                                          "/state/claims/default/ckpt/run", "/home/me/mine"});
  CHECK(process.working_folder == "/state/pods/u1/volumes/scratch/work");
  REQUIRE(process.files.size() == 3);
  CHECK(process.files[0].mode == 0600);
  CHECK(process.files[2].path == "/state/pods/u1/volumes/key/sub/k");
  CHECK(process.files[2].content == "secret");
  CHECK(process.files[2].mode == 0400);
}

TEST_CASE("a subPath becomes a folder of its volume, and may contain a variable") {
  const json spec = {{"volumes", {{{"name", "claim"}, {"persistentVolumeClaim", {{"claimName", "ckpt"}}}}}}};
  json mount = {{"name", "claim"}, {"mountPath", "/ckpt"}, {"subPathExpr", "run/$(RANK)"}};
  const json env = {named("RANK", field("metadata.annotations['batch.kubernetes.io/job-completion-index']"))};
  Place place;
  const Process process =
      localise(pod_with({{"env", env}, {"args", {"/ckpt"}}, {"volumeMounts", json::array({mount})}}, spec),
               place.file_context());
  CHECK(process.argv.at(1) == "/state/claims/default/ckpt/run/1");
  CHECK(process.folders.back() == "/state/claims/default/ckpt/run/1");
  mount["subPathExpr"] = "../../other";
  CHECK(obstacle(pod_with({{"volumeMounts", json::array({mount})}}, spec))
            .find("CreateContainerConfigError: invalid subPath") == 0);
}

TEST_CASE(
    "a pod waits if its command, a volume or a value is missing or unsupported, and the message says why") {
  const auto volume = [](const json& source) {
    json with_name = source;
    with_name["name"] = "v";
    return json{{"volumes", json::array({with_name})}};
  };
  CHECK(obstacle(pod_with({{"command", nullptr}})).find("CreateContainerError: no command") == 0);
  CHECK(obstacle(pod_with({}, volume({{"nfs", {{"server", "s"}, {"path", "/p"}}}}))) ==
        "CreateContainerConfigError: the local cluster has no volumes of type nfs: give a folder for it with "
        "--volume v=DIR");
  Place with_folder;
  with_folder.volumes = {{"v", "/home/me/nfs"}};
  CHECK(obstacle(pod_with({}, volume({{"nfs", {{"server", "s"}, {"path", "/p"}}}})), with_folder).empty());
  CHECK(obstacle(pod_with({}, volume({{"configMap", {{"name", "none"}}}})))
            .find("ContainerCreating: MountVolume.SetUp failed") == 0);
  CHECK(obstacle(pod_with({}, volume({{"configMap", {{"name", "none"}, {"optional", true}}}}))).empty());
  const json env = {{{"name", "A"}, {"valueFrom", {{"secretKeyRef", {{"name", "none"}, {"key", "k"}}}}}}};
  CHECK(obstacle(pod_with({{"env", env}})) == "CreateContainerConfigError: secret \"none\" not found");
  CHECK(obstacle(pod_with({{"env", {named("A", field("status.phase"))}}})) ==
        "CreateContainerConfigError: unsupported fieldPath: status.phase");
}

TEST_CASE("parse_quantity() reads 500m, 4Gi and 1e3 as Kubernetes does") {
  CHECK(*parse_quantity("500m") == doctest::Approx(0.5));
  CHECK(*parse_quantity("4Gi") == doctest::Approx(4294967296.0));
  CHECK(*parse_quantity("1e3") == doctest::Approx(1000));
  CHECK(!parse_quantity("4 Gi"));
  CHECK(!parse_quantity(""));
  const json container = {{"resources", {{"limits", {{"cpu", "1500m"}, {"memory", "1Gi"}}}}}};
  CHECK(*resource_field(container, {{"resource", "limits.cpu"}}) == "2");
  CHECK(*resource_field(container, {{"resource", "limits.memory"}, {"divisor", "1Mi"}}) == "1024");
}
