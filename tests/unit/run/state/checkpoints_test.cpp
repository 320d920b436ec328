// Tests where the checkpoints of a run are and how mlk describes their folder.
#include "cli/run/state/checkpoints.h"

#include <doctest/doctest.h>

#include "cli/util/text.h"

TEST_SUITE_BEGIN("run/state/checkpoints");

namespace mlk {
namespace {

using json = nlohmann::json;

json owner_with(const json& experiment) {
  return {{"metadata", {{"name", "mnist-aaaaa"}, {"uid", "12345678-90ab"}}},
          {"data", {{"experiment", experiment.dump()}}}};
}

json training_on(const json& volume) {
  return {{"train", {{"steps", 10}}}, {"checkpoint", {{"every", 5}, {"volume", volume}}}};
}

TEST_CASE("the path of the newest checkpoint consists of the run's folder and the step") {
  const json owner = owner_with(training_on({{"pvc", "ckpt"}}));
  auto place = checkpoint_place(owner, {{"checkpoint", 3000}});
  REQUIRE(place);
  CHECK(describe(*place) == "claim ckpt, folder mnist-aaaaa-12345678/step-000000003000");
  CHECK(to_json(place) == json{{"volume", {{"pvc", "ckpt"}}},
                               {"path", "mnist-aaaaa-12345678/step-000000003000"},
                               {"step", 3000},
                               {"folder", nullptr}});
  place->folder = "/state/claims/x";
  CHECK(describe(*place) == "/state/claims/x");
  CHECK(to_json(place)["folder"] == "/state/claims/x");
  CHECK(describe(*checkpoint_place(owner, nullptr)) == "claim ckpt, folder mnist-aaaaa-12345678");
}

TEST_CASE("a program's own checkpoints lie in the run's folder") {
  json experiment = training_on({{"hostPath", "/data"}});
  experiment.erase("train");
  const auto place = checkpoint_place(owner_with(experiment), {{"checkpoint", 3000}});
  REQUIRE(place);
  CHECK_FALSE(place->step);
  CHECK(describe(*place) == "/data/mnist-aaaaa-12345678 of the nodes");
}

TEST_CASE("describe() says where the folder is for each kind of volume") {
  const auto words = [](const json& volume) {
    return describe(*checkpoint_place(owner_with(training_on(volume)), {{"checkpoint", 7}}));
  };
  const std::string path = "mnist-aaaaa-12345678/step-000000000007";
  CHECK(words({{"nfs", {{"server", "nas"}, {"path", "/export"}}}}) == "nas:/export, folder " + path);
  CHECK(words({{"hostPath", "/data"}}) == "/data/" + path + " of the nodes");
  CHECK(words({{"csi", json::object()}}) == "its volume, folder " + path);
  CHECK(describe(*checkpoint_place(owner_with(training_on({{"pvc", "c"}})), {{"checkpoint", 0}})) ==
        "claim c, folder mnist-aaaaa-12345678/step-000000000000");
  CHECK_FALSE(checkpoint_place(owner_with(training_on({{"pvc", "c"}})), {{"checkpoint", -1}})->step);
}

TEST_CASE("unsaved_text() says since which step no checkpoint was saved, and the reason if it is known") {
  CHECK(unsaved_text(nullptr) == "");
  CHECK(unsaved_text({{"checkpoint", 100}}) == "");
  CHECK(unsaved_text({{"unsaved", 0}, {"unsaved_reason", "Read-only file system"}}) ==
        "none yet: Read-only file system");
  CHECK(unsaved_text({{"unsaved", 120}}) == "none yet");
  CHECK(unsaved_text({{"checkpoint", 100}, {"unsaved", 120}}) == "none since step 120");
  CHECK(unsaved_text({{"checkpoint", 100}, {"unsaved", 120}, {"unsaved_reason", "No space\x1b[1m left"}}) ==
        "none since step 120: " + printable("No space\x1b[1m left"));
  CHECK(unsaved_text({{"unsaved", "many"}}) == "");
}

TEST_CASE("checkpoint_text() says \"none yet\" if the run has reported no checkpoint but may still do so") {
  const std::string where = "claim c, folder mnist-aaaaa-12345678";
  auto place = checkpoint_place(owner_with(training_on({{"pvc", "c"}})), nullptr);
  REQUIRE(place);
  CHECK(checkpoint_text("step 7", place, false) == "step 7 in " + where);
  CHECK(checkpoint_text("step 7", place, true) == "step 7 in " + where);
  CHECK(checkpoint_text("", place, false) == "none yet; its folder will be " + where);
  CHECK(checkpoint_text("", place, true) == "none reported; what the program has saved is in " + where);
  place->has_files = false;
  CHECK(checkpoint_text("", place, false) == "none yet; its folder will be " + where);
  CHECK(checkpoint_text("", place, true).empty());
  place->has_files = true;
  CHECK(checkpoint_text("", place, false) == "in " + where);
  CHECK(checkpoint_text("", place, true) == "in " + where);
  CHECK(checkpoint_text("step 7", std::nullopt, true) == "step 7");
  CHECK(checkpoint_text("", std::nullopt, false).empty());
}

TEST_CASE("checkpoint_place() returns nothing if no volume for checkpoints outlives the pods") {
  CHECK_FALSE(checkpoint_place(owner_with(training_on({{"emptyDir", json::object()}})), nullptr));
  CHECK_FALSE(checkpoint_place(owner_with({{"train", json::object()}}), nullptr));
  CHECK_FALSE(checkpoint_place(owner_with(training_on(json::object())), nullptr));
  CHECK_FALSE(checkpoint_place({{"metadata", {{"name", "x"}}}}, nullptr));
  CHECK(to_json(std::nullopt) == nullptr);
}

}  // namespace
}  // namespace mlk
