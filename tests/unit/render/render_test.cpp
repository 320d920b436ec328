// Names and identity, files that are sent with a run, and the user's templates.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/render/own.h"
#include "cli/render/runtime_config.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/render");

namespace mlk {
namespace {

using nlohmann::json;

constexpr char ps[] =
    "name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 1}\nworkers: {count: 3}\n"
    "data: [{name: d, mount: /d, files: f}]\n";
const FileContents files{{{"d", {{"a", "1"}}}}};

Rendered rendered(const std::string& text, const FileContents& contents = files,
                  const RenderOptions& options = {}, const Templates& templates = Templates()) {
  return render(test::load(text, templates), contents, templates, options);
}

std::string refusal(const std::string& text, const FileContents& contents = files,
                    const Templates& templates = Templates()) {
  try {
    rendered(text, contents, {}, templates);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const json& object(const Rendered& run, const std::string& kind, const std::string& name) {
  const auto found = std::find_if(run.objects.begin(), run.objects.end(), [&](const json& o) {
    return o["kind"] == kind && o["metadata"]["name"] == name;
  });
  REQUIRE_MESSAGE(found != run.objects.end(), kind << " " << name);
  return *found;
}

std::string variable(const json& job, const std::string& name) {
  for (const json& entry : job["spec"]["template"]["spec"]["containers"][0]["env"]) {
    if (entry["name"] == name) return entry.value("value", "");
  }
  return "<unset>";
}

TEST_CASE("the name of a run stays the same if only notes or tags change") {
  const Rendered first = rendered(ps);
  CHECK(first.run.size() == std::string("x-").size() + 5);
  CHECK(rendered(ps).run == first.run);
  CHECK(rendered(std::string(ps) + "note: n\ntags: [t]\n").hash == first.hash);
  CHECK(rendered(std::string(ps) + "restart: {retries: 3}\n").hash == first.hash);  // the default value
  CHECK(rendered(std::string(ps) + "restart: {retries: 4}\n").hash != first.hash);
  CHECK(rendered(std::string(ps) + "image: i\n").hash != first.hash);
  CHECK(rendered(ps, {{{"d", {{"a", "2"}}}}}).hash != first.hash);
  CHECK(rendered(ps, {{{"d", {{"b", "1"}}}}}).hash != first.hash);
  RenderOptions again;
  again.attempt = 2;
  CHECK(rendered(ps, files, again).run == first.run + "-2");
  CHECK(rendered(ps, files, again).hash == first.hash);
  CHECK(first.owner["metadata"]["labels"]["mlk.dev/hash"] == first.hash.substr(0, 16));
}

TEST_CASE("a worker has one process for each of its GPUs") {
  const char* text =
      "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1}\nworkers: {count: 3, min: 2, gpu: 4}\n"
      "data: [{name: d, mount: /d, files: f}]\n";
  const json config = runtime_config(test::load(text));
  CHECK(config["workers"] == json{{"count", 12}, {"min", 8}});
  const Rendered run = rendered(text);
  const json& job = object(run, "Job", run.run + "-worker");
  CHECK(job["spec"]["completions"] == 3);
  CHECK(variable(job, "MLK_GPUS") == "4");
}

TEST_CASE("a template of the user changes the identity of the run") {
  Templates templates;
  templates.add("shapes/service.yaml",
                {templates.find("shapes/service.yaml")->text + "# mine\n", "/home/me/service.yaml"});
  CHECK(rendered(ps, files, {}, templates).hash != rendered(ps).hash);
}

TEST_CASE("own() makes every object belong to the owner") {
  const std::string uid = "11112222-3333-4444-5555-666677778888";
  // The patch must have no effect, because an object without an owner would outlive the run.
  const char* patched = "checkpoint: {volume: {pvc: c}}\npatch: {job: {metadata: {ownerReferences: null}}}\n";
  Rendered run = rendered(std::string(ps) + patched, files);
  CHECK_FALSE(run.owner["metadata"].contains("ownerReferences"));
  own(run.objects, run.run, uid);
  for (const json& each : run.objects) {
    REQUIRE(each["metadata"]["ownerReferences"].size() == 1);
    const json& owner = each["metadata"]["ownerReferences"][0];
    CHECK(owner["uid"] == uid);
    CHECK(owner["name"] == run.run);
    CHECK(owner["blockOwnerDeletion"] == false);
    CHECK_FALSE(owner.contains("controller"));
  }
  const json& job = object(run, "Job", run.run + "-worker");
  CHECK(variable(job, "MLK_CHECKPOINTS") == "/mlk/checkpoints/" + run.run + "-11112222");
  CHECK_FALSE(rendered(ps).objects[0]["metadata"].contains("ownerReferences"));
}

TEST_CASE("render() returns the objects in the order in which they are created") {
  std::vector<std::string> kinds;
  for (const json& each : rendered(ps).objects) kinds.push_back(each["kind"]);
  CHECK(kinds == std::vector<std::string>{"ConfigMap", "Secret", "ConfigMap", "Service", "Job", "Job"});
}

TEST_CASE("the Secret of a run has the given key, or else a placeholder") {
  RenderOptions options;
  options.secret = std::string(64, 'f');
  const Rendered with = rendered(ps, files, options);
  const json& secret = object(with, "Secret", with.run);
  CHECK(base64_decode(secret["data"]["key"].get<std::string>()) == options.secret);
  CHECK_FALSE(secret.contains("stringData"));
  const Rendered without = rendered(ps);
  CHECK(object(without, "Secret", without.run)["stringData"]["key"].get<std::string>().starts_with(
      "placeholder"));
}

TEST_CASE("the seeds of a role are its first 64 pods") {
  const Rendered run =
      rendered("name: x\nmode: ps\nrun: a\nworkers: {count: 100}\nservers: {count: 2}\n", {});
  const json& job = object(run, "Job", run.run + "-worker");
  const std::string seeds = variable(job, "MLK_SEEDS_WORKER");
  CHECK(std::count(seeds.begin(), seeds.end(), ',') == 63);
  CHECK(variable(job, "MLK_SEEDS_SERVER") ==
        run.run + "-server-0." + run.run + ":7070," + run.run + "-server-1." + run.run + ":7070");
  const Rendered single = rendered("name: x\nmode: single\nrun: a\n", {});
  CHECK(variable(object(single, "Job", single.run + "-worker"), "MLK_SEEDS_SERVER") == "<unset>");
}

TEST_CASE("a program of the user does not get MLK_CONFIG, MLK_DATA or MLK_SECRET") {
  const Rendered run = rendered("name: x\nmode: single\nrun: a\n", {});
  const json& job = object(run, "Job", run.run + "-worker");
  for (const char* name : {"MLK_CONFIG", "MLK_DATA", "MLK_SECRET"}) CHECK(variable(job, name) == "<unset>");
  CHECK(job["spec"]["template"]["spec"]["shareProcessNamespace"] == true);
  CHECK(job["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] ==
        "FallbackToLogsOnError");
}

std::set<int> final_codes(const std::string& text) {
  const Rendered run = rendered(text, {});
  std::set<int> codes;
  for (const json& rule : object(run, "Job", run.run + "-worker")["spec"]["podFailurePolicy"]["rules"]) {
    if (!rule.contains("onExitCodes")) continue;
    for (const json& code : rule["onExitCodes"]["values"]) codes.insert(code.get<int>());
  }
  return codes;
}

TEST_CASE("the program, the mode and `restart.on` decide which exit codes are final") {
  const std::string train = "train: {data: {path: /d}, steps: 1}\n",
                    any = "restart: {on: [preemption, any]}\n";
  CHECK(final_codes("name: x\nmode: single\n" + train) == std::set<int>{64, 65, 66, 67});
  CHECK(final_codes("name: x\nmode: ps\n" + train) == std::set<int>{64, 65, 66, 67});
  CHECK(final_codes("name: x\nmode: ps\n" + train + any) == std::set<int>{64, 65, 66, 67});
  // A retry does not help a missing program.
  const std::set<int> not_there{126, 127, 128};
  CHECK(final_codes("name: x\nmode: ps\nrun: a\n") == not_there);
  CHECK(final_codes("name: x\nmode: allreduce\nrun: a\n") == not_there);
  CHECK(final_codes("name: x\nmode: allreduce\nrun: a\n" + any).empty());
  const std::set<int> single = final_codes("name: x\nmode: single\nrun: a\n");
  CHECK(single.size() == 128);
  CHECK(*single.rbegin() == 128);
  CHECK(final_codes("name: x\nmode: single\nrun: a\n" + any).empty());
  const std::set<int> chosen = final_codes("name: x\nmode: single\nrun: a\nrestart: {on: [3, \"5-6\"]}\n");
  CHECK(chosen.size() == 250);
  CHECK(chosen.count(3) + chosen.count(5) + chosen.count(6) == 0);
  CHECK_MESSAGE(chosen.count(143) + chosen.count(137) == 0, "the ends of ranks whose run is stopped");
}

TEST_CASE("if files cannot be sent, the error names their folder and says why") {
  CHECK(refusal(ps, {{{"d", {{"big", std::string(901 * 1024, 'x')}}}}}) ==
        "data 'd': f holds 902 KiB, and at most 900 KiB can travel with a run in all `files:`");
  CHECK(refusal(ps, {{{"d", {{"a b", "1"}}}}}).find("the file 'a b' in f cannot travel") !=
        std::string::npos);
  CHECK(refusal(ps, {}) == "data 'd': f holds no files");
}

TEST_CASE("a run is refused if the number of its attempt makes a host name too long") {
  const std::string text = "name: a123456789012345678901234567890123456789\nmode: mine\nrun: a\n";
  Templates templates;
  templates.add("jobs/mine.yaml", {"roles: [{name: abcdefghij, count: 5000, ends_run: true}]", "mine.yaml"});
  RenderOptions options;
  options.attempt = 100;
  CHECK_NOTHROW(rendered(text, {}, {}, templates));
  CHECK_THROWS_AS(rendered(text, {}, options, templates), Error);
}

TEST_CASE("a run gets a warning if it trains without a volume for checkpoints") {
  const std::string with_image = std::string(ps) + "image: i\n";
  CHECK(rendered(with_image).warnings.size() == 1);
  CHECK(rendered(with_image + "checkpoint: {volume: {pvc: c}}\n").warnings.empty());
  CHECK(rendered("name: x\nmode: single\nimage: i\nrun: a\n", {}).warnings.empty());
  CHECK(rendered("name: x\nmode: single\nimage: i\ntrain: {data: {path: /d/x}, steps: 1}\n"
                 "data: [{name: d, mount: /d/, pvc: p}]\ncheckpoint: {volume: {pvc: c}}\n",
                 {})
            .warnings.empty());
  CHECK(rendered("name: x\nmode: single\nimage: i\ntrain: {data: {path: /e}, steps: 1}\n", {})
            .warnings.size() == 2);
}

TEST_CASE("a run gets a warning if this machine has fewer GPUs than the pods ask for") {
  const auto warnings = [](int workers, int gpus, int there) {
    RenderOptions options;
    options.local = there >= 0;
    options.local_gpus = there;
    return rendered(
               fmt::format("name: x\nmode: allreduce\nimage: i\nrun: a\nworkers: {{count: {}, gpu: {}}}\n",
                           workers, gpus),
               {}, options)
        .warnings;
  };
  using Warnings = std::vector<std::string>;
  CHECK(warnings(2, 1, -1).empty());  // another cluster than the embedded one
  CHECK(warnings(2, 0, 0).empty());
  CHECK(warnings(2, 2, 4).empty());
  CHECK(warnings(2, 1, 0) ==
        Warnings{"gpu: this machine has no GPU, so pods that ask for 1 wait; with `gpu: 0` "
                 "they compute on its processors"});
  CHECK(warnings(1, 4, 2) ==
        Warnings{"gpu: this machine has 2 GPUs, so pods that ask for 4 wait; with `gpu: 0` "
                 "they compute on its processors"});
  CHECK(warnings(3, 1, 1) ==
        Warnings{"gpu: this machine has 1 GPU, and the pods ask for 3: some of them wait "
                 "until others have ended"});
}

TEST_CASE("a container with too little memory gives a warning") {
  const auto warnings = [](const std::string& memory) {
    return rendered("name: x\nmode: single\nimage: i\nrun: a\nworkers: {memory: " + memory + "}\n", {})
        .warnings;
  };
  const auto of = [](const std::string& text) {
    return std::vector<std::string>{"memory of role worker: " + text};
  };
  CHECK(warnings("100") == of("100 is 100 bytes, in which no container starts; 100Mi?"));
  CHECK(warnings("100k") == of("100k is 100000 bytes, in which no container starts"));
  CHECK(warnings("4194303") == of("4194303 is 4194303 bytes, in which no container starts; 4194303Mi?"));
  CHECK(warnings("4095Ki") == of("4095Ki is 4193280 bytes, in which no container starts"));
  for (const char* enough : {"4194304", "4Mi", "2Gi"}) CHECK(warnings(enough).empty());
}

TEST_CASE("an experiment without an image gives a warning if it does not run on this machine") {
  const char text[] = "name: x\nmode: single\nrun: a\n";
  RenderOptions options;
  CHECK(rendered(text, {}, options).warnings ==
        std::vector<std::string>{
            "no image is named: mlk-runtime:local stands in its place, and a cluster cannot run it"});
  options.local = true;
  CHECK(rendered(text, {}, options).warnings.empty());
}

TEST_CASE("one file of the user defines a job type with roles, parameters and objects") {
  Templates templates;
  templates.add("jobs/mine.yaml", {R"(
parameters: {depth: 1}
roles:
  - {name: chief, ends_run: true, environment: {DEPTH: "${parameters.depth}", WORKERS: "${roles.worker.count}"}}
  - {name: worker, count: 3, pod: {spec: {hostname: "${run}"}}}
objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: "${run}-extra", labels: {mlk.dev/run: other, own: kept}}, data: {depth: "d=${parameters.depth}"}}
)",
                                   "/home/me/mine.yaml"});
  const std::string text = "name: x\nmode: mine\nrun: a\n";
  const Rendered run = rendered(text + "parameters: {depth: 7}\n", {}, {}, templates);
  CHECK(variable(object(run, "Job", run.run + "-chief"), "DEPTH") == "7");
  CHECK(variable(object(run, "Job", run.run + "-chief"), "WORKERS") == "3");
  CHECK(object(run, "Job", run.run + "-worker")["spec"]["completions"] == 3);
  CHECK_FALSE(object(run, "Job", run.run + "-worker")["spec"].contains("successPolicy"));
  const json& extra = object(run, "ConfigMap", run.run + "-extra");
  CHECK(extra["data"]["depth"] == "d=7");
  CHECK(extra["metadata"]["labels"]["mlk.dev/run"] == run.run);  // mlk finds objects by this label
  CHECK(extra["metadata"]["labels"]["own"] == "kept");
  CHECK(refusal(text + "parameters: {detph: 7}\n", {}, templates) ==
        "job type mine has no parameter 'detph'; did you mean 'depth'?");
  CHECK(refusal(text + "parameters: {depth: deep}\n", {}, templates).find("must be a number") !=
        std::string::npos);
  CHECK(refusal(text + "roles: {ps: {}}\n", {}, templates) == "job type mine has no role 'ps'");
}

TEST_CASE("if a patch has made an object invalid, the error names the patch") {
  const auto patched = [](const std::string& patch) {
    return refusal("name: x\nmode: single\nrun: a\npatch: {" + patch + "}\n", {});
  };
  CHECK(patched("job: {kind: null}") == "patch.job: kind must be text");
  CHECK(patched("job: {kind: 7}") == "patch.job: kind must be text");
  CHECK(patched("job: {apiVersion: [v1]}") == "patch.job: apiVersion must be text");
  CHECK(patched("job: {metadata: 7}") == "patch.job: metadata.name must be text");
  CHECK(patched("job: {metadata: {name: \"\"}}") == "patch.job: metadata.name must be text");
  CHECK(patched("job: {metadata: {annotations: 7}}") == "patch.job: metadata.annotations must be a map");
  CHECK(patched("service: {metadata: null}") == "patch.service: metadata.name must be text");
  CHECK(patched("job: {metadata: {labels: null}}")
            .starts_with("patch.job: the label mlk.dev/run of the Job must be x-"));
  CHECK(patched("job: {spec: {template: null}}")
            .starts_with("patch.job: the label mlk.dev/run of the pod must be x-"));
  CHECK(patched("pod: {metadata: {labels: {mlk.dev/run: mine}}}")
            .starts_with("patch.pod: the label mlk.dev/run of the pod must be x-"));
  CHECK(refusal("name: x\nmode: single\nrun: a\nworkers: {patch: {job: {kind: null}}}\n", {}) ==
        "roles.worker.patch.job: kind must be text");
  CHECK(refusal(std::string(ps) + "patch: {job: {metadata: {name: both}}}\n", files) ==
        "patches and templates make two objects Job both");
  CHECK(patched("job: {metadata: {labels: {team: a}}}, pod: {metadata: {labels: {team: a}}}") == "accepted");
}

TEST_CASE("if an object from a template is invalid, the error names the template") {
  const auto with_objects = [](const std::string& objects) {
    Templates templates;
    templates.add("jobs/mine.yaml",
                  {"roles: [{name: a, ends_run: true}]\nobjects: " + objects + "\n", "/home/me/mine.yaml"});
    return refusal("name: x\nmode: mine\nrun: a\n", {}, templates);
  };
  CHECK(with_objects("[x]") == "/home/me/mine.yaml: objects[0]: an object must be a map");
  CHECK(with_objects("[{$if: false}, {kind: ConfigMap, apiVersion: v1}]") ==
        "/home/me/mine.yaml: objects[1]: metadata.name must be text");
  CHECK(with_objects("[{$if: false, kind: 7}]") == "accepted");
  Templates templates;
  templates.add("shapes/owner.yaml", {"apiVersion: v1\n", "/home/me/owner.yaml"});
  CHECK(refusal(ps, files, templates) == "/home/me/owner.yaml: kind must be text");
  templates.add("shapes/owner.yaml",
                {"{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}\n", "/home/me/owner.yaml"});
  CHECK(refusal(ps, files, templates).starts_with("/home/me/owner.yaml: the owner must be the ConfigMap x-"));
  templates = Templates();
  templates.add("shapes/pod.yaml", {"spec: {}\n", "/home/me/pod.yaml"});
  CHECK(refusal(ps, files, templates)
            .starts_with("/home/me/pod.yaml: the label mlk.dev/run of the pod must be x-"));
}

TEST_CASE("the error for a mistake in a job type has file, line and column") {
  Templates templates;
  templates.add("jobs/mine.yaml", {"roles:\n  - {name: chief, end_run: true}\n", "/home/me/mine.yaml"});
  const std::string message = refusal("name: x\nmode: mine\nrun: a\n", {}, templates);
  CHECK(message.find("/home/me/mine.yaml:2:19: unknown key 'end_run'; did you mean 'ends_run'?") !=
        std::string::npos);
  CHECK(message.find("exactly one role must have ends_run: true") != std::string::npos);
}

FileContents with_digest(char digit, const std::string& source) {
  FileContents out;
  out.code = CodeArchive{.digest = std::string(64, digit), .bytes = "b", .source = source};
  return out;
}

TEST_CASE("the identity of a run depends on the digest of the code, but not on the git commit") {
  const std::string text = "name: x\nmode: single\nimage: i\nrun: [a, b]\ncode: .\n";
  const Rendered first = rendered(text, with_digest('1', ""));
  CHECK(rendered(text, with_digest('1', "{\"commit\":\"2\"}")).hash == first.hash);
  CHECK(rendered(text, with_digest('2', "")).hash != first.hash);
  CHECK(rendered(text + "workdir: src\n", with_digest('1', "")).hash != first.hash);
}

TEST_CASE("a trial mounts the ConfigMap of code that its sweep has sent") {
  RenderOptions options;
  options.files_of = "sweep-abcde";
  const Rendered trial =
      rendered("name: x\nmode: single\nimage: i\nrun: [a, b]\ncode: .\n", with_digest('1', ""), options);
  CHECK(std::none_of(trial.objects.begin(), trial.objects.end(),
                     [](const json& each) { return each["kind"] == "ConfigMap"; }));
  const json& pod = trial.objects.back()["spec"]["template"]["spec"];
  CHECK(pod["volumes"][0]["configMap"]["name"] == "mlk-code-1111111111111111");
  const json& command = pod["containers"][0]["command"];
  REQUIRE(command.size() == 8);
  CHECK(command[6] == "a");
  CHECK(command[7] == "b");
}

}  // namespace
}  // namespace mlk
