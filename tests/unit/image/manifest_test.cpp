// Checks what mlk reads from the documents that registries store for images, and which documents it refuses.
#include "cli/image/manifest.h"

#include <functional>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("image/manifest");

namespace {

using mlk::image::docker_types;
using mlk::image::Index;
using mlk::image::Manifest;
using mlk::image::oci_types;
using mlk::image::parse_manifest;
using mlk::image::Platform;
using nlohmann::json;

std::string digest_with(char digit) { return "sha256:" + std::string(64, digit); }

json part(char digit, std::uint64_t size = 10, const std::string& type = oci_types.layer) {
  return {{"mediaType", type}, {"digest", digest_with(digit)}, {"size", size}};
}

json manifest_of(const json& layers = json::array({part('1'), part('2')}),
                 const std::string& type = oci_types.manifest) {
  return {{"schemaVersion", 2},
          {"mediaType", type},
          {"config", part('c', 10, oci_types.configuration)},
          {"layers", layers}};
}

json entry(char digit, const json& platform) {
  json out = part(digit, 10, oci_types.manifest);
  if (!platform.is_null()) out["platform"] = platform;
  return out;
}

json index_of(const json& entries) {
  return {{"schemaVersion", 2}, {"mediaType", oci_types.index}, {"manifests", entries}};
}

json platform(const std::string& architecture, const std::string& variant = "",
              const std::string& os = "linux") {
  json out = {{"os", os}, {"architecture", architecture}};
  if (!variant.empty()) out["variant"] = variant;
  return out;
}

mlk::Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

mlk::Error manifest_refusal(const std::string& bytes) {
  return error_of([&] { (void)parse_manifest(bytes, oci_types.manifest, "image x"); });
}

Manifest read_manifest(const json& value, const std::string& type = "") {
  return std::get<Manifest>(parse_manifest(value.dump(), type, "image x"));
}

Index read_index(const json& value) {
  return std::get<Index>(parse_manifest(value.dump(), oci_types.index, "image x"));
}

std::string chosen(const Index& index, const Platform& wanted) {
  return mlk::image::choose(index, wanted, "image x").manifest.digest;
}

json configuration_with(const json& ids) {
  return {{"os", "linux"}, {"architecture", "amd64"}, {"rootfs", {{"type", "layers"}, {"diff_ids", ids}}}};
}

mlk::Error configuration_refusal(const std::string& bytes, std::size_t layers = 1) {
  return error_of([&] { (void)mlk::image::parse_configuration(bytes, layers, "image x"); });
}

}  // namespace

TEST_CASE("parse_manifest() reads manifests of OCI and of Docker, and lists the lowest layer first") {
  const Manifest oci = read_manifest(manifest_of());
  CHECK_FALSE(oci.is_docker());
  CHECK(oci.configuration.digest == digest_with('c'));
  REQUIRE(oci.layers.size() == 2);
  CHECK(oci.layers[0].digest == digest_with('1'));
  CHECK(oci.layers[1].size == 10);
  CHECK(oci.layers[1].media_type == oci_types.layer);
  CHECK(read_manifest(manifest_of(json::array(), docker_types.manifest)).is_docker());
}

TEST_CASE("parse_manifest() uses the media type of the header if the document has none") {
  json untyped = manifest_of();
  untyped.erase("mediaType");
  CHECK(read_manifest(untyped, std::string(docker_types.manifest) + "; charset=utf-8").is_docker());
  CHECK_FALSE(read_manifest(untyped, "application/json").is_docker());
  CHECK_FALSE(read_manifest(manifest_of(), docker_types.manifest).is_docker());
  untyped["mediaType"] = nullptr;
  CHECK(read_manifest(untyped, docker_types.manifest).is_docker());
}

