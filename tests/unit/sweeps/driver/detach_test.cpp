#include "sweeps/driver/detach.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/util/text.h"
#include "sweeps/driver/driver_rights.h"
#include "sweeps/read/fetch.h"
#include "sweeps/space/points_file.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/trials/sweep_row.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/detach");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char detached_experiment[] =
    "name: x\nmode: allreduce\nimage: own/image:1\nimage_pull_secrets: [key]\n"
    "train: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 3, objective: maximize accuracy, max_failures: 1}\n";

DriverInput input_for(const Sweeper& sweeper, const std::vector<std::string>& words) {
  DriverInput input;
  input.version = "0";
  input.file = sweeper.file;
  input.parameters = words;
  input.image = "own/image:1";
  return input;
}

// The result of detach(). `key`: the key of the driver's input.
struct Detached {
  std::string sweep, key;
  bool started = false;
};
// Does the work of `mlk sweep --detach`, up to the creation of the driver's Job.
Detached detach(Sweeper& sweeper, const std::vector<std::string>& words) {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define(words);
  const StartRequest request = sweeper.request(sweep);
  DriverInput input = input_for(sweeper, words);
  input.sweep = sweep.identity;
  fill_defined_as(input, {});
  const json job = render_driver(sweep, input, sweeper.templates, {"default", ""});
  prepare_driven(client, request, sweeper.hooks());
  Detached out{sweep.identity.run, key_of_input(to_text(input)), false};
  out.started = start_driver(client, "default", out.sweep, job, to_text(input), sweeper.hooks());
  return out;
}

// Does the work of `mlk drive`, but does not check the rights of the driver.
SweepStatus drive_detached(Sweeper& sweeper, const Detached& detached) {
  kube::Client client(sweeper.cluster.config());
  const DriverTask task = read_driver_task(client, "default", detached.sweep, detached.key);
  const Templates templates = templates_of(task.input);
  const PrepareOptions prepared = options_of(task.input, task.files);
  const FileContext file_context = file_context_of(task.input.file, prepared);
  const Definition sweep = definition_of(task.input, task.files, templates);
  REQUIRE(sweep.identity.run == detached.sweep);
  const StartRequest request{.definition = sweep,
                             .file_context = file_context,
                             .templates = templates,
                             .name_space = "default",
                             .version = "0",
                             .local = true,
                             .retry_failed = false,
                             .dry_run = false};
  return drive(client, request,
               {.submit = sweeper.hooks(),
                .changed = [](const SweepStatus&) {},
                .waiting = [](const std::string&) {},
                .lease = test::short_lease});
}

void write_to(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The right that a request needs, as a verb ("get", "list" ...) and a resource. Empty for questions about
// rights.
std::string right_of(const local::Request& request) {
  const std::string marker = "/namespaces/default/";
  const std::size_t at = request.path.find(marker);
  if (at == std::string::npos) return "";
  const std::vector<std::string> parts = split(request.path.substr(at + marker.size()), '/');
  std::string verb = request.method == "POST"     ? "create"
                     : request.method == "PATCH"  ? "patch"
                     : request.method == "DELETE" ? "delete"
                     : request.method == "PUT"    ? "update"
                     : request.flag("watch")      ? "watch"
                     : parts.size() == 1          ? "list"
                                                  : "get";
  return verb + " " + parts[0] + (parts.size() > 2 ? "/" + parts[2] : "");
}

std::string rights_of_role() {
  std::set<std::string> out;
  for (const kube::AccessQuestion& each : driver_questions(render_driver_rights(Templates(), "default")))
    out.insert(words_of(each));
  return join({out.begin(), out.end()}, ", ");
}

}  // namespace

