// Images that are built: where they go, and for which platform.
#include "cli/run/build.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/run/submitter.h"

namespace {

using mlk::platform_of_nodes;
using mlk::test::one_worker;
using nlohmann::json;

mlk::Experiment built_experiment(const std::string& more = "") {
  const mlk::Templates templates;
  return mlk::load_experiment(one_worker + more, "x.yaml", {}, templates.names());
}

json labelled(const std::string& architecture, const std::string& kind = "") {
  json labels = {{"kubernetes.io/os", "linux"}, {"kubernetes.io/arch", architecture}};
  if (!kind.empty()) labels["kind"] = kind;
  return {{"metadata", {{"labels", labels}}}};
}

std::string platform_text(const std::vector<json>& nodes, const mlk::Experiment& experiment) {
  const auto found = platform_of_nodes(nodes, experiment);
  return found ? found->text() : "unknown";
}

mlk::Error target_error(const std::string& typed, const std::string& registry) {
  try {
    (void)mlk::target_of(typed, registry, "digits", {});
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("the platform is that of all nodes on which the pods may run") {
  const mlk::Experiment any = built_experiment(),
                        chosen = built_experiment("scheduling: {node: {selector: {kind: gpu}}}\n");
  CHECK(platform_text({}, any) == "unknown");
  CHECK(platform_text({labelled("amd64"), labelled("amd64")}, any) == "linux/amd64");
  CHECK(platform_text({labelled("amd64"), labelled("arm64")}, any) == "unknown");
  CHECK(platform_text({labelled("amd64"), labelled("arm64", "gpu")}, chosen) == "linux/arm64");
  CHECK(platform_text({labelled("amd64")}, chosen) == "unknown");
}

TEST_CASE("nodes of other systems, without labels or of any shape tell no platform") {
  const mlk::Experiment any = built_experiment();
  json windows = labelled("amd64");
  windows["metadata"]["labels"]["kubernetes.io/os"] = "windows";
  json numbered = labelled("amd64");
  numbered["metadata"]["labels"]["kubernetes.io/arch"] = 5;
  for (const json& node : {windows, numbered, json::object(), json{{"metadata", nullptr}},
                           json{{"metadata", "x"}}, json{{"metadata", {{"labels", nullptr}}}},
                           json{{"metadata", {{"labels", "x"}}}}, json(nullptr), json("x")}) {
    CHECK(platform_text({node}, any) == "unknown");
    CHECK(platform_text({node, labelled("arm64")}, any) == "linux/arm64");
  }
}

TEST_CASE("an image goes where it was typed, or to the registry under the name of the experiment") {
  mlk::Build build;
  build.composed.digest = "sha256:" + std::string(64, 'a');
  CHECK(mlk::target_of("r.example/x:2", "s.example", "digits", build).text() == "r.example/x:2");
  CHECK(mlk::target_of("r.example/x", "", "digits", build).tag == "latest");
  CHECK(mlk::target_of("", "s.example:5000/team", "digits", build).text() ==
        "s.example:5000/team/digits:mlk-aaaaaaaaaaaa");
  CHECK(mlk::runtime_reference("s.example/team", "0.1.0") == "s.example/team/mlk-runtime:0.1.0");
  CHECK(target_error("", "").hint().find("MLK_REGISTRY") != std::string::npos);
  for (const auto& [typed, registry] :
       std::vector<std::pair<std::string, std::string>>{{"r.example/x@" + build.composed.digest, ""},
                                                        {"", "https://s.example"},
                                                        {"", "s.example/team:1"},
                                                        {"", "me:secret@s.example"},
                                                        {"me:secret@s.example", ""}}) {
    const mlk::Error error = target_error(typed, registry);
    CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, typed, registry);
    CHECK_MESSAGE(std::string(error.what()).find("secret") == std::string::npos, error.what());
  }
}

TEST_CASE("a tag is one that mlk makes only with the digits of its digest") {
  const std::string digest = "sha256:0123456789abcdef" + std::string(48, '0');
  CHECK(mlk::is_built_tag("mlk-0123456789ab", digest));
  for (const char* tag :
       {"mlk-paper-final", "mlk-0123456789a", "mlk-0123456789abc", "mlk-ffffffffffff", "mlk-", "1"})
    CHECK_FALSE(mlk::is_built_tag(tag, digest));
}
