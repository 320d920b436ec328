// Checks the bytes of a new image, and which parts of its base the image keeps.
#include "cli/image/compose.h"

#include <doctest/doctest.h>

#include "cli/util/hash.h"

TEST_SUITE_BEGIN("image/compose");

namespace {

using mlk::image::Addition;
using mlk::image::Base;
using mlk::image::Composed;
using nlohmann::json;

std::string id_with(char digit) { return "sha256:" + std::string(64, digit); }

Addition added(char digit, const std::string& purpose) {
  return {{{mlk::image::oci_types.layer, id_with(digit), 100}, id_with('f'), "file"}, purpose};
}

// A base with one layer, the history entry of the layer, and one history entry without a layer.
Base some_base(bool docker = false) {
  const mlk::image::MediaTypes& types = docker ? mlk::image::docker_types : mlk::image::oci_types;
  Base out;
  out.manifest.media_type = types.manifest;
  out.manifest.configuration = {types.configuration, id_with('c'), 5};
  out.manifest.layers = {{types.layer, id_with('1'), 7}};
  out.configuration.diff_ids = {id_with('a')};
  out.configuration.whole = {
      {"os", "linux"},
      {"architecture", "amd64"},
      {"created", "2024-02-03T00:00:00Z"},
      {"own", {{"kept", true}}},
      {"config",
       {{"Env", {"PATH=/bin", "A=1"}},
        {"Entrypoint", {"sh"}},
        {"Cmd", {"-c"}},
        {"WorkingDir", "/"},
        {"User", "0"}}},
      {"rootfs", {{"type", "layers"}, {"diff_ids", {id_with('a')}}}},
      {"history", {{{"created_by", "ADD"}}, {{"created_by", "ENV"}, {"empty_layer", true}}}}};
  return out;
}

json configuration_in(const Composed& composed) { return json::parse(composed.configuration); }
json manifest_in(const Composed& composed) { return json::parse(composed.manifest); }

json composed_above(const Base& base, const mlk::image::Settings& settings = {}) {
  return configuration_in(mlk::image::compose(base, {added('2', "code")}, settings));
}

}  // namespace

TEST_CASE("compose() returns the same bytes for the same arguments, and the digests match the bytes") {
  const std::vector<Addition> additions{added('2', "python"), added('3', "code")};
  const Composed one = mlk::image::compose(some_base(), additions, {}),
                 other = mlk::image::compose(some_base(), additions, {});
  CHECK(one.manifest == other.manifest);
  CHECK(one.configuration == other.configuration);
  CHECK(one.digest == "sha256:" + mlk::sha256_hex(one.manifest));
  CHECK(one.configuration_blob.digest == "sha256:" + mlk::sha256_hex(one.configuration));
  CHECK(one.configuration_blob.size == one.configuration.size());
  CHECK(manifest_in(one)["config"]["digest"] == one.configuration_blob.digest);
  // This digest is fixed for all versions. A change would make users send every image again.
  CHECK(one.digest == "sha256:b4d610cd265a486bfe8f9de1eee8db1e3a99d7ab50af51dcfc6a4f0614efe384");
  CHECK(mlk::image::compose(some_base(), {additions[1], additions[0]}, {}).digest != one.digest);
}

TEST_CASE("compose() puts the layers of the base first, and records the purpose of each added layer") {
  const Composed composed = mlk::image::compose(some_base(), {added('2', "python"), added('3', "code")}, {});
  const json layers = manifest_in(composed)["layers"];
  REQUIRE(layers.size() == 3);
  CHECK(layers[0] == json{{"mediaType", mlk::image::oci_types.layer}, {"digest", id_with('1')}, {"size", 7}});
  CHECK(layers[1]["annotations"][mlk::image::purpose_annotation] == "python");
  CHECK(layers[2]["digest"] == id_with('3'));
  CHECK(composed.of_base.size() == 1);
  REQUIRE(composed.own.size() == 2);
  CHECK(composed.own[1].file == "file");
  const json configuration = configuration_in(composed);
  CHECK(configuration["rootfs"]["diff_ids"] == json{id_with('a'), id_with('f'), id_with('f')});
  CHECK(configuration["own"]["kept"] == true);
  CHECK(configuration["created"] == "2024-02-03T00:00:00Z");
}

TEST_CASE("a new image has the media types of its base, or of OCI if there is no base") {
  const Composed docker = mlk::image::compose(some_base(true), {added('2', "code")}, {});
  CHECK(docker.manifest_type == mlk::image::docker_types.manifest);
  const json manifest = manifest_in(docker);
  CHECK(manifest["mediaType"] == mlk::image::docker_types.manifest);
  CHECK(manifest["config"]["mediaType"] == mlk::image::docker_types.configuration);
  CHECK(manifest["layers"][1]["mediaType"] == mlk::image::docker_types.layer);
  CHECK(docker.own[0].blob.media_type == mlk::image::docker_types.layer);
  CHECK(mlk::image::compose(std::nullopt, {}, {}).manifest_type == mlk::image::oci_types.manifest);
}

TEST_CASE("compose() adds history entries if the base has exactly one history entry for each layer") {
  json history = composed_above(some_base())["history"];
  REQUIRE(history.size() == 3);
  CHECK(history[2] == json{{"created", "1980-01-01T00:00:00Z"}, {"created_by", "mlk build: code"}});
  Base untold = some_base();
  untold.configuration.whole.erase("history");
  CHECK_FALSE(composed_above(untold).contains("history"));
  for (const json& odd : {json("text"), json(nullptr), json::object()}) {
    untold.configuration.whole["history"] = odd;
    CHECK_FALSE(composed_above(untold).contains("history"));
  }
  untold.configuration.whole["history"] = {5, {{"empty_layer", "x"}}, {{"created_by", "ADD"}}};
  CHECK(composed_above(untold)["history"].size() == 3);  // two entries for one layer
}

