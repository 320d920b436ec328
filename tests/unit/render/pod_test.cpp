// The pod of a role: its variables, volumes, working folder and failure rules.
#include "cli/render/pod.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "cli/render/containers.h"
#include "cli/util/hash.h"
#include "tests/unit/render/rendered_pod.h"

TEST_SUITE_BEGIN("render/pod");

namespace mlk {
namespace {

using nlohmann::json;
using test::job_of_role;
using test::named;
using test::pod_spec_of;
using test::run_of;
using test::value_in;

constexpr char plain_program[] = "name: x\nmode: single\nimage: i\nrun: [a, b]\n";
constexpr char training_ps[] = "name: x\nmode: ps\nimage: i\ntrain: {data: {path: /d}, steps: 1}\n";

FileContents with_code(CodeArchive code) {
  FileContents out;
  out.code = std::move(code);
  return out;
}

TEST_CASE("a dash in the name of a role becomes an underscore in the names of variables") {
  Templates templates;
  templates.add("jobs/mine.yaml", {"roles: [{name: my-role, count: 2, ends_run: true}]", "mine.yaml"});
  const Rendered run =
      render(test::load("name: x\nmode: mine\nimage: i\nrun: a\n", templates), {}, templates, {});
  const json spec = pod_spec_of(run, "my-role");
  CHECK(value_in(spec, "MLK_COUNT_MY_ROLE") == "2");
  CHECK(value_in(spec, "MLK_SEEDS_MY_ROLE").starts_with(run.run + "-my-role-0." + run.run + ":7070,"));
  CHECK(value_in(spec, "MLK_WORLD_SIZE") == "2");
  CHECK(value_in(spec, "MLK_ADDRESS") == run.run + "-my-role-$(MLK_RANK)." + run.run + ":7070");
}

TEST_CASE("servers get no MLK_GPUS and no MLK_WEIGHTS even if they have GPUs") {
  const Rendered run = run_of(
      "name: x\nmode: ps\nimage: i\n"
      "train: {model: {type: mlp, weights: /d/w.safetensors}, data: {path: /d}, steps: 1}\n"
      "workers: {gpu: 2}\nservers: {gpu: 1}\n");
  CHECK(value_in(pod_spec_of(run), "MLK_GPUS") == "2");
  CHECK(value_in(pod_spec_of(run), "MLK_WEIGHTS") == "/d/w.safetensors");
  CHECK(value_in(pod_spec_of(run, "server"), "MLK_GPUS") == "<unset>");
  CHECK(value_in(pod_spec_of(run, "server"), "MLK_WEIGHTS") == "<unset>");
  CHECK(pod_spec_of(run, "server")["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1");
  const Rendered without = run_of(training_ps);
  CHECK(value_in(pod_spec_of(without), "MLK_GPUS") == "<unset>");
  CHECK_FALSE(pod_spec_of(without)["containers"][0]["resources"]["limits"].contains("nvidia.com/gpu"));
}

TEST_CASE("a program keeps the home of its image's user") {
  FileContents contents;
  contents.user.image = ImageUser{"1234", "/home/app"};
  const json spec = pod_spec_of(run_of(plain_program, contents));
  CHECK(value_in(spec, "USER") == "mlk");
  CHECK(value_in(spec, "HOME") == "<unset>");
  CHECK_FALSE(spec.contains("volumes"));
  CHECK(spec["securityContext"]["runAsUser"] == 1234);
}

TEST_CASE("a pod has no user and no file group if the namespace assigns the user") {
  FileContents contents;
  contents.user.is_assigned = true;
  const json context = pod_spec_of(run_of(plain_program, contents))["securityContext"];
  for (const char* key : {"runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy"})
    CHECK_MESSAGE(!context.contains(key), key);
  CHECK(context["runAsNonRoot"] == true);
}

TEST_CASE("MLK_TENSORBOARD and MLK_METRICS_PORT are set if the experiment asks for them") {
  const std::string volume = std::string(plain_program) + "checkpoint: {volume: {pvc: c}}\n";
  CHECK(value_in(pod_spec_of(run_of(volume)), "MLK_TENSORBOARD") == "<unset>");
  CHECK(value_in(pod_spec_of(run_of(volume + "metrics: {tensorboard: false}\n")), "MLK_TENSORBOARD") ==
        "<unset>");
  const Rendered run = run_of(volume + "metrics: {tensorboard: true, port: 9100}\n");
  CHECK(value_in(pod_spec_of(run), "MLK_TENSORBOARD") == "/mlk/checkpoints/" + run.run + "/tensorboard");
  CHECK(value_in(pod_spec_of(run), "MLK_METRICS_PORT") == "9100");
  CHECK(value_in(pod_spec_of(run_of(volume)), "MLK_METRICS_PORT") == "<unset>");
  CHECK_FALSE(job_of_role(run_of(volume))["spec"]["template"]["metadata"].contains("annotations"));
}

TEST_CASE("the folder for checkpoints has the name of the run and eight digits of the owner's uid") {
  CHECK(checkpoint_folder("x-abcde", "") == "x-abcde");
  CHECK(checkpoint_folder("x-abcde", "0f8fad5b-d9cb") == "x-abcde-0f8fad5b");
  CHECK(checkpoint_folder("x-abcde", "0f8") == "x-abcde-0f8");
  CHECK(pod_address("x-abcde", "worker", "3") == "x-abcde-worker-3.x-abcde:7070");
}

TEST_CASE("PYTHONPATH has the packages first, then the experiment's value, then the image's value") {
  const std::string text =
      std::string(plain_program) + "code: {path: ., python: requirements.txt}\nenv: {PYTHONPATH: src}\n";
  CodeArchive code{.digest = std::string(64, '1'), .bytes = "b", .layer_file = "-"};
  CHECK(value_in(pod_spec_of(run_of(text, with_code(code))), "PYTHONPATH") == "/mlk/python:src");
  code.source = R"({"base_python_path": "/opt/site"})";
  CHECK(value_in(pod_spec_of(run_of(text, with_code(code))), "PYTHONPATH") == "/mlk/python:src:/opt/site");
  code.source = "[]";
  CHECK(value_in(pod_spec_of(run_of(text, with_code(code))), "PYTHONPATH") == "/mlk/python:src");
  const std::string without = std::string(plain_program) + "code: .\nenv: {PYTHONPATH: src}\n";
  CHECK(value_in(pod_spec_of(run_of(without, with_code(code))), "PYTHONPATH") == "src");
}

TEST_CASE("--local mounts packages and code from folders of this machine") {
  CodeArchive code{.digest = std::string(64, '1'), .bytes = "", .on_machine = "/cache/code"};
  FileContents contents = with_code(code);
  contents.python_on_machine = "/cache/python";
  contents.user.on_machine = true;
  RenderOptions options;
  options.local = true;
  const Rendered run =
      run_of(std::string(plain_program) + "code: {path: ., python: requirements.txt}\n", contents, options);
  const json spec = pod_spec_of(run);
  CHECK(named(spec["volumes"], "mlk-code")["hostPath"]["path"] == "/cache/code");
  CHECK(named(spec["volumes"], "mlk-python")["hostPath"]["path"] == "/cache/python");
  const json& mounts = spec["containers"][0]["volumeMounts"];
  CHECK(named(mounts, "mlk-python") ==
        json{{"name", "mlk-python"}, {"mountPath", "/mlk/python"}, {"readOnly", true}});
  CHECK(named(mounts, "mlk-code") ==
        json{{"name", "mlk-code"}, {"mountPath", "/etc/mlk/code"}, {"readOnly", true}});
  CHECK(named(mounts, "mlk-workspace") == json{{"name", "mlk-workspace"}, {"mountPath", "/mlk/code"}});
  CHECK(value_in(spec, "PYTHONPATH") == "/mlk/python");
  CHECK(std::none_of(run.objects.begin(), run.objects.end(),
                     [](const json& each) { return each["kind"] == "ConfigMap"; }));
}

TEST_CASE("code in an image layer is neither unpacked nor mounted") {
  const FileContents layer =
      with_code({.digest = std::string(64, '1'), .bytes = "", .layer_file = "/cache/layer.tar"});
  const std::string text = std::string(plain_program) + "code: .\n";
  const json container = pod_spec_of(run_of(text, layer))["containers"][0];
  CHECK(container["command"] == json{"a", "b"});
  CHECK(container["workingDir"] == "/mlk/code");
  CHECK(named(pod_spec_of(run_of(text, layer))["volumes"], "mlk-code").is_null());
  CHECK(pod_spec_of(run_of(text + "workdir: src\n", layer))["containers"][0]["workingDir"] ==
        "/mlk/code/src");
}

TEST_CASE("a pod unpacks the code, and starts the program in workdir") {
  const FileContents archive = with_code({.digest = std::string(64, '1'), .bytes = "b"});
  const auto command = [&](const std::string& more) {
    return pod_spec_of(run_of(std::string(plain_program) + "code: .\n" + more, archive))["containers"][0];
  };
  const json plain = command("");
  CHECK(plain["workingDir"] == "/mlk/code");
  REQUIRE(plain["command"].size() == 8);
  CHECK(plain["command"][0] == "/bin/sh");
  CHECK(plain["command"][1] == "-c");
  CHECK(plain["command"][3] == "/etc/mlk/code/code.tar.gz");
  CHECK(plain["command"][4] == "/mlk/code");
  CHECK(plain["command"][5] == ".");
  const json inside = command("workdir: src\n");
  CHECK(inside["command"][5] == "src");
  CHECK(inside["workingDir"] == "/mlk/code");
  const std::string script = command("checkpoint: {volume: {pvc: c}}\n")["command"][2];
  CHECK(script.find("mkdir -p \"$MLK_CHECKPOINTS\"") < script.find("tar -xzof"));
  CHECK(script.ends_with("exec \"$@\""));
  CHECK(script.find("$(") == std::string::npos);
}

TEST_CASE("the script that makes the folder for checkpoints gets the words of the program as arguments") {
  const json command = pod_spec_of(
      run_of(std::string(plain_program) + "checkpoint: {volume: {pvc: c}}\n"))["containers"][0]["command"];
  REQUIRE(command.size() == 6);
  CHECK(command[3] == "mlk");
  CHECK(command[4] == "a");
  CHECK(command[5] == "b");
  CHECK(command[2].get<std::string>().find("tar ") == std::string::npos);
}

TEST_CASE("the code is mounted and not sent again if its ConfigMap exists") {
  const FileContents known = with_code({.digest = std::string(64, '2'), .bytes = ""});
  const Rendered run = run_of(std::string(plain_program) + "code: .\n", known);
  CHECK(std::none_of(run.objects.begin(), run.objects.end(),
                     [](const json& each) { return each["kind"] == "ConfigMap"; }));
  CHECK(named(pod_spec_of(run)["volumes"], "mlk-code")["configMap"]["name"] == "mlk-code-2222222222222222");
}

TEST_CASE("the ConfigMap of code is named after the digest of the code") {
  const Rendered run = run_of(std::string(plain_program) + "code: .\n",
                              with_code({.digest = std::string(64, 'd'), .bytes = "xy"}));
  const auto map = std::find_if(run.objects.begin(), run.objects.end(),
                                [](const json& each) { return each["kind"] == "ConfigMap"; });
  REQUIRE(map != run.objects.end());
  CHECK((*map)["metadata"]["name"] == "mlk-code-dddddddddddddddd");
  CHECK((*map)["metadata"]["annotations"]["mlk.dev/digest"] == std::string(64, 'd'));
  CHECK((*map)["metadata"]["labels"]["mlk.dev/shared"] == "code");
  CHECK(base64_decode((*map)["binaryData"]["code.tar.gz"].get<std::string>()) == "xy");
}

TEST_CASE("in a run without `train`, all users of a pod can read the key of the run") {
  CHECK(named(pod_spec_of(run_of(training_ps))["volumes"], "mlk-secret")["secret"]["defaultMode"] == 0440);
  const Rendered mpi = run_of("name: x\nmode: allreduce\nimage: i\nframework: mpi\nrun: a\n");
  CHECK(named(pod_spec_of(mpi)["volumes"], "mlk-secret")["secret"]["defaultMode"] == 0444);
}

json disruption_rule(const std::string& text) {
  return job_of_role(run_of(text))["spec"]["podFailurePolicy"]["rules"][0];
}

TEST_CASE("a disrupted pod makes its run fail if `restart.on` is a list without `preemption`") {
  const std::string text = plain_program;
  CHECK(disruption_rule(text)["action"] == "Ignore");
  CHECK(disruption_rule(text + "restart: {on: [preemption, 3]}\n")["action"] == "Ignore");
  CHECK(disruption_rule(text + "restart: {on: [any]}\n")["action"] == "FailJob");
  CHECK(disruption_rule(text + "restart: {on: [3]}\n")["onPodConditions"] ==
        json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}}));
}

