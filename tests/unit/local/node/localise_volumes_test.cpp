// Volumes as folders and files, in detail.
#include <doctest/doctest.h>

#include "cli/local/node/localise.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/localise_volumes");

using namespace mlk::local;
using mlk::local::samples::json;

namespace {

struct Localised {
  std::string obstacle;
  Process process;
};

Localised localised_pod(const char* spec, const std::map<std::string, std::string>& given = {}) {
  json pod = R"({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
                 "spec": {"containers": [{"name": "main", "command": ["c"]}]}})"_json;
  pod.merge_patch(json::parse(spec));
  if (!pod["spec"]["containers"][0].contains("command")) pod["spec"]["containers"][0]["command"] = {"c"};
  const json config = R"({"kind": "ConfigMap", "data": {"k": "v", "j": "w"}})"_json;
  const json secret = R"({"kind": "Secret", "data": {"k": "c2VjcmV0"}})"_json;
  PodContext around;
  around.pod_folder = "/pods/u";
  around.claims = "/claims";
  around.volumes = given;
  around.find = [&](const std::string& plural, const std::string& name) -> const json* {
    if (name == "none") return nullptr;
    return plural == "secrets" ? &secret : &config;
  };
  around.address_of = [](const std::string& host) { return "<" + host + ">"; };
  try {
    return {"", localise(pod, around)};
  } catch (const WaitingReason& obstacle) {
    return {obstacle.reason() + ": " + obstacle.what(), {}};
  }
}

// The pod with one volume. An argument with the mount path shows the folder of the volume.
Localised with_volume_of(const std::string& source,
                         const std::string& mount = R"({"name": "v", "mountPath": "/m"})",
                         const std::map<std::string, std::string>& given = {}) {
  return localised_pod(("{\"spec\": {\"volumes\": [{\"name\": \"v\"" + source +
                        "}], \"containers\": [{\"args\": [\"/m\"], "
                        "\"volumeMounts\": [" +
                        mount + "]}]}}")
                           .c_str(),
                       given);
}

std::string files_of(const Localised& localised) {
  std::string text;
  for (const LocalFile& file : localised.process.files)
    text += file.path.string() + "=" + file.content + "," + std::to_string(file.mode) + ";";
  return text;
}

}  // namespace

TEST_CASE("each supported kind of volume becomes a folder of this machine") {
  const auto folder = [](const std::string& source, const std::map<std::string, std::string>& given = {}) {
    const Localised made = with_volume_of(source, R"({"name": "v", "mountPath": "/m"})", given);
    return made.obstacle.empty() ? made.process.argv.at(1) : made.obstacle;
  };
  CHECK(folder("") == "/pods/u/volumes/v");
  CHECK(folder(R"(, "emptyDir": {})") == "/pods/u/volumes/v");
  CHECK(folder(R"(, "configMap": {"name": "c"})") == "/pods/u/volumes/v");
  CHECK(folder(R"(, "hostPath": {"path": "/h"})") == "/h");
  CHECK(folder(R"(, "persistentVolumeClaim": {"claimName": "pvc"})") == "/claims/ns/pvc");
  CHECK(folder(R"(, "nfs": {"server": "s", "path": "/p"})").find("no volumes of type nfs") !=
        std::string::npos);
  // --volume names a claim, or a volume of the pod.
  const std::map<std::string, std::string> given = {{"pvc", "/of-claim"}, {"v", "/of-volume"}};
  CHECK(folder(R"(, "persistentVolumeClaim": {"claimName": "pvc"})", given) == "/of-claim");
  CHECK(folder(R"(, "persistentVolumeClaim": {"claimName": "other"})", given) == "/claims/ns/other");
  CHECK(folder(R"(, "nfs": {"server": "s", "path": "/p"})", given) == "/of-volume");
  CHECK(folder(R"(, "hostPath": {"path": "/h"})", given) == "/of-volume");
  CHECK(folder(R"(, "configMap": {"name": "c"})", given) == "/pods/u/volumes/v");
}