TEST_CASE("a driver defines the same sweep from its input as the command that wrote the input") {
  const local::samples::Folder folder;
  write_to(folder.path() / "code" / "train.py", std::string("print(1)\n\0\xff", 11));
  write_to(folder.path() / "points.csv", "lr,batch\n0.1,16\n0.2,32\n");
  Sweeper sweeper(
      "name: x\nmode: single\nimage: i\nrun: python3 /code/train.py ${sweep.lr} ${sweep.batch} "
      "$HOW\ncode: {path: code, exclude: [\"*.csv\"]}\n"
      "data: [{name: code, mount: /code, files: code}]\n"
      "sweep: {points: points.csv, objective: maximize accuracy}\n");
  sweeper.file.folder = folder.path();
  Templates templates;
  templates.add("jobs/mine.yaml", {templates.find("jobs/single.yaml")->text, "/home/me/mine.yaml"});
  PrepareOptions options;
  options.overrides.set = {"note=here", "sweep.parallel=7"};
  options.overrides.env = {"HOW=fast"};
  const Definition typed = define_sweep(sweeper.file, options, {}, templates);

  DriverInput input = input_for(sweeper, {});
  input.overrides = options.overrides;
  input.folders = {"code"};
  input.code = typed.files.code->digest;
  input.image_built = "registry/team/x@sha256:1";
  input.code_in_image = true;
  input.code_on_machine = "/cache/code";
  input.python_on_machine = "/cache/python";
  input.texts["points.csv"] =
      read_file_beside(sweeper.file, options, "points.csv", "points", longest_points_file).text;
  input.own_templates["jobs/mine.yaml"] = templates.find("jobs/mine.yaml")->text;
  input.sweep = typed.identity;
  fill_defined_as(input, typed.files);
  const DriverInput read = parse_driver_input(to_text(input));
  CHECK(read.image_built == input.image_built);
  CHECK(read.code_in_image);
  CHECK(read.code_on_machine == input.code_on_machine);
  CHECK(read.python_on_machine == input.python_on_machine);
  std::filesystem::remove_all(folder.path() / "code");
  std::filesystem::remove(folder.path() / "points.csv");
  FileContents carried{typed.files.folders};
  carried.code = CodeArchive{.digest = read.code, .bytes = ""};
  const Definition driven = definition_of(read, carried, templates_of(read));
  CHECK(driven.identity.run == typed.identity.run);
  CHECK(driven.identity.hash == typed.identity.hash);
  CHECK(driven.points == typed.points);
  CHECK(driven.files.folders == typed.files.folders);
  CHECK(driven.files.code->digest == typed.files.code->digest);
  CHECK(driven.spec.parallel == 7);
}

TEST_CASE("a driver refuses the input that another version of mlk wrote, and a text that is no input") {
  const Sweeper sweeper(detached_experiment);
  DriverInput input = input_for(sweeper, {"lr=0.1,0.2"});
  input.defined_as = "x-other";
  CHECK_THROWS_WITH_AS(definition_of(input, {}, sweeper.templates),
                       doctest::Contains("this mlk derives another name for sweep x-other"), Error);
  CHECK_THROWS_WITH_AS(parse_driver_input("{\"schema\": 2}"),
                       "the input of this driver was written by another version of mlk", Error);
  CHECK_THROWS_AS(parse_driver_input("nonsense"), Error);
}