TEST_CASE("the rule for exit codes applies to the container of the program") {
  const json rules = job_of_role(run_of(plain_program))["spec"]["podFailurePolicy"]["rules"];
  REQUIRE(rules.size() == 2);
  CHECK(rules[1]["action"] == "FailJob");
  CHECK(rules[1]["onExitCodes"]["containerName"] == "main");
  CHECK(rules[1]["onExitCodes"]["operator"] == "In");
  const std::string any = std::string(plain_program) + "restart: {on: [preemption, any]}\n";
  CHECK(job_of_role(run_of(any))["spec"]["podFailurePolicy"]["rules"].size() == 1);
}

TEST_CASE("a range in `restart.on` includes its first and its last exit code") {
  const json rules =
      job_of_role(run_of(std::string(plain_program) +
                         "restart: {on: [\"5-7\", \"254-255\"]}\n"))["spec"]["podFailurePolicy"]["rules"];
  const auto codes = rules[1]["onExitCodes"]["values"].get<std::set<int>>();
  for (const int again : {5, 6, 7, 137, 143, 254, 255}) CHECK_MESSAGE(codes.count(again) == 0, again);
  for (const int final : {1, 4, 8, 136, 138, 142, 144, 253}) CHECK_MESSAGE(codes.count(final) == 1, final);
  CHECK(codes.count(0) == 0);
}

