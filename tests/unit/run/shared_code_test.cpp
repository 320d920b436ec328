// Code that runs share: sent once, owned by all that use it.
#include <doctest/doctest.h>

#include "tests/unit/run/submitter.h"

namespace {

using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::test::FakeCluster;
using mlk::test::one_worker;
using mlk::test::Submitter;
using nlohmann::json;

// Submits that have the same code.
struct CodeSubmitter : Submitter {
  explicit CodeSubmitter(const std::string& note, const std::string& bytes = "bytes") {
    experiment = mlk::load_experiment(one_worker + "code: .\nenv: {N: '" + note + "'}\n", "x.yaml", {},
                                      templates.names());
    files.code = mlk::CodeArchive{.digest = std::string(64, 'd'), .bytes = bytes};
  }
};
const std::string code_map = "mlk-code-dddddddddddddddd";

std::vector<std::string> owners_of_code(const FakeCluster& cluster) {
  const mlk::local::Object map = cluster.store.find("configmaps", "default", code_map);
  std::vector<std::string> names;
  if (map) {
    for (const json& owner : map->at("metadata").at("ownerReferences")) names.push_back(owner.at("name"));
  }
  return names;
}

}  // namespace

TEST_CASE("runs with the same code share it: it is sent once, and each of them owns it") {
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

TEST_CASE("code that another submit changes or deletes at this moment is looked for again") {
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

TEST_CASE("a ConfigMap of that name with another content is not taken for the code") {
  CodeSubmitter submitter("1");
  submitter.cluster.ask("POST", "/api/v1/namespaces/default/configmaps",
                        {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", code_map}}}});
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "configmap/" + code_map + " exists and belongs to something else");
  CHECK(submitter.cluster.names("configmaps") == code_map + " ");
}

TEST_CASE("code that was made by hand serves, and is not owned, so that no run deletes it") {
  CodeSubmitter submitter("1");
  submitter.cluster.ask("POST", "/api/v1/namespaces/default/configmaps",
                        {{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata",
                          {{"name", code_map},
                           {"labels", {{"mlk.dev/shared", "code"}}},
                           {"annotations", {{"mlk.dev/digest", std::string(64, 'd')}}}}}});
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
  CHECK_FALSE(submitter.cluster.store.find("configmaps", "default", code_map)
                  ->at("metadata")
                  .contains("ownerReferences"));
}

TEST_CASE("code that a collector deletes while the run is created is created again") {
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