TEST_CASE("input_objects() splits a long input into several ConfigMaps, but never inside a character") {
  Sweeper sweeper(detached_experiment);
  kube::Client client(sweeper.cluster.config());
  sweeper.cluster.ask("POST", test::config_maps_path, test::owner_of("x-abcde"));
  DriverInput input = input_for(sweeper, {});
  for (int i = 0; i < 700'000; ++i) input.file.text += "ä";
  const std::string text = to_text(input);
  const json job = {
      {"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", {{"name", "x-abcde-driver-q"}}}};
  const std::vector<json> parts =
      input_objects(sweeper.cluster.ask("GET", test::config_maps_path + "/x-abcde"), text);
  REQUIRE(parts.size() == 2);
  for (const json& part : parts) {
    CHECK(part["data"]["input"].get<std::string>().size() <= longest_input_part);
    sweeper.cluster.ask("POST", test::config_maps_path, part);
  }
  const DriverTask task = read_driver_task(client, "default", "x-abcde", key_of_input(text));
  CHECK(task.input.file.text == input.file.text);
  const std::string too_long(most_input_parts * longest_input_part + 1, 'x');
  CHECK_THROWS_AS(input_objects(test::owner_of("x-abcde"), too_long), Error);
}

TEST_CASE("a driver refuses an input that is missing, or that was changed after it was stored") {
  Sweeper sweeper(detached_experiment);
  const Detached detached = detach(sweeper, {"lr=0.1,0.2"});
  kube::Client client(sweeper.cluster.config());
  CHECK_THROWS_WITH_AS(read_driver_task(client, "default", detached.sweep, "other"),
                       doctest::Contains("not found"), Error);
  json part = sweeper.cluster.ask(
      "GET", test::config_maps_path + "/" + input_part_name(detached.sweep, detached.key, 0));
  sweeper.cluster.ask("DELETE", test::config_maps_path + "/" + part["metadata"]["name"].get<std::string>());
  part["metadata"].erase("resourceVersion");
  part["metadata"].erase("uid");
  part["data"]["input"] = "{}";
  sweeper.cluster.ask("POST", test::config_maps_path, part);
  CHECK_THROWS_WITH_AS(read_driver_task(client, "default", detached.sweep, detached.key),
                       doctest::Contains("was changed"), Error);
}

TEST_CASE("the Job of a driver belongs to its sweep, runs the same mlk, and contains no credential") {
  Sweeper sweeper(detached_experiment);
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  DriverInput input = input_for(sweeper, {"lr=0.1,0.2"});
  const json job = render_driver(sweep, input, sweeper.templates, {"space", ""});
  const std::string key = key_of_input(to_text(input));
  CHECK(job["metadata"]["name"] == sweep.identity.run + "-driver-" + key);
  CHECK(job["metadata"]["namespace"] == "space");
  CHECK(is_driver(job));
  CHECK(is_driver(job["spec"]["template"]));
  const json& pod = job["spec"]["template"]["spec"];
  CHECK(pod["serviceAccountName"] == "mlk-driver");
  CHECK(pod["automountServiceAccountToken"] == true);
  CHECK(pod["imagePullSecrets"] == json({{{"name", "key"}}}));
  CHECK_FALSE(pod.contains("volumes"));
  CHECK(pod["containers"][0]["image"] == "own/image:1");
  CHECK(pod["containers"][0]["command"] == json({"mlk", "drive", sweep.identity.run, key, "-n", "space"}));
  CHECK(job["spec"]["podReplacementPolicy"] == "TerminatingOrFailed");

  input.local = true;
  const json local = render_driver(sweep, input, sweeper.templates, {"default", "/state/kubeconfig"});
  CHECK_FALSE(local["spec"]["template"]["spec"].contains("serviceAccountName"));
  CHECK(local["spec"]["template"]["spec"]["automountServiceAccountToken"] == false);
  CHECK(local["spec"]["template"]["spec"]["containers"][0]["command"].back() == "/state/kubeconfig");

  input.image = "other/image:2";
  CHECK(render_driver(sweep, input, sweeper.templates, {"space", ""})["metadata"]["name"] !=
        job["metadata"]["name"]);
}

TEST_CASE("a user's template for the driver is refused if it does not make the driver's Job") {
  Sweeper sweeper(detached_experiment);
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  std::string text = sweeper.templates.find("shapes/driver.yaml")->text;
  text.replace(text.find("mlk.dev/role: driver"), 20, "mlk.dev/role: worker");
  Templates templates;
  templates.add("shapes/driver.yaml", {text, "mine.yaml"});
  CHECK_THROWS_WITH_AS(render_driver(sweep, input_for(sweeper, {}), templates, {"space", ""}),
                       doctest::Contains("mine.yaml: it must make the Job x-"), Error);
}

TEST_CASE("the Job and the pods of a driver are not listed as trials of its sweep") {
  Sweeper sweeper(detached_experiment);
  const Detached detached = detach(sweeper, {"lr=0.1,0.2"});
  kube::Client client(sweeper.cluster.config());
  json pod = test::pod_of(detached.sweep, "Running", "driver");
  pod["metadata"]["labels"]["mlk.dev/sweep"] = detached.sweep;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = driver_name(detached.sweep, detached.key);
  sweeper.cluster.store.create("pods", pod);
  const SweepObjects objects = fetch_sweep(client, "default", detached.sweep, WithPods::yes);
  CHECK(objects.jobs.empty());
  CHECK(objects.pods.empty());
  CHECK(objects.drivers.size() == 1);
  CHECK(objects.driver_pods.size() == 1);
  const SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
  CHECK(status.counts.all() == 2);
  CHECK(status.driver.what == "runs in the cluster");
  CHECK(status.why.empty());
  const std::vector<RunStatus> rows =
      list_runs(client, "default", std::chrono::system_clock::now(), {}, row_of_sweep);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].steps == 2);
  CHECK(rows[0].phase == Phase::incomplete);
}

