// The variables of built-in frameworks, and of frameworks from the user's own templates.
#include <algorithm>
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/util/error.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/framework");

namespace mlk {
namespace {

using nlohmann::json;

Templates with_framework(const std::string& text) {
  Templates templates;
  templates.add("frameworks/mine.yaml", {text, "/home/mine.yaml"});
  return templates;
}

Rendered run_with(const std::string& text, const Templates& templates = Templates()) {
  return render(test::load("name: x\nrun: a\n" + text, templates), {}, templates, {});
}

std::string refusal_of_framework(const std::string& text, const Templates& templates = Templates()) {
  try {
    run_with(text, templates);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const json& pod_of_role(const Rendered& run, const std::string& role) {
  const auto found = std::find_if(run.objects.begin(), run.objects.end(), [&](const json& object) {
    return object["kind"] == "Job" && object["metadata"]["name"] == run.run + "-" + role;
  });
  REQUIRE(found != run.objects.end());
  return (*found)["spec"]["template"];
}

// The environment of a container after Kubernetes has replaced references to MLK_RANK.
std::map<std::string, std::string> environment_of(const json& pod, const std::string& rank) {
  std::map<std::string, std::string> out;
  for (const json& entry : pod["spec"]["containers"][0]["env"]) {
    std::string value = entry["name"] == "MLK_RANK" ? rank : entry.value("value", "");
    if (const auto at = value.find("$(MLK_RANK)"); at != std::string::npos) {
      REQUIRE(out.contains("MLK_RANK"));
      value.replace(at, std::string("$(MLK_RANK)").size(), rank);
    }
    out[entry["name"]] = value;
  }
  return out;
}

TEST_CASE("`framework: torch` sets the variables that torch.distributed reads") {
  const Rendered run = run_with("mode: allreduce\nframework: torch\nworkers: {count: 3}\n");
  auto found = environment_of(pod_of_role(run, "worker"), "2");
  CHECK(found["MASTER_ADDR"] == run.run + "-worker-0." + run.run);
  CHECK(found["MASTER_PORT"] == "7070");
  CHECK(found["RANK"] == "2");
  CHECK(found["WORLD_SIZE"] == "3");
  CHECK(found["LOCAL_RANK"] == "0");
  CHECK(found["LOCAL_WORLD_SIZE"] == "1");
  CHECK(found["PET_NNODES"] == "3");
  CHECK(found["PET_NODE_RANK"] == "2");
  CHECK(found["PET_MASTER_ADDR"] == found["MASTER_ADDR"]);
  CHECK(found["PET_MASTER_PORT"] == "7070");
  CHECK(found["MLK_RANK"] == "2");
}

TEST_CASE("TF_CONFIG has the task of the pod and the addresses of all pods") {
  const Rendered run =
      run_with("mode: ps\nframework: tensorflow\nworkers: {count: 2}\nservers: {count: 1}\n");
  const auto host = [&](const std::string& pod) { return run.run + "-" + pod + "." + run.run + ":7070"; };
  const json cluster = {{"worker", {host("worker-0"), host("worker-1")}}, {"ps", {host("server-0")}}};
  CHECK(json::parse(environment_of(pod_of_role(run, "worker"), "1")["TF_CONFIG"]) ==
        json{{"cluster", cluster}, {"task", {{"type", "worker"}, {"index", 1}}}});
  CHECK(json::parse(environment_of(pod_of_role(run, "server"), "0")["TF_CONFIG"]) ==
        json{{"cluster", cluster}, {"task", {{"type", "ps"}, {"index", 0}}}});
}

TEST_CASE("`framework: jax` sets the address of the first process") {
  const Rendered run = run_with("mode: allreduce\nframework: jax\nworkers: {count: 2}\n");
  auto found = environment_of(pod_of_role(run, "worker"), "1");
  CHECK(found["JAX_COORDINATOR_ADDRESS"] == run.run + "-worker-0." + run.run + ":7070");
  CHECK(found["JAX_NUM_PROCESSES"] == "2");
  CHECK(found["JAX_PROCESS_ID"] == "1");
}

TEST_CASE("the key `env` replaces variables of a framework") {
  const Rendered none = run_with("mode: single\nframework: none\n");
  CHECK_FALSE(environment_of(pod_of_role(none, "worker"), "0").contains("RANK"));
  const Rendered own = run_with("mode: single\nframework: torch\nenv: {MASTER_PORT: 1234}\n");
  CHECK(environment_of(pod_of_role(own, "worker"), "0")["MASTER_PORT"] == "1234");
}

TEST_CASE("pods of a framework have the annotation mlk.dev/port-by-variables") {
  const auto annotations_of = [](const std::string& text) {
    return pod_of_role(run_with("mode: single\n" + text), "worker")["metadata"].value("annotations",
                                                                                      json::object());
  };
  CHECK(annotations_of("framework: torch\n") == json{{"mlk.dev/port-by-variables", "7070"}});
  CHECK(annotations_of("framework: none\n").empty());
}

TEST_CASE("a framework of the user can set variables, change pods and add objects") {
  const Templates templates = with_framework(
      "role_names: {worker: chief}\n"
      "outside: [server]\n"
      "environment: {HERE: '${framework.role}:${framework.port}'}\n"
      "pod: {spec: {hostname: h}}\n"
      "objects:\n"
      "  - {apiVersion: v1, kind: ConfigMap, metadata: {name: '${run}-hosts'}, data: {all: "
      "'${framework.cluster_text}'}}\n");
  const Rendered run = run_with("mode: allreduce\nframework: mine\nworkers: {count: 2}\n", templates);
  CHECK(environment_of(pod_of_role(run, "worker"), "0")["HERE"] == "chief:7070");
  CHECK(pod_of_role(run, "worker")["spec"]["hostname"] == "h");
  const auto hosts = std::find_if(run.objects.begin(), run.objects.end(), [&](const json& object) {
    return object["metadata"]["name"] == run.run + "-hosts";
  });
  REQUIRE(hosts != run.objects.end());
  CHECK(json::parse((*hosts)["data"]["all"].get<std::string>())["chief"].size() == 2);
  CHECK((*hosts)["metadata"]["labels"]["mlk.dev/run"] == run.run);
  CHECK(run_with("mode: allreduce\nframework: none\n", templates).run != run.run);
  const Rendered others = run_with("mode: ps\nframework: mine\nworkers: {count: 2}\n", templates);
  CHECK(environment_of(pod_of_role(others, "server"), "0")["HERE"] == "server:7070");
  for (const json& object : others.objects) {
    if (object["metadata"]["name"] == others.run + "-hosts")
      CHECK_FALSE(json::parse(object["data"]["all"].get<std::string>()).contains("server"));
  }
}

TEST_CASE("pods with `framework: mpi` get the helper, all addresses, and the key of the run") {
  const Rendered run =
      run_with("mode: allreduce\nframework: mpi\nworkers: {count: 2, processes: 4}\nstart_timeout: 5m\n");
  const auto names = [&](const char* kind) {
    std::vector<std::string> out;
    for (const json& object : run.objects) {
      if (object["kind"] == kind) out.push_back(object["metadata"]["name"]);
    }
    return out;
  };
  CHECK(names("Secret") == std::vector<std::string>{run.run});
  REQUIRE(names("ConfigMap").size() == 1);
  const std::string helper = names("ConfigMap").front();
  CHECK(helper.starts_with("mlk-mpi-"));
  const json& pod = pod_of_role(run, "worker");
  auto found = environment_of(pod, "1");
  CHECK(found["MLK_SECRET"] == "/etc/mlk/secret/key");
  CHECK(found["MLK_MPI_ADDRESSES"] == fmt::format("{0}-worker-0.{0}:7070,{0}-worker-1.{0}:7070", run.run));
  CHECK(found["MLK_MPI_PROCESSES"] == "4");
  CHECK(found["MLK_MPI_PATIENCE"] == "300");
  const json& container = pod["spec"]["containers"][0];
  CHECK(container["command"] == json({"/etc/mlk/bin/mlk-mpi", "--launch", "sh", "-c", "a"}));
  const json& volumes = pod["spec"]["volumes"];
  const auto with = [&](const char* name) {
    return *std::find_if(volumes.begin(), volumes.end(),
                         [&](const json& volume) { return volume["name"] == name; });
  };
  CHECK(with("mlk-helper")["configMap"] == json({{"name", helper}, {"defaultMode", 0555}}));
  CHECK(with("mlk-secret")["secret"]["defaultMode"] == 0444);  // the image's user is unknown
  CHECK(run.objects.back()["spec"]["successPolicy"]["rules"] == json({{{"succeededIndexes", "0"}}}));
}

TEST_CASE("all runs with `framework: mpi` have the same helper object, which has at most 200 KiB") {
  const auto helper_of = [](const char* text) {
    for (const json& object : run_with(text).objects) {
      if (object["metadata"]["labels"].value("mlk.dev/shared", "") == "helper") return object;
    }
    return json();
  };
  const json helper = helper_of("mode: allreduce\nframework: mpi\n");
  CHECK(helper == helper_of("mode: single\nframework: mpi\nenv: {A: b}\n"));
  CHECK(helper["binaryData"]["mlk-mpi"].get<std::string>().size() / 4 * 3 <= 200 * 1024);
  CHECK(helper_of("mode: allreduce\nframework: torch\n").is_null());
}

TEST_CASE("the error for a mistake in a framework has the place of the mistake") {
  const std::string text = "mode: single\nframework: mine\n";
  CHECK(refusal_of_framework(text, with_framework("enviroment: {A: b}\n"))
            .starts_with("/home/mine.yaml:1:1: unknown key 'enviroment'; did you mean 'environment'?"));
  CHECK(refusal_of_framework(text, with_framework("[1]\n"))
            .starts_with("/home/mine.yaml:1:1: a framework is a map"));
  CHECK(refusal_of_framework(text, with_framework("role_names: {worker: 1}\n"))
            .starts_with("/home/mine.yaml:1:22: the name of a role is text"));
  CHECK(refusal_of_framework(text, with_framework("outside: [worker, [server]]\n"))
            .starts_with("/home/mine.yaml:1:19: the name of a role is text"));
  CHECK(refusal_of_framework(text, with_framework("key: 1\n"))
            .starts_with("/home/mine.yaml:1:6: key is true or false"));
  CHECK(refusal_of_framework(text, with_framework("helper: rsh\n"))
            .starts_with("/home/mine.yaml:1:9: there is one helper, mlk-mpi"));
  CHECK(refusal_of_framework(text, with_framework("environment: {A: '${framework.rol}'}\n"))
            .find("there is no ${framework.rol}; did you mean 'role'?") != std::string::npos);
  CHECK(refusal_of_framework(text, with_framework("pod: {metadata: {labels: {mlk.dev/run: other}}}\n"))
            .starts_with("/home/mine.yaml: pod: the label mlk.dev/run of the pod must be"));
}

TEST_CASE(
    "the framework's launcher starts the program if `elastic` is true, or if a pod has several processes") {
  const auto command_of = [](const std::string& text, const Templates& templates = Templates()) {
    const Rendered run = run_with("mode: allreduce\n" + text, templates);
    return pod_of_role(run, "worker")["spec"]["containers"][0]["command"];
  };
  const json plain = {"sh", "-c", "a"};
  CHECK(command_of("framework: torch\nworkers: {count: 4}\n") == plain);
  CHECK(command_of("framework: torch\nelastic: false\nworkers: {count: 4, processes: 1}\n") == plain);
  const json launched =
      command_of("framework: torch\nelastic: true\nworkers: {count: 4, min: 2, processes: 8}\n");
  REQUIRE(launched.size() == 7);
  const auto script = launched[2].get<std::string>();
  for (const char* part : {"--nnodes=2:4 ", "--nproc-per-node=8 ", "--max-restarts=3 ",
                           "--local-addr=\"${MLK_ADDRESS%:*}\"", "--no-python \"$@\""})
    CHECK_MESSAGE(script.find(part) != std::string::npos, script);
  CHECK(script.find("$(") == std::string::npos);
  CHECK(launched[6] == "a");
  const Templates mine = with_framework("launch: [start, '-n', '${role.processes}']\n");
  CHECK(command_of("framework: mine\nworkers: {count: 2, processes: 3}\n", mine) ==
        json{"start", "-n", "3", "sh", "-c", "a"});
  CHECK(refusal_of_framework("mode: allreduce\nelastic: true\n") ==
        "elastic needs a framework with a launcher, and the experiment has none");
  CHECK(refusal_of_framework("mode: allreduce\nframework: jax\nworkers: {processes: 2}\n") ==
        "processes needs a framework with a launcher, and jax has none");
}

TEST_CASE("a run is refused if the addresses of its pods do not fit in a variable") {
  CHECK(refusal_of_framework("mode: allreduce\nframework: tensorflow\nworkers: {count: 5000}\n")
            .starts_with("templates/frameworks/tensorflow.yaml: TF_CONFIG has "));
  CHECK(refusal_of_framework("mode: allreduce\nframework: torch\nworkers: {count: 5000}\n") == "accepted");
}

}  // namespace
}  // namespace mlk