TEST_CASE("choose() selects an entry by system, architecture and variant, and never selects a signature") {
  const Index index =
      read_index(index_of({entry('1', platform("amd64", "", "windows")), entry('2', nullptr),
                           entry('3', platform("unknown", "", "unknown")), entry('4', platform("arm", "v6")),
                           entry('5', platform("arm", "v7")), entry('6', platform("amd64", "v3")),
                           entry('7', platform("amd64")), entry('8', platform("arm64", "v8"))}));
  CHECK(index.entries.size() == 8);
  CHECK(chosen(index, {"linux", "amd64", ""}) == digest_with('7'));
  CHECK(chosen(index, {"linux", "amd64", "v3"}) == digest_with('6'));
  CHECK(chosen(index, {"linux", "amd64", "v2"}) == digest_with('7'));
  CHECK(chosen(index, {"windows", "amd64", ""}) == digest_with('1'));
  CHECK(chosen(index, {"linux", "arm", "v7"}) == digest_with('5'));
  CHECK(chosen(index, {"linux", "arm", ""}) == digest_with('5'));
  CHECK(chosen(index, {"linux", "arm64", ""}) == digest_with('8'));
  for (const Platform& gone : {Platform{"linux", "arm", "v5"}, Platform{"linux", "riscv64", ""}, Platform{},
                               Platform{"unknown", "unknown", ""}, Platform{"freebsd", "amd64", ""}}) {
    const mlk::Error error = error_of([&] { (void)chosen(index, gone); });
    CHECK(error.code() == mlk::ExitCode::not_found);
    CHECK(error.hint() ==
          "it is there for windows/amd64, linux/arm/v6, linux/arm/v7, linux/amd64/v3, linux/amd64, "
          "linux/arm64/v8");
  }
  CHECK(error_of([] { (void)chosen({}, {"linux", "amd64", ""}); }).hint().empty());
}

TEST_CASE("choose() treats amd64 as amd64/v1, arm64 as arm64/v8 and arm as arm/v7") {
  struct Row {
    std::vector<std::pair<std::string, std::string>> entries;  // architecture, variant
    Platform wanted;
    int right;  // place in the entries; -1: none
  };
  const std::vector<Row> rows{
      {{{"amd64", "v3"}, {"amd64", "v1"}}, {"linux", "amd64", ""}, 1},
      {{{"amd64", "v3"}, {"amd64", ""}}, {"linux", "amd64", ""}, 1},
      {{{"amd64", "v1"}, {"amd64", ""}}, {"linux", "amd64", ""}, 1},
      {{{"amd64", ""}, {"amd64", "v1"}}, {"linux", "amd64", "v1"}, 1},
      {{{"amd64", ""}, {"amd64", ""}}, {"linux", "amd64", ""}, 0},
      {{{"arm64", "v9"}, {"arm64", "v8"}}, {"linux", "arm64", ""}, 1},
      {{{"arm64", "v9"}, {"arm64", ""}}, {"linux", "arm64", "v8"}, 1},
      {{{"arm", "v6"}, {"arm", "v7"}, {"arm", "v8"}}, {"linux", "arm", ""}, 1},
      {{{"arm", "v5"}, {"arm", "v6"}}, {"linux", "arm", ""}, 1},  // the newest variant that runs on arm/v7
      {{{"arm", "v6"}, {"arm", "v5"}}, {"linux", "arm", "v7"}, 0},
      {{{"amd64", "v4"}, {"amd64", "v2"}, {"amd64", "v3"}}, {"linux", "amd64", "v3"}, 2},
      {{{"amd64", "v4"}, {"amd64", "v2"}}, {"linux", "amd64", "v3"}, 1},
      {{{"amd64", "v4"}}, {"linux", "amd64", "v3"}, -1},
      {{{"amd64", "v4"}, {"amd64", "v3"}}, {"linux", "amd64", ""}, 1},  // no older variant exists
      {{{"riscv64", "rva22"}, {"riscv64", ""}}, {"linux", "riscv64", ""}, 1},
      {{{"riscv64", "rva22"}}, {"linux", "riscv64", "rva20"}, -1},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    json entries = json::array();
    for (const auto& [architecture, variant] : rows[i].entries)
      entries.push_back(entry(static_cast<char>('1' + entries.size()), platform(architecture, variant)));
    const Index index = read_index(index_of(entries));
    std::string got;
    const mlk::Error error = error_of([&] { got = chosen(index, rows[i].wanted); });
    CHECK(got == (rows[i].right < 0 ? "" : digest_with(static_cast<char>('1' + rows[i].right))));
    if (rows[i].right < 0) CHECK(error.code() == mlk::ExitCode::not_found);
  }
}

TEST_CASE("an entry that needs features of the system is the last choice of choose()") {
  json special = platform("amd64");
  special["os.features"] = {"win32k"};
  CHECK(chosen(read_index(index_of({entry('1', special), entry('2', platform("amd64", "v3"))})),
               {"linux", "amd64", ""}) == digest_with('2'));
  CHECK(chosen(read_index(index_of(json::array({entry('1', special)}))), {"linux", "amd64", ""}) ==
        digest_with('1'));
}