TEST_CASE("the last words of a container beside `main` come from the end of its log") {
  const std::string patch =
      "patch: {pod: {spec: {initContainers: [{name: first, image: i}],\n"
      "  containers: [{name: side, image: i}, {name: own, image: i, terminationMessagePolicy: File}]}}}\n";
  const json spec =
      pod_spec_of(run_of("name: x\nmode: single\nimage: i\ntrain: {data: {path: /d}, steps: 1}\n" + patch));
  CHECK(named(spec["initContainers"], "first")["terminationMessagePolicy"] == "FallbackToLogsOnError");
  CHECK(named(spec["containers"], "side")["terminationMessagePolicy"] == "FallbackToLogsOnError");
  CHECK(named(spec["containers"], "own")["terminationMessagePolicy"] == "File");
  CHECK(named(spec["containers"], "main")["terminationMessagePolicy"] == "File");
}

TEST_CASE("a built image replaces the experiment's image in the pods and in the record") {
  FileContents contents;
  contents.image = "registry.example/team/x@sha256:1";
  const Rendered built = run_of(plain_program, contents);
  CHECK(pod_spec_of(built)["containers"][0]["image"] == contents.image);
  CHECK(built.owner["metadata"]["annotations"]["mlk.dev/image"] == contents.image);
  CHECK(pod_spec_of(run_of(plain_program))["containers"][0]["image"] == "i");
  const Rendered none = run_of("name: x\nmode: single\nrun: a\n", contents);
  CHECK(none.warnings.empty());
  CHECK(pod_spec_of(run_of("name: x\nmode: single\nrun: a\n"))["containers"][0]["image"] ==
        "mlk-runtime:local");
}

TEST_CASE("capture_last_words() changes every container except the container of the program") {
  json pod = json::parse(R"({"spec": {"containers": [{"name": "main"}, {"name": "side"}, 7],
                                      "initContainers": {"a": 1}}})");
  capture_last_words(pod);
  CHECK(pod == json::parse(R"({"spec": {"initContainers": {"a": 1}, "containers": [{"name": "main"},
      {"name": "side", "terminationMessagePolicy": "FallbackToLogsOnError"}, 7]}})"));
}

}  // namespace
}  // namespace mlk