TEST_CASE("a new variable replaces every variable of the same name in the environment of the base") {
  Base base = some_base();
  base.configuration.whole["config"]["Env"] = {"PATH=/bin", "A=1", 5, "AB=2", "A=3"};
  CHECK(composed_above(base, {.env = {{"A", "x"}, {"B", "y"}}})["config"]["Env"] ==
        json{"PATH=/bin", "A=x", 5, "AB=2", "B=y"});
  for (const json& odd : {json(nullptr), json("A=1"), json::object()}) {
    base.configuration.whole["config"]["Env"] = odd;
    CHECK(composed_above(base, {.env = {{"A", "x"}}})["config"]["Env"] == json{"A=x"});
  }
  base.configuration.whole["config"] = nullptr;
  CHECK(composed_above(base, {.env = {{"A", "x"}}})["config"]["Env"] == json{"A=x"});
}

TEST_CASE("compose() keeps the settings of the base, but drops the command if there is a new entry point") {
  const json kept = composed_above(some_base())["config"];
  CHECK(kept == some_base().configuration.whole["config"]);
  const json changed = composed_above(
      some_base(), {.workdir = "/mlk/code", .user = "7", .entrypoint = {"run", "it"}})["config"];
  CHECK(changed["Entrypoint"] == json{"run", "it"});
  CHECK_FALSE(changed.contains("Cmd"));
  CHECK(changed["WorkingDir"] == "/mlk/code");
  CHECK(changed["User"] == "7");
}

TEST_CASE("an image without a base has the given platform, a fixed time and the new layers") {
  const Composed composed = mlk::image::compose(std::nullopt, {added('2', "system")},
                                                {.platform = {"linux", "arm64", "v8"}, .user = "1"});
  const json configuration = configuration_in(composed);
  CHECK(configuration["os"] == "linux");
  CHECK(configuration["architecture"] == "arm64");
  CHECK(configuration["variant"] == "v8");
  CHECK(configuration["created"] == "1980-01-01T00:00:00Z");
  CHECK(configuration["rootfs"]["diff_ids"] == json{id_with('f')});
  CHECK(configuration["history"].size() == 1);
  CHECK(composed.of_base.empty());
  CHECK(manifest_in(composed)["layers"].size() == 1);
}

TEST_CASE("an image without a base has no settings and no layers if none are given") {
  const Composed composed = mlk::image::compose(std::nullopt, {}, {.platform = {"linux", "amd64", ""}});
  const json configuration = configuration_in(composed), manifest = manifest_in(composed);
  CHECK(configuration == json{{"os", "linux"},
                              {"architecture", "amd64"},
                              {"created", "1980-01-01T00:00:00Z"},
                              {"config", json::object()},
                              {"rootfs", {{"type", "layers"}, {"diff_ids", json::array()}}}});
  CHECK(manifest["schemaVersion"] == 2);
  CHECK(manifest["mediaType"] == mlk::image::oci_types.manifest);
  CHECK(manifest["config"]["mediaType"] == mlk::image::oci_types.configuration);
  CHECK(manifest["config"]["size"] == composed.configuration.size());
  CHECK(manifest["layers"].empty());
}

TEST_CASE("the layers of a base keep their media types and their purposes") {
  Base base = some_base(true);
  base.manifest.layers[0].media_type = "own/type";
  base.manifest.layers[0].purpose = "python";
  const Composed composed = mlk::image::compose(base, {added('2', "code")}, {});
  const json layers = manifest_in(composed)["layers"];
  REQUIRE(layers.size() == 2);
  CHECK(layers[0]["mediaType"] == "own/type");
  CHECK(layers[0]["annotations"][mlk::image::purpose_annotation] == "python");
  CHECK(layers[1] == json{{"mediaType", mlk::image::docker_types.layer},
                          {"digest", id_with('2')},
                          {"size", 100},
                          {"annotations", {{mlk::image::purpose_annotation, "code"}}}});
  CHECK(composed.own[0].blob.purpose == "code");
  CHECK(composed.own[0].diff_id == id_with('f'));
}

TEST_CASE("a history entry counts as a layer, except if its `empty_layer` is true") {
  Base base = some_base();
  for (const auto& [empty_layer, size] :
       std::vector<std::pair<json, std::size_t>>{{false, 2}, {nullptr, 2}, {"true", 2}, {true, 1}}) {
    base.configuration.whole["history"] =
        json::array({{{"created_by", "ADD"}, {"empty_layer", empty_layer}}});
    CHECK_MESSAGE(composed_above(base)["history"].size() == size, empty_layer.dump());
  }
}

TEST_CASE("compose() replaces bytes in the base's configuration that are not UTF-8") {
  Base base = some_base();
  base.configuration.whole["author"] = "a\xff";
  CHECK(composed_above(base)["author"] == "a\xef\xbf\xbd");
}

TEST_CASE("compose() can change only the working directory, or only the user") {
  json changed = composed_above(some_base(), {.workdir = "/w"})["config"];
  CHECK(changed["WorkingDir"] == "/w");
  CHECK(changed["User"] == "0");
  changed = composed_above(some_base(), {.user = "7"})["config"];
  CHECK(changed["WorkingDir"] == "/");
  CHECK(changed["User"] == "7");
  CHECK(changed["Cmd"] == json{"-c"});
}