TEST_CASE("localise() lists the folders that mlk must create for the volumes of a pod") {
  using Folders = std::vector<std::filesystem::path>;
  CHECK(with_volume_of(R"(, "emptyDir": {})").process.folders == Folders{"/pods/u/volumes/v"});
  CHECK(with_volume_of(R"(, "persistentVolumeClaim": {"claimName": "pvc"})").process.folders ==
        Folders{"/claims/ns/pvc"});
  CHECK(with_volume_of(R"(, "hostPath": {"path": "/h"})").process.folders.empty());
  CHECK(with_volume_of(R"(, "configMap": {"name": "c"})").process.folders == Folders{"/pods/u/volumes/v"});
  const char* below = R"({"name": "v", "mountPath": "/m", "subPath": "a/b"})";
  CHECK(with_volume_of(R"(, "hostPath": {"path": "/h"})", below).process.folders == Folders{"/h/a/b"});
  CHECK(with_volume_of(R"(, "hostPath": {"path": "/h"})", below).process.argv.at(1) == "/h/a/b");
  // If a volume has given contents, its subPath is a file, and mlk creates no folder in the volume.
  CHECK(with_volume_of(R"(, "secret": {"secretName": "s"})", below).process.folders ==
        Folders{"/pods/u/volumes/v"});
  CHECK(with_volume_of(R"(, "emptyDir": {})", R"({"name": "v", "mountPath": "/m", "subPath": "a/../b"})")
            .obstacle == "CreateContainerConfigError: invalid subPath: \"a/../b\"");
}

TEST_CASE("the keys of a ConfigMap or Secret become files that only their owner can read") {
  CHECK(files_of(with_volume_of(R"(, "configMap": {"name": "c"})")) ==
        "/pods/u/volumes/v/j=w,384;/pods/u/volumes/v/k=v,384;");
  CHECK(files_of(with_volume_of(R"(, "configMap": {"name": "c", "defaultMode": 365})")) ==  // 0555
        "/pods/u/volumes/v/j=w,320;/pods/u/volumes/v/k=v,320;");
  CHECK(files_of(
            with_volume_of(R"(, "secret": {"secretName": "s", "defaultMode": 128})")) ==  // 0200 becomes 0600
        "/pods/u/volumes/v/k=secret,384;");
  CHECK(files_of(with_volume_of(R"(, "configMap": {"name": "c", "items": [{"key": "k", "path": "x/y"},
                                  {"key": "j", "path": "z", "mode": 448}]})")) ==
        "/pods/u/volumes/v/x/y=v,384;/pods/u/volumes/v/z=w,448;");
}

TEST_CASE("a pod waits for a ConfigMap or Secret that is missing and not optional") {
  CHECK(with_volume_of(R"(, "configMap": {"name": "none"})").obstacle ==
        "ContainerCreating: MountVolume.SetUp failed for volume \"v\" : configmap \"none\" not found");
  CHECK(with_volume_of(R"(, "secret": {"secretName": "none"})").obstacle ==
        "ContainerCreating: MountVolume.SetUp failed for volume \"v\" : secret \"none\" not found");
  CHECK(with_volume_of(R"(, "secret": {"secretName": "none", "optional": true})").obstacle.empty());
  const auto item = [](const char* one, const char* more = "") {
    return with_volume_of(std::string(R"(, "configMap": {"name": "c", "items": [)") + one + "]" + more + "}");
  };
  CHECK(item(R"({"key": "x", "path": "y"})").obstacle ==
        "ContainerCreating: references non-existent config key: x");
  CHECK(item(R"({"key": "x", "path": "y"})", R"(, "optional": true)").obstacle.empty());
  for (const std::string path : {"", "/a", "../a", "a/.."}) {
    CHECK(item(("{\"key\": \"k\", \"path\": \"" + path + "\"}").c_str()).obstacle ==
          "CreateContainerConfigError: invalid path of an item: \"" + path + "\"");
  }
}

