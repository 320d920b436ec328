// Where the outputs of a run are, and how mlk describes their folder.
#include "cli/run/state/outputs.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("run/state/outputs");

namespace mlk {
namespace {

using json = nlohmann::json;

json owner_with_outputs(const std::string& volume, const json& experiment = json::object()) {
  return {{"metadata", {{"name", "mnist-aaaaa"}, {"uid", "12345678-90ab"}}},
          {"data", {{"experiment", experiment.dump()}, {"outputs", volume}}}};
}

TEST_CASE("the outputs of a run lie below the run's folder in the volume that its record names") {
  const auto outputs = outputs_of(owner_with_outputs(R"({"pvc": "results"})"));
  REQUIRE(outputs);
  CHECK(describe(*outputs) == "claim results, folder mnist-aaaaa-12345678/outputs");
  CHECK(outputs->volume_name == "mlk-outputs");
  const json experiment = {{"checkpoint", {{"volume", {{"pvc", "results"}}}}}};
  CHECK(outputs_of(owner_with_outputs(R"({"pvc": "results"})", experiment))->volume_name ==
        "mlk-checkpoints");
  CHECK(to_json(*outputs) == json{{"volume", {{"pvc", "results"}}},
                                  {"path", "mnist-aaaaa-12345678/outputs"},
                                  {"folder", nullptr}});
}

TEST_CASE("a record with anything else than a volume names no outputs") {
  for (const char* volume : {"", "x", "{}", "[1]", "7"}) CHECK_FALSE(outputs_of(owner_with_outputs(volume)));
  CHECK_FALSE(outputs_of(json{{"metadata", {{"name", "a"}}}}));
}

TEST_CASE("the status names a folder of outputs as full only if files are there") {
  auto outputs = outputs_of(owner_with_outputs(R"({"pvc": "results"})"));
  CHECK(outputs_text(outputs, true) ==
        "what is there is in claim results, folder mnist-aaaaa-12345678/outputs");
  outputs->folder = "/here";
  outputs->has_files = true;
  CHECK(outputs_text(outputs, false) == "in /here");
  outputs->has_files = false;
  CHECK(outputs_text(outputs, false) == "none yet; their folder will be /here");
  CHECK(outputs_text(outputs, true) == "none");
  CHECK(outputs_text(std::nullopt, true) == "");
}

}  // namespace
}  // namespace mlk
