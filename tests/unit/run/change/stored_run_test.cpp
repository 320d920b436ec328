// Tests how the record of a run is read. Another user may have written the record, and names in the record
// become file names.
#include "cli/run/change/stored_run.h"

#include <fstream>

#include <doctest/doctest.h>

#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/image/layer.h"
#include "cli/image/tar.h"
#include "cli/kube/client.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/image/gzip_text.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("run/change/stored_run");

namespace {

using nlohmann::json;

json owner_with(const json& experiment, const json& digests = json::object()) {
  return {{"metadata", {{"name", "x-abcde"}}},
          {"data", {{"experiment", experiment.dump()}, {"digests", digests.dump()}}}};
}

std::string refusal_of(const json& experiment, const json& digests = json::object()) {
  try {
    (void)mlk::read_stored(owner_with(experiment, digests));
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::failure);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("if a record has a bad folder or file name, the error names the bad entry") {
  CHECK(refusal_of({{"name", "x"}, {"code", {{"path", "src"}}}, {"data", json::array()}}) == "");
  CHECK(refusal_of({{"data", {{{"name", "d"}, {"files", "/abs"}}}}}) == "");
  CHECK(refusal_of({{"data", {{{"name", "d"}, {"pvc", "c"}}}}}) == "");
  const std::string begin = "the record of run x-abcde was changed: ";
  const std::string no_path = begin + "code.path is not the name of a folder";
  for (const json& code : {json({{"path", 7}}), json({{"path", ""}}), json({{"path", json::array()}}),
                           json::object(), json::array(), json(1), json("src"), json()})
    CHECK_MESSAGE(refusal_of({{"name", "x"}, {"code", code}}) == no_path, code.dump());
  for (const json& data : {json::object(), json("x"), json(1), json()})
    CHECK_MESSAGE(refusal_of({{"name", "x"}, {"data", data}}) == begin + "data is not a list", data.dump());
  CHECK(refusal_of({{"data", {1}}}) == begin + "an entry of data is not an object");
  for (const json& entry : {json::object(), json({{"name", 1}}), json({{"name", ""}}),
                            json({{"name", "x/../../zz"}}), json({{"name", ".."}})}) {
    json wrong = entry;
    wrong["files"] = "d";
    CHECK_MESSAGE(refusal_of({{"data", {wrong}}}) == begin + "an entry of data has no name", wrong.dump());
  }
  for (const json& files : {json(1), json(""), json::array(), json::object(), json()})
    CHECK(refusal_of({{"data", {{{"name", "d"}, {"files", files}}}}}) ==
          begin + "data 'd': files is not the name of a folder");
}

TEST_CASE("a record is refused if its digest of the code is invalid, or if it has a digest but no code") {
  const json code = {{"code", {{"path", "."}}}};
  CHECK(refusal_of(code, {{"code.tar", std::string(64, 'a')}}) == "");
  CHECK(refusal_of(code, {{"code.tar", "../../x"}}) ==
        "the record of run x-abcde was changed: its code has no digest");
  CHECK(refusal_of({{"name", "x"}}, {{"code.tar", std::string(64, 'a')}}) ==
        "the record of run x-abcde was changed: it has no code");
}

TEST_CASE("a file name in a ConfigMap must be a single part of a path") {
  const auto files = [](const std::string& name) {
    return mlk::files_in({{"metadata", {{"name", "m"}}}, {"binaryData", {{name, "YQ=="}}}});
  };
  CHECK(files("a.txt") == std::map<std::string, std::string>{{"a.txt", "a"}});
  for (const char* name : {"../../../x", "/abs", "a/b", "..", ".", ""})
    CHECK_THROWS_WITH_AS(files(name), doctest::Contains("is not the name of a file"), mlk::Error);
}

namespace {

std::string tar_of(const std::string& program) {
  std::string tar;
  mlk::image::append_to_tar(tar, {.path = "main.sh"}, program);
  tar += mlk::image::tar_end();
  return tar;
}
const std::string kept_tar = tar_of("echo kept"), kept_digest = mlk::sha256_hex(kept_tar);
const std::string kept_map = "mlk-code-" + kept_digest.substr(0, 16);

// A cluster that stores the files of runs.
struct Keeping {
  mlk::test::FakeCluster cluster;
  mlk::kube::Client client{cluster.config()};

  void keep(const std::string& name, const json& files) {
    cluster.ask(
        "POST", mlk::test::config_maps_path,
        {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}, {"binaryData", files}});
  }
  void keep_code(const std::string& tar) {
    keep(kept_map, {{"code.tar.gz", mlk::base64_encode(mlk::test::gzip(tar))}});
  }
  mlk::FileContents files(const mlk::StoredRun& run) {
    return mlk::fetch_stored_files(client, "default", run);
  }
  mlk::Error error_of(const mlk::StoredRun& run) {
    try {
      (void)files(run);
    } catch (const mlk::Error& error) {
      return error;
    }
    return {mlk::ExitCode::ok, ""};
  }
  mlk::Error code_error(const mlk::StoredRun& run, const mlk::registry::Access& access = {}) {
    try {
      (void)mlk::fetch_code(client, "default", run, access);
    } catch (const mlk::Error& error) {
      return error;
    }
    return {mlk::ExitCode::ok, ""};
  }
};

mlk::StoredRun run_with_code(const json& source = json::object()) {
  return {.run = "x-abcde",
          .hash = "",
          .experiment = {{"name", "x"}, {"code", {{"path", "."}}}},
          .digests = json::object(),
          .code = kept_digest,
          .code_source = source.dump(),
          .image = "image:1"};
}

}  // namespace

TEST_CASE("read_stored() reads the name, hash, experiment, code and image of a run") {
  json owner = owner_with({{"name", "x"}, {"code", {{"path", "."}}}},
                          {{"code.tar", std::string(64, 'a')}, {"data/a", "b"}});
  owner["data"]["code"] = R"({"path":"."})";
  owner["metadata"]["labels"]["mlk.dev/hash"] = "h1";
  owner["metadata"]["annotations"]["mlk.dev/image"] = "team/x:1";
  const mlk::StoredRun run = mlk::read_stored(owner);
  CHECK(run.run == "x-abcde");
  CHECK(run.hash == "h1");
  CHECK(run.experiment["name"] == "x");
  CHECK(run.digests["data/a"] == "b");
  CHECK(run.code == std::string(64, 'a'));
  CHECK(run.code_source == R"({"path":"."})");
  CHECK(run.image == "team/x:1");
}

TEST_CASE("a record is refused if it has no experiment, or if the name of its run is invalid") {
  for (const json& experiment : {json(), json::object(), json::array(), json("x")})
    CHECK(refusal_of(experiment) == "the record of run x-abcde does not have its experiment");
  json owner = owner_with({{"name", "x"}});
  owner["metadata"]["name"] = "../x";
  CHECK_THROWS_WITH_AS(mlk::read_stored(owner), "a run cannot have the name ../x", mlk::Error);
  owner["metadata"]["name"] = "";
  CHECK_THROWS_AS(mlk::read_stored(owner), mlk::Error);
}

TEST_CASE("files_in() names a file whose content is not base64") {
  const json map = {{"metadata", {{"name", "m"}}}};
  CHECK(mlk::files_in(map).empty());
  json other = map;
  other["binaryData"] = "YQ==";
  CHECK(mlk::files_in(other).empty());
  other["binaryData"] = {{"a", "YQ=="}, {"b", ""}, {"c", 3}};
  CHECK(mlk::files_in(other) == std::map<std::string, std::string>{{"a", "a"}, {"b", ""}, {"c", ""}});
  other["binaryData"] = {{"a", "%"}};
  CHECK_THROWS_WITH_AS(mlk::files_in(other), "configmap/m: a is not base64", mlk::Error);
}

TEST_CASE("fetch_stored() reads the record of a run, but not of a sweep or a trial") {
  Keeping keeping;
  const auto add = [&](const std::string& run, const std::string& sweep) {
    json owner = mlk::test::owner_of(run);
    owner["data"]["experiment"] = R"({"name": "x"})";
    if (!sweep.empty()) owner["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
    keeping.cluster.ask("POST", mlk::test::config_maps_path, owner);
  };
  add("x-run", "");
  add("x-sweep", "x-sweep");
  add("x-trial", "x-sweep");
  CHECK(mlk::fetch_stored(keeping.client, "default", "x-run").run == "x-run");
  const auto refused = [&](const std::string& run) {
    try {
      (void)mlk::fetch_stored(keeping.client, "default", run);
    } catch (const mlk::Error& error) {
      return error;
    }
    return mlk::Error(mlk::ExitCode::ok, "");
  };
  CHECK(refused("x-sweep").code() == mlk::ExitCode::usage);
  CHECK(refused("x-sweep").what() == std::string("x-sweep is a sweep, which is many experiments"));
  CHECK(refused("x-sweep").hint() == "the experiment of its best trial: mlk best x-sweep -o experiment");
  CHECK(refused("x-trial").code() == mlk::ExitCode::usage);
  CHECK(refused("x-trial").what() == std::string("x-trial is a trial: its files are those of its sweep"));
  CHECK(refused("x-none").code() == mlk::ExitCode::not_found);
}

TEST_CASE("the files of a run's data folders are read from one ConfigMap for each folder") {
  Keeping keeping;
  keeping.keep("x-abcde-data-d", {{"a", "YQ=="}, {"b", "Yg=="}});
  mlk::StoredRun run{
      .run = "x-abcde",
      .hash = "",
      .experiment = {{"data", {{{"name", "d"}, {"files", "f"}}, {{"name", "p"}, {"pvc", "c"}}}}},
      .digests = json::object(),
      .code = "",
      .code_source = "",
      .image = "image:1"};
  const mlk::FileContents files = keeping.files(run);
  CHECK(files.folders ==
        std::map<std::string, std::map<std::string, std::string>>{{"d", {{"a", "a"}, {"b", "b"}}}});
  CHECK_FALSE(files.code);
  CHECK(files.image.empty());
  run.experiment["data"][1] = {{"name", "e"}, {"files", "f"}};
  CHECK(keeping.error_of(run).code() == mlk::ExitCode::not_found);
  CHECK(keeping.error_of(run).what() == std::string("configmap/x-abcde-data-e of run x-abcde is gone"));
}

TEST_CASE("a run is submitted again with the recorded image if this image has a digest") {
  Keeping keeping;
  mlk::StoredRun run{.run = "x-abcde",
                     .hash = "",
                     .experiment = {{"name", "x"}},
                     .digests = json::object(),
                     .code = "",
                     .code_source = "",
                     .image = ""};
  const std::string digest = "sha256:" + std::string(64, 'a');
  for (const std::string& image : {std::string(), std::string("team/x:1"), "team/x@" + digest.substr(0, 60),
                                   digest, std::string("team/x@")}) {
    run.image = image;
    CHECK_MESSAGE(keeping.files(run).image.empty(), image);
  }
  run.image = "team/x:1@" + digest;
  CHECK(keeping.files(run).image == run.image);
}

TEST_CASE("stored code is refused if its digest differs from the digest in the record") {
  {
    Keeping keeping;
    keeping.keep_code(kept_tar);
    const mlk::StoredRun run = run_with_code({{"path", "src"}});
    const mlk::FileContents files = keeping.files(run);
    REQUIRE(files.code);
    CHECK(files.code->digest == kept_digest);
    CHECK(files.code->source == run.code_source);
    CHECK(mlk::image::gunzip(files.code->bytes, 1 << 20) == kept_tar);
    CHECK_FALSE(files.code->is_layer());
    CHECK(files.code->on_machine.empty());
    CHECK(files.python_on_machine.empty());
    CHECK(files.code->python_files.empty());
    mlk::StoredRun with_packages = run;
    with_packages.digests["code.python"] = "0123";
    CHECK(keeping.files(with_packages).code->python_files == "0123");
    CHECK(mlk::fetch_code(keeping.client, "default", run, {}) == kept_tar);
  }
  Keeping changed;
  changed.keep_code(tar_of("echo stolen"));
  const std::string words = "configmap/" + kept_map + " was changed: it is not the code of run x-abcde";
  for (const mlk::Error& error : {changed.error_of(run_with_code()), changed.code_error(run_with_code())}) {
    CHECK(error.code() == mlk::ExitCode::failure);
    CHECK(error.what() == words);
  }
  Keeping gone;
  for (const mlk::Error& error : {gone.error_of(run_with_code()), gone.code_error(run_with_code())}) {
    CHECK(error.code() == mlk::ExitCode::not_found);
    CHECK(error.what() == "configmap/" + kept_map + " of run x-abcde is gone");
  }
}

TEST_CASE("a run cannot be submitted again if the code or packages are gone from this machine") {
  Keeping keeping;
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  mlk::FileContents files = keeping.files(run_with_code({{"folder", here}, {"python", here}}));
  REQUIRE(files.code);
  CHECK(files.code->on_machine == here);
  CHECK(files.code->bytes.empty());
  CHECK_FALSE(files.code->is_layer());
  CHECK(files.python_on_machine == here);
  for (const json& source :
       {json{{"folder", here + "/none"}}, json{{"layer", true}, {"python", here + "/none"}}}) {
    const mlk::Error error = keeping.error_of(run_with_code(source));
    CHECK(error.code() == mlk::ExitCode::not_found);
    CHECK(error.what() == here + "/none, which run x-abcde needs, is gone from this machine");
    CHECK(error.hint() == "submit the folder of its code again");
  }
}

TEST_CASE("code in a layer of the image is not fetched with the other files") {
  Keeping keeping;
  const mlk::FileContents files = keeping.files(run_with_code({{"layer", true}}));
  REQUIRE(files.code);
  CHECK(files.code->layer_file == "-");
  CHECK(files.code->bytes.empty());
  // Only the value true marks a layer.
  CHECK(keeping.error_of(run_with_code({{"layer", "true"}})).code() == mlk::ExitCode::not_found);
}

TEST_CASE("stored code on this machine is refused if it differs from the recorded code") {
  const TemporaryFolder folder;
  folder.write("code/main.sh", "echo");
  const mlk::image::Code packed = mlk::image::pack_code(folder.path() / "code", {}, {.most_bytes = 1 << 20});
  const std::filesystem::path kept = folder.path() / "kept";
  mlk::image::write_archive(folder.path() / "code", packed, kept / "code.tar.gz");
  Keeping keeping;
  mlk::StoredRun run = run_with_code({{"folder", kept.string()}});
  run.code = packed.digest;
  CHECK(mlk::sha256_hex(mlk::fetch_code(keeping.client, "default", run, {})) == packed.digest);
  run.code = kept_digest;
  CHECK(keeping.code_error(run).code() == mlk::ExitCode::failure);
  CHECK(keeping.code_error(run).what() == std::string("the stored code of run x-abcde was changed"));
  run.code_source = json{{"folder", (folder.path() / "none").string()}}.dump();
  CHECK(keeping.code_error(run).code() == mlk::ExitCode::not_found);
  CHECK(keeping.code_error(run).what() ==
        (folder.path() / "none" / "code.tar.gz").string() + ", the code of run x-abcde, is gone");
}

TEST_CASE("fetch_code() reads the code of a run from the marked layer of the image") {
  const TemporaryFolder folder;
  folder.write("code/main.sh", "echo");
  const mlk::image::CodeLayers layers{.cache = folder.path() / "layers", .prefix = "mlk/code"};
  const mlk::image::Code packed = mlk::image::pack_code(folder.path() / "code", {}, {.most_bytes = 1 << 20});
  mlk::image::write_code_layer(folder.path() / "code", packed, layers);
  const std::string layer = mlk::read_file(layers.file_of(packed.digest), 1 << 20);

  PlayedRegistry played;
  const std::string digest = add_image(played, "team/x", "1", {"below", layer});
  const auto mark = [&](const char* purpose) {
    json manifest = json::parse(played.manifests["team/x"][digest]);
    manifest["layers"][1]["annotations"][mlk::image::purpose_annotation] = purpose;
    played.manifests["team/x"]["1"] = manifest.dump();
  };
  Keeping keeping;
  mlk::StoredRun run = run_with_code({{"layer", true}});
  run.code = packed.digest;
  run.image = played.name + "/team/x:1";
  mark("code");
  CHECK(mlk::sha256_hex(mlk::fetch_code(keeping.client, "default", run, {})) == packed.digest);
  run.code = kept_digest;
  CHECK(keeping.code_error(run).what() == std::string("the stored code of run x-abcde was changed"));
  mark("python");
  CHECK(keeping.code_error(run).code() == mlk::ExitCode::failure);
  CHECK(keeping.code_error(run).what() == "image " + run.image + " has no layer of code");
}
