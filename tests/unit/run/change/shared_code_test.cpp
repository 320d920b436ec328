// Tests that code which runs share is sent once and owned by all runs that use it.
#include <doctest/doctest.h>

#include "cli/image/tar.h"
#include "cli/run/change/shared_content.h"
#include "cli/util/hash.h"
#include "tests/unit/image/gzip_text.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/change/shared_code");

namespace {

using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::test::FakeCluster;
using mlk::test::one_worker;
using mlk::test::Submitter;
using nlohmann::json;

std::string archive_of(const std::string& program) {
  std::string tar;
  mlk::image::append_to_tar(tar, {.path = "main.sh"}, program);
  tar += mlk::image::tar_end();
  return tar;
}
const std::string tar = archive_of("echo hello"), digest = mlk::sha256_hex(tar);

// The object in the cluster that holds this archive as the code.
json map_of_code(const std::string& packed) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", "mlk-code-" + digest.substr(0, 16)},
            {"labels", {{"mlk.dev/shared", "code"}}},
            {"annotations", {{"mlk.dev/digest", digest}}}}},
          {"immutable", true},
          {"binaryData", {{"code.tar.gz", mlk::base64_encode(packed)}}}};
}

// Submits of runs that have the same code.
struct CodeSubmitter : Submitter {
  explicit CodeSubmitter(const std::string& note) {
    experiment = mlk::load_experiment(one_worker + "code: .\nenv: {N: '" + note + "'}\n", "x.yaml", {},
                                      templates.names());
    files.code = mlk::CodeArchive{.digest = digest, .bytes = mlk::test::gzip(tar)};
  }
};
const std::string code_map = "mlk-code-" + digest.substr(0, 16);

std::vector<std::string> owners_of_code(const FakeCluster& cluster) {
  const mlk::local::Object map = cluster.store.find("configmaps", "default", code_map);
  std::vector<std::string> names;
  if (map) {
    for (const json& owner : map->at("metadata").at("ownerReferences")) names.push_back(owner.at("name"));
  }
  return names;
}

}  // namespace

TEST_CASE("runs with the same code share one ConfigMap, which is sent once") {
  CodeSubmitter submitter("1");
  int sent = 0;
  submitter.cluster.before([&](const mlk::local::Request& request) {
    if (request.method == "POST" && request.body.find(code_map + "\",") != std::string::npos &&
        request.body.find("binaryData") != std::string::npos)
      ++sent;
    return std::nullopt;
  });
  const std::string first = submitter.submit().run;
  CHECK(sent == 1);
  CHECK(submitter.notes == std::vector<std::string>{"sent configmap/" + code_map + ", 1 KiB"});
  submitter.experiment = CodeSubmitter("2").experiment;
  const std::string second = submitter.submit().run;
  CHECK(sent == 1);
  CHECK(first != second);
  CHECK(owners_of_code(submitter.cluster) == std::vector{first, second});
  CHECK(submitter.notes.back() == "configmap/" + code_map + " is there already: nothing of it was sent");
  submitter.again = true;
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
  CHECK(owners_of_code(submitter.cluster) == std::vector{first, second});
}

TEST_CASE("a submit tries again if another program changes or deletes the ConfigMap of its code meanwhile") {
  CodeSubmitter submitter("1");
  submitter.submit();
  submitter.experiment = CodeSubmitter("2").experiment;
  int patches = 0;
  submitter.cluster.before([&](const mlk::local::Request& request) {
    const bool of_code = request.method == "PATCH" && request.path.ends_with("/" + code_map);
    if (of_code && ++patches == 1) {
      submitter.cluster.store.modify("configmaps", "default", code_map,
                                     [](json& map) { map["metadata"]["annotations"]["x"] = "y"; });
    } else if (of_code && patches == 2) {
      submitter.cluster.store.remove("configmaps", "default", code_map);
    }
    return std::nullopt;
  });
  const std::string second = submitter.submit().run;
  CHECK(patches == 2);
  CHECK(owners_of_code(submitter.cluster) == std::vector{second});
}

