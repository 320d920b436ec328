// The objects of a run other than pods: the owner, the order of patches, further objects, and warnings.
#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/render/evaluate.h"
#include "cli/render/framework.h"
#include "cli/render/identity.h"
#include "cli/render/own.h"
#include "cli/render/runtime_config.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/objects_of_run");

namespace mlk {
namespace {

using nlohmann::json;

constexpr char one_program[] = "name: x\nmode: single\nimage: i\nrun: a\n";
constexpr char one_training[] = "name: x\nmode: single\nimage: i\ntrain: {data: {path: /d}, steps: 7}\n";

Rendered whole_run(const std::string& text, const FileContents& contents = {},
                   const RenderOptions& options = {}, const Templates& templates = Templates()) {
  return render(test::load(text, templates), contents, templates, options);
}

std::string refusal_of_run(const std::string& text, const FileContents& contents = {},
                           const Templates& templates = Templates(), const RenderOptions& options = {}) {
  try {
    whole_run(text, contents, options, templates);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

json find_object(const Rendered& run, const std::string& kind, const std::string& name) {
  for (const json& each : run.objects) {
    if (each["kind"] == kind && each["metadata"]["name"] == name) return each;
  }
  return nullptr;
}

Templates with_job_type(const std::string& text) {
  Templates templates;
  templates.add("jobs/mine.yaml", {text, "/home/me/mine.yaml"});
  return templates;
}

TEST_CASE("own() adds the owner's uid to the value of MLK_CHECKPOINTS") {
  const std::string checkpoints = std::string(one_program) + "checkpoint: {volume: {pvc: c}}\n";
  Rendered run = whole_run(checkpoints + "metrics: {tensorboard: true}\n", {}, {});
  const std::string before = "/mlk/checkpoints/" + run.run;
  CHECK(run.objects.back().dump().find("\"" + before + "\"") != std::string::npos);
  json custom = {
      {"spec",
       {{"replicas",
         {{{"env",
            {{{"name", "MLK_CHECKPOINTS"}, {"value", before}}, {{"name", "MINE"}, {"value", before}}}}}}}}}};
  own(custom, run.run, "abcdefgh-1");
  CHECK(custom["spec"]["replicas"][0]["env"][0]["value"] == before + "-abcdefgh");
  CHECK(custom["spec"]["replicas"][0]["env"][1]["value"] == before);
  own(run.objects, run.run, "abcdefgh-1");
  for (const json& each : run.objects) CHECK(each["metadata"]["ownerReferences"][0]["uid"] == "abcdefgh-1");
  const std::string job = run.objects.back().dump();
  CHECK(job.find("\"" + before + "-abcdefgh\"") != std::string::npos);
  CHECK(job.find("\"" + before + "-abcdefgh/tensorboard\"") != std::string::npos);
  CHECK(job.find("\"" + before + "\"") == std::string::npos);
}

TEST_CASE("own() does not change a checkpoint folder that the user has chosen") {
  Rendered run = whole_run(std::string(one_program) +
                               "checkpoint: {volume: {pvc: c}}\npatch: {pod: {spec: {containers: [{name: "
                               "main, env: [{name: MLK_CHECKPOINTS, value: /mine}]}]}}}\n",
                           {}, {});
  own(run.objects, run.run, "abcdefgh-1");
  CHECK(run.objects.back().dump().find("\"/mine\"") != std::string::npos);
}

TEST_CASE("owner references have the form that Kubernetes expects") {
  CHECK(owner_references("x-abcde", "u") == json::parse(R"([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "x-abcde", "uid": "u", "blockOwnerDeletion": false}])"));
}

TEST_CASE("a given identity replaces the name and the hash from the experiment") {
  RenderOptions options;
  options.identity = Identity{"sweep-abcde", std::string(64, 'e')};
  options.attempt = 3;
  const Rendered run = whole_run(one_program, {}, options);
  CHECK(run.run == "sweep-abcde");
  CHECK(run.hash == std::string(64, 'e'));
  CHECK(run.owner["metadata"]["labels"]["mlk.dev/hash"] == std::string(16, 'e'));
  CHECK_FALSE(find_object(run, "Job", "sweep-abcde-worker").is_null());
}

TEST_CASE("from the second attempt on, the name of a run ends with the number of the attempt") {
  const Experiment experiment = test::load(one_program);
  const Identity first = identify(experiment, json::object(), Templates(), 1);
  CHECK(first.run == "x-" + first.run.substr(2, 5));
  CHECK(identify(experiment, json::object(), Templates(), 2).run == first.run + "-2");
  CHECK(first.hash.size() == 64);
}

TEST_CASE("the name of a run does not depend on the registry, nor on changes of built-in templates") {
  const std::string plain = whole_run(one_program).hash;
  CHECK(whole_run(std::string(one_program) + "registry: registry.example/team\n").hash == plain);
  Templates templates;
  const std::string text = templates.find("shapes/service.yaml")->text + "# newer\n";
  templates.add("shapes/service.yaml", {text, built_in_source});
  CHECK(whole_run(one_program, {}, {}, templates).hash == plain);
  CHECK(own_templates(templates).empty());
  templates.add("shapes/service.yaml", {text, "/home/me/service.yaml"});
  CHECK(own_templates(templates) ==
        std::map<std::string, std::string>{{"shapes/service.yaml", sha256_hex(text)}});
}

TEST_CASE("the record of a run has no keys for values that are missing") {
  RenderOptions options;
  options.version = "1.2.3";
  const Rendered run = whole_run(one_training, {}, options);
  CHECK(run.owner["data"]["schema"] == "1");
  CHECK(run.owner["data"]["version"] == "1.2.3");
  CHECK(json::parse(run.owner["data"]["experiment"].get<std::string>())["name"] == "x");
  FileContents contents;
  contents.code = CodeArchive{.digest = std::string(64, '1'), .bytes = "b"};
  const std::string with_code = std::string(one_program) + "code: .\n";
  CHECK_FALSE(
      whole_run(with_code, contents).owner["data"].contains("code"));  // the origin of the code is unknown
  contents.code->source = R"({"commit":"c0ffee"})";
  CHECK(whole_run(with_code, contents).owner["data"]["code"] == contents.code->source);
  const json& annotations = run.owner["metadata"]["annotations"];
  CHECK(annotations["mlk.dev/steps"] == "7");
  CHECK(annotations["mlk.dev/roles"] == R"({"worker":1})");
  for (const char* key : {"mlk.dev/tags", "mlk.dev/note"}) CHECK_FALSE(annotations.contains(key));
  CHECK_FALSE(run.owner["metadata"].contains("namespace"));
  const Rendered said = whole_run(std::string(one_program) + "tags: [t, u]\nnote: n\n");
  CHECK(said.owner["metadata"]["annotations"]["mlk.dev/tags"] == R"(["t","u"])");
  CHECK(said.owner["metadata"]["annotations"]["mlk.dev/note"] == "n");
  CHECK_FALSE(said.owner["metadata"]["annotations"].contains("mlk.dev/steps"));
}

TEST_CASE("the configuration of a run has no `steps` if `train` has `epochs`") {
  const std::string text = "name: x\nmode: single\nimage: i\ntrain: {data: {path: /d}, epochs: 3}\n";
  const json config = runtime_config(test::load(text));
  CHECK(config["epochs"] == 3);
  CHECK_FALSE(config.contains("steps"));
  CHECK_FALSE(config.contains("sample"));
  CHECK_FALSE(whole_run(text).owner["metadata"]["annotations"].contains("mlk.dev/steps"));
  CHECK_FALSE(runtime_config(test::load(one_training)).contains("epochs"));
}

TEST_CASE("the runtime's configuration has times in seconds") {
  const json config = runtime_config(
      test::load("name: x\nmode: ps\nimage: i\ntrain: {model: {type: gpt, weights: /d/w}, sample: {tokens: "
                 "5}, steps: 1,\n"
                 "  data: {path: /d}, patience: 2m, offline_time: 90s}\n"
                 "workers: {count: 3, min: 2}\nservers: {count: 4}\ncheckpoint: {every: 7, keep: 2}\n"));
  CHECK(config["schema"] == 1);
  CHECK(config["mode"] == "ps");
  CHECK(config["patience_seconds"] == 120);
  CHECK(config["offline_seconds"] == 90);
  CHECK(config["sample"]["tokens"] == 5);
  CHECK(config["workers"] == json{{"count", 3}, {"min", 2}});
  CHECK(config["servers"] == json{{"count", 4}});
  CHECK(config["checkpoint"] == json{{"every", 7}, {"keep", 2}});
  CHECK_FALSE(config["model"].contains("weights"));
  CHECK_FALSE(config["data"].contains("path"));
}

TEST_CASE("a file is sent with the run if its name can be a key of a ConfigMap") {
  const std::string text = std::string(one_program) + "data: [{name: d, mount: /d, files: f}]\n";
  const auto with_file = [&](const std::string& name) {
    return refusal_of_run(text, {{{"d", {{name, "1"}}}}});
  };
  for (const std::string& good : {std::string("A-b_c.9"), std::string(".hidden"), std::string(253, 'a')})
    CHECK_MESSAGE(with_file(good) == "accepted", good);
  for (const std::string& bad : {std::string("."), std::string(".."), std::string("..a"), std::string("a/b"),
                                 std::string("\xc3\xa4"), std::string("a+b"), std::string(254, 'a')})
    CHECK_MESSAGE(with_file(bad).find("cannot travel with the run") != std::string::npos, bad);
  CHECK(with_file("a\x1b") ==
        "data 'd': the file 'a?' in f cannot travel with the run: its name may have letters, digits, '-', "
        "'_' and '.' only");
}

TEST_CASE("a run is refused if its files and their names have more than 900 KiB together") {
  const std::string text =
      std::string(one_program) + "data: [{name: c, mount: /c, files: e}, {name: d, mount: /d, files: f}]\n";
  const auto with_bytes = [&](std::size_t second) {
    return refusal_of_run(text, {{{"c", {{"ab", std::string(400 * 1024 - 2, 'x')}}},
                                  {"d", {{"cd", std::string(second - 2, 'x')}}}}});
  };
  CHECK(with_bytes(500 * 1024) == "accepted");
  CHECK(with_bytes(500 * 1024 + 1) ==
        "data 'd': f holds 501 KiB, and at most 900 KiB can travel with a run in all `files:`");
}

TEST_CASE("digests_of() returns the digests of the code and of the files that are sent") {
  const Experiment experiment =
      test::load(std::string(one_program) +
                 "data: [{name: d, mount: /d, files: f}, {name: p, mount: /p, pvc: claim}]\ncode: .\n");
  FileContents contents{{{"d", {{"a", "1"}, {"b", "2"}}}}};
  contents.code = CodeArchive{.digest = "0123", .bytes = "z"};
  CHECK(digests_of(experiment, contents) ==
        json{{"d", {{"a", sha256_hex("1")}, {"b", sha256_hex("2")}}}, {"code.tar", "0123"}});
  contents.code->python_files = "4567";
  CHECK(digests_of(experiment, contents)["code.python"] == "4567");
  contents.code.reset();
  CHECK_FALSE(digests_of(experiment, contents).contains("code.tar"));
}

TEST_CASE("each folder of files has its own ConfigMap") {
  const std::string text =
      std::string(one_program) + "data: [{name: c, mount: /c, files: e}, {name: d, mount: /d, files: f}]\n";
  const FileContents contents{{{"c", {{"a", "1"}}}, {"d", {{"b", "2"}}}}};
  const Rendered run = whole_run(text, contents);
  CHECK(find_object(run, "ConfigMap", run.run + "-data-c")["binaryData"] == json{{"a", base64_encode("1")}});
  CHECK(find_object(run, "ConfigMap", run.run + "-data-d")["binaryData"] == json{{"b", base64_encode("2")}});
  RenderOptions options;
  options.files_of = "sweep-abcde";
  const Rendered trial = whole_run(text, contents, options);
  CHECK(find_object(trial, "ConfigMap", trial.run + "-data-c").is_null());
  const json& volumes = trial.objects.back()["spec"]["template"]["spec"]["volumes"];
  CHECK(volumes[0]["configMap"]["name"] == "sweep-abcde-data-c");
  CHECK(volumes[1]["configMap"]["name"] == "sweep-abcde-data-d");
  const Rendered mpi = whole_run("name: x\nmode: single\nimage: i\nframework: mpi\nrun: a\n", {}, options);
  CHECK(std::none_of(mpi.objects.begin(), mpi.objects.end(),
                     [](const json& each) { return each["kind"] == "ConfigMap"; }));
}

TEST_CASE(
    "the patch of a role is merged last, after the framework, the job type and the experiment's patch") {
  Templates templates = with_job_type(
      "roles:\n  - name: a\n    ends_run: true\n    environment: {WHO: type, TYPE: t}\n"
      "    pod: {spec: {hostname: type, dnsPolicy: type, priority: 2, schedulerName: type}}\n"
      "    job: {spec: {suspend: type, managedBy: type, ttl: 2, other: type}}\n");
  templates.add(
      "frameworks/own.yaml",
      {"environment: {WHO: framework, FRAMEWORK: f}\n"
       "pod: {spec: {hostname: framework, dnsPolicy: framework, priority: 1, preemption: framework}}\n"
       "job: {spec: {suspend: framework, managedBy: framework, ttl: 1, more: framework}}\n",
       "/home/me/own.yaml"});
  const Rendered run = whole_run(
      "name: x\nmode: mine\nimage: i\nrun: a\nframework: own\n"
      "patch: {pod: {spec: {hostname: patch, dnsPolicy: patch}}, job: {spec: {suspend: patch, managedBy: "
      "patch}}}\n"
      "roles: {a: {patch: {pod: {spec: {hostname: role}}, job: {spec: {suspend: role}}}}}\n",
      {}, {}, templates);
  const json job = find_object(run, "Job", run.run + "-a");
  CHECK(job["spec"]["suspend"] == "role");
  CHECK(job["spec"]["managedBy"] == "patch");
  CHECK(job["spec"]["ttl"] == 2);
  CHECK(job["spec"]["other"] == "type");
  CHECK(job["spec"]["more"] == "framework");
  const json& spec = job["spec"]["template"]["spec"];
  CHECK(spec["hostname"] == "role");
  CHECK(spec["dnsPolicy"] == "patch");
  CHECK(spec["priority"] == 2);
  CHECK(spec["schedulerName"] == "type");
  CHECK(spec["preemption"] == "framework");
  const std::string env = spec["containers"][0]["env"].dump();
  CHECK(env.find(R"({"name":"WHO","value":"type"})") != std::string::npos);
  CHECK(env.find(R"({"name":"TYPE","value":"t"})") != std::string::npos);
  CHECK(env.find(R"({"name":"FRAMEWORK","value":"f"})") != std::string::npos);
}

TEST_CASE("if a pod or Job is broken, the error names the template or the patch at fault") {
  const auto refused = [&](const std::string& role, const std::string& framework, const std::string& text) {
    Templates templates = with_job_type("roles: [{name: a, ends_run: true" + role + "}]\n");
    templates.add("frameworks/own.yaml", {framework, "/home/me/own.yaml"});
    return refusal_of_run("name: x\nmode: mine\nimage: i\nrun: a\nframework: own\n" + text, {}, templates);
  };
  const std::string other = "{metadata: {labels: {mlk.dev/run: other}}}";
  CHECK(refused("", "key: false\n", "") == "accepted");
  CHECK(refused(", pod: " + other, "{}\n", "")
            .starts_with("/home/me/mine.yaml: pod of role a: the label mlk.dev/run of the pod must be x-"));
  CHECK(refused(", job: " + other, "{}\n", "")
            .starts_with("/home/me/mine.yaml: job of role a: the label mlk.dev/run of the Job must be x-"));
  CHECK(refused("", "job: " + other + "\n", "").starts_with("/home/me/own.yaml: job: the label mlk.dev/run"));
  CHECK(refused("", "{}\n", "roles: {a: {patch: {pod: " + other + "}}}\n")
            .starts_with("roles.a.patch.pod: the label mlk.dev/run of the pod"));
  CHECK(refused("", "{}\n", "patch: {job: {metadata: {labels: 7}}}\n") ==
        "patch.job: metadata.labels must be a map");
}

TEST_CASE("objects of job types and frameworks get the labels and the namespace of the run") {
  Templates templates = with_job_type(
      "roles: [{name: a, count: 2, ends_run: true}]\n"
      "objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {role: "
      "'<${framework.role}>', "
      "addresses: '<${framework.addresses}>', min: '${roles.a.min}'}}]\n");
  templates.add("frameworks/own.yaml",
                {"objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: wrong}}]\n",
                 "/home/me/own.yaml"});
  const std::string text =
      "name: x\nmode: mine\nimage: i\nrun: a\nframework: own\nroles: {a: {count: 3, min: 2}}\n";
  RenderOptions options;
  options.name_space = "research";
  const Rendered run = whole_run(text, {}, options, templates);
  const json first = find_object(run, "ConfigMap", "first"), second = find_object(run, "ConfigMap", "second");
  CHECK(first["data"] == json{{"role", "<>"}, {"addresses", "<>"}, {"min", 2}});
  CHECK(first["metadata"]["labels"] ==
        json{{"app.kubernetes.io/managed-by", "mlk"}, {"mlk.dev/run", run.run}, {"mlk.dev/name", "x"}});
  CHECK(first["metadata"]["namespace"] == "research");
  CHECK(second["metadata"]["namespace"] == "research");
  CHECK_FALSE(find_object(whole_run(text, {}, {}, templates), "ConfigMap", "first")["metadata"].contains(
      "namespace"));
  templates.add("frameworks/own.yaml", {"objects: [{kind: ConfigMap}]\n", "/home/me/own.yaml"});
  CHECK(refusal_of_run(text, {}, templates) == "/home/me/own.yaml: objects[0]: apiVersion must be text");
}

TEST_CASE("a run is refused if two of its objects have the same kind and name") {
  const auto with_objects = [](const std::string& objects) {
    return refusal_of_run("name: x\nmode: mine\nimage: i\nrun: a\n", {},
                          with_job_type("roles: [{name: a, ends_run: true}]\nobjects: [" + objects + "]\n"));
  };
  CHECK(with_objects("{apiVersion: v1, kind: ConfigMap, metadata: {name: '${run}'}}")
            .starts_with("patches and templates make two objects ConfigMap x-"));
  CHECK(with_objects("{apiVersion: v1, kind: Secret, metadata: {name: '${run}'}}") == "accepted");
  Templates templates;
  templates.add("shapes/owner.yaml",
                {"{apiVersion: v1, kind: Secret, metadata: {name: '${run}'}}\n", "/home/me/owner.yaml"});
  CHECK(refusal_of_run(one_program, {}, templates)
            .starts_with("/home/me/owner.yaml: the owner must be the ConfigMap x-"));
}

TEST_CASE("a run is refused if the host name of its last rank has more than 63 characters") {
  const std::string text = "name: a123456789012345678901234567890123456789\nmode: mine\nimage: i\nrun: a\n";
  RenderOptions options;
  options.attempt = 2;
  const auto with_count = [&](const std::string& count) {
    return refusal_of_run(
        text, {}, with_job_type("roles: [{name: abcdefghij, count: " + count + ", ends_run: true}]\n"),
        options);
  };
  CHECK(with_count("1000") == "accepted");
  const std::string refused = with_count("1001");
  CHECK(refused.find("-2-abcdefghij-1000 is longer than the 63 characters of a host name") !=
        std::string::npos);
}

TEST_CASE("a parameter must have the type of its default if the default is not null") {
  const Templates templates =
      with_job_type("parameters: {depth: 1, word: w, anything: null}\nroles: [{name: a, ends_run: true}]\n");
  const auto given = [&](const std::string& parameters) {
    return refusal_of_run("name: x\nmode: mine\nimage: i\nrun: a\nparameters: {" + parameters + "}\n", {},
                          templates);
  };
  CHECK(given("depth: 1.5") == "accepted");
  CHECK(given("anything: [1]") == "accepted");
  CHECK(given("word: 1") == "parameters.word must be a string, like its default, not a number");
  CHECK(given("qqqqqqqq: 1") == "job type mine has no parameter 'qqqqqqqq'");
}

TEST_CASE("all pods of a role must succeed if the role has no minimum") {
  const Rendered run = whole_run("name: x\nmode: mine\nimage: i\nrun: a\n", {}, {},
                                 with_job_type("roles: [{name: a, count: 3, ends_run: true}]\n"));
  const json job = find_object(run, "Job", run.run + "-a");
  CHECK(job["spec"]["completions"] == 3);
  CHECK(job["spec"]["successPolicy"]["rules"] == json::array({{{"succeededCount", 3}}}));
  CHECK(job["spec"]["maxFailedIndexes"] == 0);
}

TEST_CASE("each warning about checkpoints and data has its own text") {
  using Warnings = std::vector<std::string>;
  const std::string image = "name: x\nmode: single\nimage: i\n", steps = "steps: 1}\n";
  const std::string volume = "checkpoint: {volume: {pvc: c}}\n";
  CHECK(whole_run(image + "train: {data: {path: /d}, " + steps + "data: [{name: d, mount: /d, pvc: p}]\n")
            .warnings ==
        Warnings{"no checkpoint volume: if all pods are lost at once, training starts again at step 0"});
  CHECK(whole_run(image + "train: {data: {path: /d/x}, " + steps +
                  "data: [{name: d, mount: /d, pvc: p}]\ncheckpoint: {volume: {emptyDir: {}}}\n")
            .warnings ==
        Warnings{"checkpoint.volume is an emptyDir: its checkpoints are lost with each pod"});
  CHECK(whole_run(image + "train: {data: {path: /data2}, model: {type: mlp, weights: /w/x}, " + steps +
                  "data: [{name: d, mount: /data, pvc: p}]\n" + volume)
            .warnings ==
        Warnings{"train.data.path /data2 is on no volume of `data:`: the image must hold it",
                 "train.model.weights /w/x is on no volume of `data:`: the image must hold it"});
  CHECK(whole_run(image + "train: {data: {path: /d}, model: {type: mlp, weights: /d/x}, " + steps +
                  "data: [{name: d, mount: /d, pvc: p}]\n" + volume)
            .warnings.empty());
}

TEST_CASE("the warning about GPUs compares the sum over all roles with the GPUs of this machine") {
  RenderOptions options;
  options.local = true;
  options.local_gpus = 1;
  const auto with_gpus = [&](int workers, int servers) {
    return whole_run(fmt::format(
                         "name: x\nmode: ps\nimage: i\nrun: a\nworkers: {{gpu: {}}}\nservers: {{gpu: {}}}\n",
                         workers, servers),
                     {}, options)
        .warnings;
  };
  CHECK(with_gpus(1, 0).empty());
  CHECK(with_gpus(1, 1) ==
        std::vector<std::string>{"gpu: this machine has 1 GPU, and the pods ask for 2: some "
                                 "of them wait until others have ended"});
  CHECK(with_gpus(0, 2) ==
        std::vector<std::string>{"gpu: this machine has 1 GPU, so pods that ask for 2 wait; "
                                 "with `gpu: 0` they compute on its processors"});
}

TEST_CASE("the name of the helper's ConfigMap has the digest of the helper") {
  const Rendered run = whole_run("name: x\nmode: single\nimage: i\nframework: mpi\nrun: a\n");
  const auto map = std::find_if(run.objects.begin(), run.objects.end(),
                                [](const json& each) { return each["kind"] == "ConfigMap"; });
  REQUIRE(map != run.objects.end());
  const std::string digest = sha256_hex(base64_decode((*map)["binaryData"]["mlk-mpi"].get<std::string>()));
  CHECK((*map)["metadata"]["name"] == "mlk-mpi-" + digest.substr(0, 16));
  CHECK((*map)["metadata"]["annotations"]["mlk.dev/digest"] == digest);
}

}  // namespace
}  // namespace mlk