TEST_CASE("choose() takes an entry without a platform if it is the only entry besides signatures") {
  const Platform wanted{"linux", "amd64", ""};
  const json signature = entry('3', platform("unknown", "", "unknown"));
  CHECK(chosen(read_index(index_of(json::array({entry('1', nullptr)}))), wanted) == digest_with('1'));
  CHECK(chosen(read_index(index_of({signature, entry('1', nullptr)})), wanted) == digest_with('1'));
  for (const json& entries :
       {json::array({entry('1', nullptr), entry('2', nullptr)}), json::array({signature}),
        json::array({entry('1', nullptr), entry('2', platform("arm64"))})})
    CHECK(error_of([&] { (void)chosen(read_index(index_of(entries)), wanted); }).code() ==
          mlk::ExitCode::not_found);
}

TEST_CASE("control characters in an index do not reach the hint of choose()") {
  const Index index = read_index(index_of(json::array({entry('1', platform("\x1b[2J"))})));
  CHECK(error_of([&] { (void)chosen(index, {"linux", "amd64", ""}); }).hint().find('\x1b') ==
        std::string::npos);
}

TEST_CASE("parse_manifest() refuses a document that is not clearly a manifest or an index, or has schema 1") {
  json both = manifest_of();
  both["manifests"] = json::array();
  json old = {{"schemaVersion", 1}, {"name", "x"}, {"fsLayers", json::array()}};
  json old_with_layers = manifest_of();
  old_with_layers["schemaVersion"] = 1;
  json no_version = manifest_of();
  no_version.erase("schemaVersion");
  json text_version = manifest_of();
  text_version["schemaVersion"] = "2";
  for (const json& bad : {both, old, old_with_layers, no_version, text_version, json::object()}) {
    const mlk::Error error = manifest_refusal(bad.dump());
    CHECK(error.code() == mlk::ExitCode::failure);
    CHECK(std::string(error.what()).starts_with("image x: it is neither a manifest nor an index"));
  }
  for (const char* bad : {"", "null", "[]", "2", "\"x\"", "{", "\xff", "{\"schemaVersion\":2}{}"})
    CHECK(manifest_refusal(bad).code() == mlk::ExitCode::failure);
}

TEST_CASE("parse_manifest() refuses descriptors without a digest or a size, and malformed parts") {
  const auto refused = [](const json& layer) {
    return std::string(manifest_refusal(manifest_of(json::array({layer})).dump()).what());
  };
  const auto with = [](const char* key, const json& value) {
    json out = part('1');
    out[key] = value;
    return out;
  };
  const auto without = [](const char* key) {
    json out = part('1');
    out.erase(key);
    return out;
  };
  CHECK(refused(part('1')) == "accepted");
  CHECK(refused(without("mediaType")) == "accepted");
  for (const json& bad :
       {without("digest"), with("digest", nullptr), with("digest", "sha256:../../etc/passwd"),
        with("digest", "../" + digest_with('1')), with("digest", "sha512:" + std::string(128, '1')),
        with("digest", digest_with('A'))})
    CHECK(refused(bad) == "image x: a part of it is named by no digest of sha256");
  CHECK(refused(with("digest", 5)) == "image x: its digest is no text");
  CHECK(refused(with("mediaType", json::array())) == "image x: its mediaType is no text");
  for (const json& bad :
       {without("size"), with("size", -1), with("size", 1.5), with("size", "10"), with("size", nullptr),
        with("size", (std::uint64_t{1} << 42) + 1), with("size", std::uint64_t(-1))})
    CHECK(refused(bad) == "image x: a part of it has no size");
  for (const json& bad : {json("text"), json(nullptr), json(5), json::array()})
    CHECK(refused(bad) == "image x: a part of it is not described");
  CHECK(refused(with("urls", json::array({"https://elsewhere.example/x"}))).find("outside of its registry") !=
        std::string::npos);
  CHECK(refused(with("urls", json::array())) == "accepted");
  json no_config = manifest_of();
  no_config.erase("config");
  CHECK(manifest_refusal(no_config.dump()).code() == mlk::ExitCode::failure);
  json layers_are_text = manifest_of();
  layers_are_text["layers"] = "x";
  CHECK(std::string(manifest_refusal(layers_are_text.dump()).what()) == "image x: it has no list of layers");
  CHECK(manifest_refusal(index_of("x").dump()).code() == mlk::ExitCode::failure);
  CHECK(manifest_refusal(index_of(json::array({{{"platform", platform("amd64")}}})).dump()).code() ==
        mlk::ExitCode::failure);
  CHECK(manifest_refusal(index_of(json::array({entry('1', platform("amd64").dump())})).dump()).code() ==
        mlk::ExitCode::ok);
  CHECK(manifest_refusal(index_of(json::array({entry('1', {{"os", 5}})})).dump()).code() ==
        mlk::ExitCode::failure);
}