TEST_CASE("the status of a detached sweep says why its driver has failed") {
  Sweeper sweeper(detached_experiment);
  const Detached detached = detach(sweeper, {"lr=0.1,0.2"});
  kube::Client client(sweeper.cluster.config());
  const auto told = [&] {
    return observe_sweep(fetch_sweep(client, "default", detached.sweep, WithPods::yes),
                         std::chrono::system_clock::now());
  };
  CHECK(told().driver.goes_on);
  CHECK(told().driver.what == "is being started");
  json pod = test::pod_of(detached.sweep, "Failed", "driver");
  pod["metadata"]["labels"]["mlk.dev/sweep"] = detached.sweep;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = driver_name(detached.sweep, detached.key);
  const std::string last = "driving x\nmlk: error: the driver may not create jobs\nhint: ask somebody\n";
  pod["status"]["containerStatuses"] = {
      {{"name", "main"}, {"state", {{"terminated", {{"exitCode", 4}, {"message", last}}}}}}};
  sweeper.cluster.store.create("pods", pod);
  CHECK(told().why == "no trial runs: its driver failed: the driver may not create jobs");
}

TEST_CASE("if the driver has ended, detaching the same sweep once more starts a new driver") {
  Sweeper sweeper(detached_experiment);
  const Detached first = detach(sweeper, {"lr=0.1,0.2"});
  CHECK(first.started);
  const std::string name = driver_name(first.sweep, first.key);
  const std::string uid = sweeper.cluster.ask("GET", test::jobs_path + "/" + name)["metadata"]["uid"];
  CHECK_FALSE(detach(sweeper, {"lr=0.1,0.2"}).started);
  CHECK(sweeper.cluster.ask("GET", test::jobs_path + "/" + name)["metadata"]["uid"] == uid);
  const json ended = {{"conditions", {{{"type", "Failed"}, {"status", "True"}}}}};
  sweeper.cluster.ask("PATCH", test::jobs_path + "/" + name + "/status", {{"status", ended}},
                      "application/merge-patch+json");
  CHECK(detach(sweeper, {"lr=0.1,0.2"}).started);
  CHECK(sweeper.cluster.ask("GET", test::jobs_path + "/" + name)["metadata"]["uid"] != uid);
}

TEST_CASE("a driver with the new values replaces the old driver if values are added") {
  Sweeper sweeper(detached_experiment);
  const Detached first = detach(sweeper, {"lr=0.1,0.2"});
  const Detached second = detach(sweeper, {"lr=0.1,0.2,0.3"});
  CHECK(second.sweep == first.sweep);
  CHECK(second.key != first.key);
  CHECK(sweeper.cluster.names("jobs") == driver_name(second.sweep, second.key) + " ");
  CHECK_FALSE(sweeper.cluster.has("configmaps", input_part_name(first.sweep, first.key, 0)));
  CHECK(sweeper.cluster.has("configmaps", input_part_name(second.sweep, second.key, 0)));
}