TEST_CASE(
    "a process gets a working folder, a host name and a file for its termination message from its pod") {
  const Localised plain = localised_pod(R"({"spec": {"containers": [{"args": ["/dev/termination-log"]}]}})");
  CHECK(plain.process.argv.at(1) == "/pods/u/termination-log");
  CHECK(plain.process.termination_message == "/pods/u/termination-log");
  CHECK(plain.process.working_folder == "/pods/u");
  CHECK(plain.process.address == "<p>");
  CHECK(plain.process.env.back() == std::pair<std::string, std::string>("HOSTNAME", "p"));
  const Localised named = localised_pod(R"({"spec": {"hostname": "h", "containers": [{"args": ["/end", "/x"],
    "terminationMessagePath": "/end", "workingDir": "/x"}]}})");
  CHECK(named.process.argv == std::vector<std::string>{"c", "/pods/u/termination-log", "/x"});
  CHECK(named.process.working_folder == "/x");
  CHECK(named.process.address == "<h>");
  CHECK(localised_pod(R"({"spec": {"containers": [{"command": [], "args": ["x"]}]}})")
            .obstacle.find("no command") != std::string::npos);
}

TEST_CASE("a variable of the pod replaces the inherited variable of the same name, at the same position") {
  json pod = R"({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "main",
    "command": ["c"], "env": [{"name": "PATH", "value": "/own"}, {"name": "HOSTNAME", "value": "mine"}]}]}})"_json;
  PodContext around;
  around.pod_folder = "/pods/u";
  around.inherited = {{"PATH", "/bin"}, {"HOME", "/me"}};
  around.address_of = [](const std::string& host) { return host; };
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"PATH", "/own"}, {"HOME", "/me"}, {"HOSTNAME", "mine"}};
  CHECK(localise(pod, around).env == expected);
}

TEST_CASE("PYTHONPATH has the mounted packages first, and the machine's own PYTHONPATH last") {
  json pod = R"({"metadata": {"name": "p", "namespace": "ns"}, "spec": {
    "volumes": [{"name": "mlk-python", "hostPath": {"path": "/cache/python-1"}}],
    "containers": [{"name": "main", "command": ["c"], "env": [{"name": "PYTHONPATH", "value": "/mlk/python:src"}],
      "volumeMounts": [{"name": "mlk-python", "mountPath": "/mlk/python"}]}]}})"_json;
  PodContext around;
  around.pod_folder = "/pods/u";
  around.address_of = [](const std::string& host) { return host; };
  const auto variables = [&] {
    const auto env = localise(pod, around).env;
    return std::map<std::string, std::string>(env.begin(), env.end());
  };
  around.inherited = {{"PATH", "/bin"}, {"PYTHONPATH", "/home/me/lib"}};
  CHECK(variables().at("PYTHONPATH") == "/cache/python-1:src:/home/me/lib");
  CHECK(variables().at("PATH") == "/cache/python-1/bin:/bin");
  around.inherited = {{"PATH", "/bin"}};
  CHECK(variables().at("PYTHONPATH") == "/cache/python-1:src");
  pod["spec"]["containers"][0]["env"].push_back({{"name", "PATH"}, {"value", "/mlk/python/bin:/own"}});
  CHECK(variables().at("PATH") == "/cache/python-1/bin:/own");
  pod["spec"]["containers"][0]["volumeMounts"] = json::array();
  around.inherited = {{"PYTHONPATH", "/home/me/lib"}};
  CHECK(variables().at("PYTHONPATH") == "/mlk/python:src");
}

TEST_CASE("a mount path is replaced if it stands alone or begins a longer path") {
  const std::map<std::string, std::string> mounts = {{"/m", "/real"}, {"/m/n", "/other"}};
  const std::pair<const char*, const char*> table[] = {{"/m/", "/real/"},
                                                       {"/m.txt", "/m.txt"},
                                                       {"/m-1", "/m-1"},
                                                       {"/m_", "/m_"},
                                                       {"/m+", "/m+"},
                                                       {"/m@", "/m@"},
                                                       {"/m,/m", "/real,/real"},
                                                       {"x/m", "x/m"},
                                                       {"./m", "./m"},
                                                       {"=/m=", "=/real="},
                                                       {"s3:///m", "s3:///real"},
                                                       {"//m", "//m"},
                                                       {"/m/n/x", "/other/x"},
                                                       {"/m/nx", "/real/nx"},
                                                       {"", ""},
                                                       {"/", "/"},
                                                       {"\"/m\"", "\"/real\""},
                                                       {"-I/m", "-I/m"}};
  for (const auto& [text, replaced] : table) CHECK_MESSAGE(replace_paths(text, mounts) == replaced, text);
}