TEST_CASE("parse_manifest() refuses more than 500 layers, 50 levels or 200000 values") {
  json layers = json::array();
  for (std::size_t i = 0; i < mlk::image::most_layers; ++i) layers.push_back(part('1'));
  CHECK(manifest_refusal(manifest_of(layers).dump()).code() == mlk::ExitCode::ok);
  layers.push_back(part('1'));
  CHECK(std::string(manifest_refusal(manifest_of(layers).dump()).what()) ==
        "image x: it has 501 layers, more than 500");
  const std::string deep = "{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}";
  CHECK(std::string(manifest_refusal(deep).what()).find("nested deeper than 50 levels") != std::string::npos);
  std::string wide = "{\"x\":[0";
  for (int i = 0; i < 200'001; ++i) wide += ",0";
  CHECK(std::string(manifest_refusal(wide + "]}").what()).find("more than 200000 values") !=
        std::string::npos);
}

TEST_CASE("parse_configuration() refuses a configuration unless it has exactly one digest for each layer") {
  const json good = configuration_with({digest_with('1')});
  const auto read = mlk::image::parse_configuration(good.dump(), 1, "image x");
  CHECK(read.platform.text() == "linux/amd64");
  CHECK(read.diff_ids == std::vector<std::string>{digest_with('1')});
  CHECK(read.whole == good);
  CHECK(std::string(configuration_refusal(good.dump(), 2).what()).find("disagree about the layers") !=
        std::string::npos);
  CHECK(configuration_refusal(configuration_with({"sha256:1"}).dump()).code() == mlk::ExitCode::failure);
  CHECK(configuration_refusal(configuration_with({5}).dump()).code() == mlk::ExitCode::failure);
  CHECK(configuration_refusal(configuration_with("x").dump()).code() == mlk::ExitCode::failure);
  CHECK(configuration_refusal("{}").code() == mlk::ExitCode::failure);
  CHECK(configuration_refusal(R"({"rootfs":[]})").code() == mlk::ExitCode::failure);
  json odd = good;
  odd["config"] = "text";
  CHECK(configuration_refusal(odd.dump()).code() == mlk::ExitCode::failure);
  odd["config"] = nullptr;
  CHECK(configuration_refusal(odd.dump()).code() == mlk::ExitCode::ok);
  odd["architecture"] = 5;
  CHECK(configuration_refusal(odd.dump()).code() == mlk::ExitCode::failure);
}

TEST_CASE("variable_of() finds a variable by its whole name, and none in a malformed configuration") {
  const auto value = [](const json& config, const std::string& name) {
    mlk::image::Configuration configuration;
    configuration.whole = {{"config", config}};
    return variable_of(configuration, name);
  };
  const json variables = {{"Env", {"PYTHON_VERSION_X=1", 5, "PYTHON_VERSION=3.11.9", "PYTHON_VERSION=2"}}};
  CHECK(value(variables, "PYTHON_VERSION") == "3.11.9");
  CHECK(value(variables, "PYTHON").empty());
  CHECK(value({{"Env", {"A=b=c"}}}, "A") == "b=c");
  for (const json& odd : {json(nullptr), json("x"), json{{"Env", nullptr}}, json{{"Env", "A=1"}}})
    CHECK(value(odd, "A").empty());
}

TEST_CASE("parse_platform() accepts two or three parts, and adds linux to an architecture without a system") {
  CHECK(mlk::image::parse_platform("arm64").text() == "linux/arm64");
  CHECK(mlk::image::parse_platform("windows/amd64").text() == "windows/amd64");
  CHECK(mlk::image::parse_platform("linux/arm/v7").text() == "linux/arm/v7");
  for (const char* bad :
       {"", "/", "linux/", "/amd64", "linux/arm/v7/x", "Linux/amd64", "linux/amd 64", "a//b"})
    CHECK(error_of([&] { (void)mlk::image::parse_platform(bad); }).code() == mlk::ExitCode::usage);
}

TEST_CASE(
    "parse_manifest() reads the type, digest and size of a layer, and the purpose of mlk's own layers") {
  json layer = part('1', std::uint64_t{1} << 42);
  layer["annotations"] = {{mlk::image::purpose_annotation, "python"}, {"other", "x"}};
  json odd = part('2', 0);
  odd["annotations"] = "text";
  json other = part('3');
  other["annotations"] = {{"other", "x"}};
  other["urls"] = nullptr;
  const Manifest read = read_manifest(manifest_of({layer, odd, other}));
  REQUIRE(read.layers.size() == 3);
  CHECK(read.media_type == oci_types.manifest);
  CHECK(read.configuration.media_type == oci_types.configuration);
  CHECK(read.configuration.size == 10);
  CHECK(read.layers[0].size == std::uint64_t{1} << 42);
  CHECK(read.layers[0].purpose == "python");
  CHECK(read.layers[1].size == 0);
  CHECK(read.layers[1].purpose.empty());
  CHECK(read.layers[2].purpose.empty());
  layer["annotations"][mlk::image::purpose_annotation] = 5;
  CHECK(manifest_refusal(manifest_of(json::array({layer})).dump()).code() == mlk::ExitCode::failure);
}

TEST_CASE("parse_manifest() reads the platform, the features and the descriptor of each entry of an index") {
  json special = platform("arm", "v7", "windows");
  special["os.features"] = {"win32k", 5};
  json odd = platform("amd64");
  odd["os.features"] = "win32k";
  const Index index = read_index(
      index_of({entry('1', special), entry('2', odd), entry('3', "text"), entry('4', platform("unknown"))}));
  REQUIRE(index.entries.size() == 4);
  CHECK(index.entries[0].platform.text() == "windows/arm/v7");
  CHECK(index.entries[0].platform.features == std::vector<std::string>{"win32k", "5"});
  CHECK_FALSE(index.entries[0].platform.is_unsaid);
  CHECK(index.entries[0].manifest.digest == digest_with('1'));
  CHECK(index.entries[0].manifest.size == 10);
  CHECK(index.entries[0].manifest.media_type == oci_types.manifest);
  CHECK(index.entries[1].platform.features.empty());
  CHECK(index.entries[2].platform.is_unsaid);
  CHECK(index.entries[3].platform.architecture.empty());
  CHECK_FALSE(index.entries[3].platform.is_unsaid);
}

TEST_CASE("choose() compares variants as numbers, and prefers entries that need no features") {
  struct Row {
    std::vector<std::pair<std::string, bool>> entries;  // variant, whether it needs a feature
    std::string wanted;
    int right;  // place in the entries; -1: none
  };
  const std::vector<Row> rows{
      {{{"8", false}}, "v8", 0},
      {{{"8", false}, {"v8", false}}, "v8", 1},
      {{{"v10", false}, {"v9", false}}, "", 1},
      {{{"v10", false}}, "v9", -1},
      {{{"v9", false}}, "v10", 0},
      {{{"rva", false}, {"v123", false}}, "", 1},   // three digits are a valid number
      {{{"rva", false}, {"v1234", false}}, "", 0},  // four digits are no valid number
      {{{"rva", false}, {"v9x", false}}, "", 0},
      {{{"rva", false}, {"v", false}}, "", 0},
      {{{"rva", false}}, "v8", -1},
      {{{"v8", true}, {"v7", false}}, "v8", 1},
      {{{"v8", true}, {"v9", false}}, "", 1},
      {{{"v7", true}, {"v6", false}}, "v8", 1},
      {{{"v9", true}, {"v10", false}}, "", 1},
      {{{"rva", true}, {"v10", true}}, "", 1},
      {{{"v7", false}, {"v9", false}}, "", 0},  // the older variant certainly runs on v8
      {{{"v7", false}, {"", false}}, "v8", 1},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    json entries = json::array();
    for (const auto& [variant, needs] : rows[i].entries) {
      json of_entry = platform("arm64", variant);
      if (needs) of_entry["os.features"] = json::array({"x"});
      entries.push_back(entry(static_cast<char>('1' + entries.size()), of_entry));
    }
    const Index index = read_index(index_of(entries));
    std::string got;
    (void)error_of([&] { got = chosen(index, {"linux", "arm64", rows[i].wanted}); });
    CHECK(got == (rows[i].right < 0 ? "" : digest_with(static_cast<char>('1' + rows[i].right))));
  }
}

TEST_CASE(
    "if a platform is missing, the error names the image; if a platform is invalid, the hint has an "
    "example") {
  const Index index = read_index(index_of(json::array({entry('1', platform("amd64"))})));
  CHECK(std::string(error_of([&] { (void)chosen(index, {"linux", "arm", "v5"}); }).what()) ==
        "image x is not there for linux/arm/v5");
  const mlk::Error error = error_of([] { (void)mlk::image::parse_platform("a b"); });
  CHECK(std::string(error.what()) == "'a b' is no platform");
  CHECK(error.hint() == "for example: --platform linux/arm64");
  CHECK(mlk::image::parse_platform("linux/x86_64").architecture == "x86_64");
  CHECK(mlk::image::parse_platform("az09_").architecture == "az09_");
  for (const char* bad : {"linux/a-b", "linux/a.b", "linux/arm/V7", "linux/arm/", "linux/arm64 "})
    CHECK(error_of([&] { (void)mlk::image::parse_platform(bad); }).code() == mlk::ExitCode::usage);
}

TEST_CASE("parse_manifest() and parse_configuration() refuse more than most_layers entries") {
  json entries = json::array(), ids = json::array();
  for (std::size_t i = 0; i < mlk::image::most_layers; ++i) {
    entries.push_back(entry('1', platform("amd64")));
    ids.push_back(digest_with('1'));
  }
  CHECK(read_index(index_of(entries)).entries.size() == mlk::image::most_layers);
  CHECK(configuration_refusal(configuration_with(ids).dump(), ids.size()).code() == mlk::ExitCode::ok);
  entries.push_back(entry('1', platform("amd64")));
  ids.push_back(digest_with('1'));
  CHECK(std::string(manifest_refusal(index_of(entries).dump()).what()) ==
        "image x: it has 501 manifests, more than 500");
  CHECK(std::string(configuration_refusal(configuration_with(ids).dump(), ids.size()).what()) ==
        "image x: it has 501 diff_ids, more than 500");
}

TEST_CASE("parse_configuration() tells in its message what is wrong with the configuration") {
  const auto told = [](const json& whole, std::size_t layers = 1) {
    return std::string(configuration_refusal(whole.dump(), layers).what());
  };
  CHECK(told(json::array()) == "image x: it is no object of JSON");
  CHECK(told(json::object()) == "image x: its configuration has no rootfs");
  CHECK(told({{"rootfs", "x"}}) == "image x: its configuration has no rootfs");
  CHECK(told({{"rootfs", json::object()}}) == "image x: it has no list of diff_ids");
  CHECK(told(configuration_with({"sha256:1"})) ==
        "image x: its configuration names a layer by no digest of sha256");
  CHECK(told(configuration_with({digest_with('1')}), 0) ==
        "image x: its configuration and its manifest disagree about the layers");
  json odd = configuration_with({digest_with('1')});
  odd["config"] = json::array();
  CHECK(told(odd) == "image x: its configuration is no object");
  odd["config"] = json::object();
  odd["variant"] = "v3";
  CHECK(mlk::image::parse_configuration(odd.dump(), 1, "image x").platform.text() == "linux/amd64/v3");
}

TEST_CASE("parse_manifest() accepts 50 levels and 200000 values, but not one more") {
  const auto told = [](int lists, int values) {
    std::string text = "{\"x\":" + std::string(static_cast<std::size_t>(lists), '[') + "0";
    for (int i = 1; i < values; ++i) text += ",0";
    return std::string(
        manifest_refusal(text + std::string(static_cast<std::size_t>(lists), ']') + "}").what());
  };
  const std::string none = "image x: it is neither a manifest nor an index";
  CHECK(told(49, 1).starts_with(none));
  CHECK(told(50, 1).find("nested deeper than 50 levels") != std::string::npos);
  CHECK(told(1, 199'998).starts_with(none));  // 200,000 together with the object and the list
  CHECK(told(1, 199'999).find("more than 200000 values") != std::string::npos);
}