TEST_CASE("an existing ConfigMap is not used for code if only its name is right") {
  CodeSubmitter submitter("1");
  submitter.cluster.ask("POST", "/api/v1/namespaces/default/configmaps",
                        {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", code_map}}}});
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "configmap/" + code_map + " exists and belongs to something else");
  CHECK(submitter.cluster.names("configmaps") == code_map + " ");
}

TEST_CASE("a ConfigMap of code gets no owner if it was made by hand") {
  CodeSubmitter submitter("1");
  submitter.cluster.ask("POST", mlk::test::config_maps_path, map_of_code(mlk::test::gzip(tar)));
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
  CHECK_FALSE(submitter.cluster.store.find("configmaps", "default", code_map)
                  ->at("metadata")
                  .contains("ownerReferences"));
}

TEST_CASE("a submit creates shared code again if the garbage collector deletes it during the submit") {
  CodeSubmitter submitter("1");
  submitter.submit();
  submitter.experiment = CodeSubmitter("2").experiment;
  submitter.cluster.before([&](const mlk::local::Request& request) {
    if (request.method == "POST" && request.path.ends_with("/jobs"))
      submitter.cluster.store.remove("configmaps", "default", code_map);
    return std::nullopt;
  });
  const std::string second = submitter.submit().run;
  CHECK(owners_of_code(submitter.cluster) == std::vector{second});
}

TEST_CASE("a submit refuses a ConfigMap of code if the archive does not match the digest") {
  for (const std::string& packed :
       {mlk::test::gzip(archive_of("echo stolen")), std::string("no archive"), std::string()}) {
    CodeSubmitter submitter("1");
    submitter.cluster.ask("POST", mlk::test::config_maps_path, map_of_code(packed));
    const auto [code, what] = submitter.refused();
    CHECK(code == ExitCode::failure);
    CHECK(what ==
          "the content of configmap/" + code_map + " does not match its name: somebody else has made it");
    CHECK(submitter.cluster.names("jobs").empty());
    CHECK_FALSE(submitter.cluster.store.find("configmaps", "default", code_map)
                    ->at("metadata")
                    .contains("ownerReferences"));
  }
}

TEST_CASE("a submit fails if another program replaces the shared code by other code meanwhile") {
  CodeSubmitter submitter("1");
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/jobs")) return std::nullopt;
    const mlk::local::Object map = submitter.cluster.store.find("configmaps", "default", code_map);
    json other = map_of_code(mlk::test::gzip(archive_of("echo stolen")));
    other["metadata"]["ownerReferences"] = map->at("metadata").at("ownerReferences");
    submitter.cluster.store.remove("configmaps", "default", code_map);
    submitter.cluster.ask("POST", mlk::test::config_maps_path, other);
    return std::nullopt;
  });
  CHECK(submitter.refused().first == ExitCode::failure);
}

TEST_CASE("holds_digest() accepts an immutable ConfigMap with one file and the right digest") {
  const json good = map_of_code(mlk::test::gzip(tar));
  CHECK(mlk::holds_digest(good, digest));
  CHECK_FALSE(mlk::holds_digest(good, std::string(64, 'd')));
  CHECK_FALSE(mlk::holds_digest(good, ""));
  const auto changed = [&](const json& patch) {
    json out = good;
    out.merge_patch(patch);
    return mlk::holds_digest(out, digest);
  };
  CHECK_FALSE(changed({{"immutable", false}}));
  CHECK_FALSE(changed({{"immutable", nullptr}}));
  CHECK_FALSE(changed({{"kind", "Secret"}}));
  CHECK_FALSE(changed({{"binaryData", nullptr}}));
  CHECK_FALSE(changed({{"binaryData", {{"code.tar.gz", nullptr}}}}));
  CHECK_FALSE(changed({{"binaryData", {{"more", ""}}}}));
  CHECK_FALSE(changed({{"data", {{"more", ""}}}}));
  CHECK(changed({{"data", json::object()}}));
  // Helper files are not compressed.
  json helper = good;
  helper["binaryData"] = {{"mlk-mpi", mlk::base64_encode("program")}};
  CHECK(mlk::holds_digest(helper, mlk::sha256_hex("program")));
  CHECK_FALSE(mlk::holds_digest(helper, mlk::sha256_hex("another")));
  // Only a file whose name ends with .gz is unpacked.
  helper["binaryData"] = {{"mlk-mpi", mlk::base64_encode(mlk::test::gzip("program"))}};
  CHECK_FALSE(mlk::holds_digest(helper, mlk::sha256_hex("program")));
}
