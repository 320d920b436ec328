// How the pods of a run keep what their program writes into the folders of `outputs:`.
#include "cli/render/outputs.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "cli/render/own.h"
#include "tests/unit/render/rendered_pod.h"

TEST_SUITE_BEGIN("render/outputs");

namespace mlk {
namespace {

using nlohmann::json;
using test::named;
using test::pod_spec_of;
using test::run_of;
using test::value_in;

json effective_with(const std::string& more) {
  json out = {{"run", "p"}, {"checkpoint", json::object()}};
  out.update(json::parse(more));
  return out;
}

TEST_CASE("outputs go to their own volume, else to that of the checkpoints, else to the usual claim") {
  const std::string paths = R"("path": ["out"])";
  const json own = effective_with("{\"outputs\": {" + paths + R"(, "to": {"pvc": "a"}},
                             "checkpoint": {"volume": {"pvc": "b"}}})");
  CHECK(outputs_place(own, "c")->volume == json{{"pvc", "a"}});
  CHECK(outputs_place(own, "c")->mount == "/mlk/outputs");
  const json shared =
      effective_with("{\"outputs\": {" + paths + R"(}, "checkpoint": {"volume": {"pvc": "b"}}})");
  CHECK(outputs_place(shared, "c")->volume == json{{"pvc", "b"}});
  CHECK(outputs_place(shared, "c")->mount == "/mlk/checkpoints");
  const json same = effective_with("{\"outputs\": {" + paths + R"(, "to": {"pvc": "b"}},
                              "checkpoint": {"volume": {"pvc": "b"}}})");
  CHECK(outputs_place(same, "")->is_of_checkpoints);
  const json scratch =
      effective_with("{\"outputs\": {" + paths + R"(}, "checkpoint": {"volume": {"emptyDir": {}}}})");
  CHECK(outputs_place(scratch, "c")->volume == json{{"pvc", "c"}});
  CHECK_FALSE(outputs_place(scratch, ""));
  CHECK_FALSE(outputs_place(effective_with("{}"), "c"));
}

TEST_CASE("mlk-pod starts a program with outputs, and gets their folders") {
  const json with = effective_with(R"({"outputs": {"path": ["out", "my logs"]}})");
  CHECK(outputs_words(with, "c") ==
        std::vector<std::string>{"/etc/mlk/pod/mlk-pod", "start", "out", "my logs", "--"});
  CHECK(outputs_words(with, "").empty());
  CHECK(outputs_words(effective_with("{}"), "c").empty());
  const json in_image = effective_with(R"({"outputs": {"path": ["out"]}, "workdir": "/app"})");
  CHECK(outputs_words(in_image, "c")[2] == "--own-folder");
  const json in_code =
      effective_with(R"({"outputs": {"path": ["out"]}, "workdir": "src", "code": {"path": "."}})");
  CHECK(outputs_words(in_code, "c")[2] == "out");
}

TEST_CASE("one line says where the outputs stay, or that they do not") {
  CHECK(outputs_advice(effective_with(R"({"outputs": {"path": ["out", "logs"]}})"), "results") ==
        "what the program writes into out, logs stays, in claim results");
  CHECK(outputs_advice(effective_with(R"({"outputs": {"path": ["out"], "to": {"hostPath": "/x"}}})"), "") ==
        "what the program writes into out stays");
  CHECK(outputs_advice(effective_with(R"({"outputs": {"path": ["out"]}})"), "") ==
        "what the program writes into out ends with its pod, since no volume is named for it: "
        "--set outputs.to.pvc=CLAIM, or export MLK_OUTPUTS_CLAIM=CLAIM");
  CHECK(outputs_advice(effective_with("{}"), "results") ==
        "what the program writes into its folder ends with its pod; this keeps it: outputs: out");
  CHECK(outputs_advice(json{{"train", json::object()}}, "results") == "");
}

json object_called(const std::vector<json>& objects, const std::string& prefix) {
  const auto found = std::find_if(objects.begin(), objects.end(), [&](const json& object) {
    return object["metadata"]["name"].get<std::string>().starts_with(prefix);
  });
  return found == objects.end() ? json() : *found;
}

TEST_CASE("each rank has a folder of its own in the run's folder of the claim") {
  FileContents contents;
  contents.outputs_claim = "results";
  Rendered run = run_of(
      "name: x\nmode: allreduce\nimage: i\nrun: [p, -q]\nworkers: {count: 2}\noutputs: out\n", contents);
  CHECK(json::parse(run.owner["data"]["outputs"].get<std::string>()) == json{{"pvc", "results"}});
  const json helper = object_called(run.objects, "mlk-pod-");
  CHECK(helper["metadata"]["labels"]["mlk.dev/shared"] == "helper");
  CHECK(helper["binaryData"]["mlk-pod"].get<std::string>().size() / 4 * 3 <= 700 * 1024);
  own(run.objects, run.run, "abcdefgh-1");
  const json spec = pod_spec_of(run);
  CHECK(value_in(spec, "MLK_OUTPUTS") == "/mlk/outputs/" + run.run + "-abcdefgh/outputs/$(MLK_RANK)");
  CHECK(spec["containers"][0]["command"] == json{"/etc/mlk/pod/mlk-pod", "start", "out", "--", "p", "-q"});
  const json& mounts = spec["containers"][0]["volumeMounts"];
  CHECK(named(mounts, "mlk-outputs")["mountPath"] == "/mlk/outputs");
  CHECK(named(mounts, "mlk-pod")["mountPath"] == "/etc/mlk/pod");
}

TEST_CASE("a run without outputs has no mlk-pod, and the usual claim does not change its name") {
  FileContents contents;
  contents.outputs_claim = "results";
  const std::string text = "name: x\nmode: single\nimage: i\nrun: [p]\n";
  const Rendered without = run_of(text), with = run_of(text, contents);
  CHECK(without.run == with.run);
  CHECK(object_called(with.objects, "mlk-pod-").is_null());
  CHECK_FALSE(with.owner["data"].contains("outputs"));
  CHECK(run_of(text + "outputs: out\n").run == run_of(text + "outputs: out\n", contents).run);
}

}  // namespace
}  // namespace mlk