TEST_CASE("if detaching a sweep is cut off at any request, the same command completes it later") {
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = Sweeper::first_to_cut; which < 20; which += Sweeper::to_next_to_cut) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(detached_experiment);
      const Detached first = detach(sweeper, {"lr=0.1,0.2"});
      sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        detach(sweeper, {"lr=0.1,0.2,0.3"});
      } catch (const Error&) {
        was_cut = true;
      }
      was_cut = was_cut || sweeper.interrupted;
      CHECK(sweeper.cluster.names("jobs") != "");  // a driver exists at every moment
      sweeper.let_all_through();
      const Detached second = detach(sweeper, {"lr=0.1,0.2,0.3"});
      CHECK(sweeper.cluster.names("jobs") == driver_name(second.sweep, second.key) + " ");
      const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
      CHECK(drive_detached(sweeper, second).counts.succeeded == 3);
      if (!was_cut) {
        CHECK(which > 4);  // every request was cut off once
        break;
      }
      REQUIRE(which + Sweeper::to_next_to_cut < 20);
    }
  }
}

// Drives a sweep with trials that fail and a trial that is stopped. The answer to the first POST of each kind
// is lost, so that the driver has to check whether the object exists.
TEST_CASE("the Role of a driver allows exactly the requests that the driver makes") {
  Sweeper sweeper(detached_experiment);
  const Detached detached = detach(sweeper, {"lr=0.1,0.2,0.3"});
  std::mutex mutex;
  std::set<std::string> used, lost;
  sweeper.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    const std::string right = right_of(request);
    if (right.empty()) return std::nullopt;
    const std::lock_guard lock(mutex);
    used.insert(right);
    if (request.method != "POST" || has(request.path, "/leases") || !lost.insert(right).second)
      return std::nullopt;
    sweeper.cluster.ask(request.method, request.path, json::parse(request.body));
    return test::refusal(503, "ServiceUnavailable", "the answer is lost");
  });
  const test::PlayedControllers controllers(
      sweeper.cluster, [](double lr) { return lr < 0.15 ? test::PlayedControllers::runs_on : 64; });
  const SweepStatus status = drive_detached(sweeper, detached);
  CHECK(status.phase == Phase::failed);
  CHECK(status.counts.failed == 2);
  sweeper.let_all_through();
  CHECK(join({used.begin(), used.end()}, ", ") == rights_of_role());
}

TEST_CASE("require_own_rights() names the right that a driver lacks") {
  const std::vector<json> rights = render_driver_rights(Templates(), "default");
  const std::vector<kube::AccessQuestion> all = driver_questions(rights);
  REQUIRE(all.size() == 22);
  Sweeper sweeper(detached_experiment);
  kube::Client client(sweeper.cluster.config());
  CHECK_NOTHROW(require_own_rights(client, "default", rights));
  for (const kube::AccessQuestion& taken : all) {
    const std::string words = words_of(taken);
    INFO(words);
    sweeper.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (!has(request.path, "selfsubjectaccessreviews")) return std::nullopt;
      const json asked = json::parse(request.body)["spec"]["resourceAttributes"];
      const bool same = asked["verb"] == taken.verb && asked["resource"] == taken.resource.plural &&
                        asked["group"] == taken.resource.group &&
                        asked.value("subresource", "") == taken.subresource;
      local::Answer answer;
      answer.status = 201;
      answer.body = json({{"status", {{"allowed", !same}}}}).dump();
      return answer;
    });
    CHECK_THROWS_WITH_AS(require_own_rights(client, "default", rights),
                         ("the driver may not " + words + " in namespace 'default'").c_str(), Error);
  }
}

TEST_CASE("a driver ends with the message of the server if it loses a right while it drives") {
  // This test does not cover the rights that a driver needs only after a lost answer. It does not cover the
  // right to logs either, since mlk reads logs best effort.
  for (const std::string right :
       {"list pods", "watch jobs", "create configmaps", "create secrets", "create services", "create jobs",
        "create leases", "get leases", "patch configmaps"}) {
    INFO(right);
    Sweeper sweeper(detached_experiment);
    const Detached detached = detach(sweeper, {"lr=0.1,0.2"});
    sweeper.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (right_of(request) != right) return std::nullopt;
      return test::refusal(403, "Forbidden", "mlk-driver cannot " + right);
    });
    const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
    std::string said;
    try {
      drive_detached(sweeper, detached);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(has(said, "mlk-driver cannot " + right));
  }
}
