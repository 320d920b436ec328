// mlk image, with registries that the tests play.

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/util/text.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("app/images");

namespace {

using nlohmann::json;

// A manifest like that of a BuildKit cache or a chart: its configuration describes no image.
void add_artifact(PlayedRegistry& played, const std::string& tag) {
  const std::string configuration = "{}";
  const std::string digest = played.add_blob("team/x", configuration);
  const std::lock_guard lock(played.mutex);
  played.manifests["team/x"][tag] = json{
      {"schemaVersion", 2},
      {"mediaType", mlk::image::oci_types.manifest},
      {"config",
       {{"mediaType", "application/vnd.oci.empty.v1+json"},
        {"digest", digest},
        {"size", configuration.size()}}},
      {"layers", json::array()}}.dump();
}

}  // namespace

TEST_CASE("mlk image ls lists a tag even if mlk can read no image there") {
  PlayedRegistry played;
  add_image(played, "team/x", "app", {"layer"});
  add_artifact(played, "cache");
  played.manifests["team/x"]["old"] = R"({"schemaVersion":1})";
  json tags = json::array({"app"});
  played.before = [&](const PlayedRegistry::Request& request, PlayedRegistry::Response& response) {
    if (request.path != "/v2/team/x/tags/list") return false;
    response.status = 200;
    response.set_content(json{{"tags", tags}}.dump(), "application/json");
    return true;
  };
  const auto list = [&](std::string& err, std::vector<std::string> more = {}) {
    mlk::test::Tree tree;
    more.insert(more.begin(), {"image", "ls", played.name + "/team/x"});
    CHECK(tree.run(more) == 0);
    err = tree.err.str();
    return tree.out.str();
  };
  std::string err;
  CHECK(list(err).find("linux/amd64") != std::string::npos);
  CHECK(err.empty());
  tags = json::array({"old", "cache", "app"});
  std::vector<std::string> first_words;
  for (const std::string& line : mlk::split(list(err), '\n'))
    first_words.push_back(line.substr(0, line.find(' ')));
  CHECK(first_words == std::vector<std::string>{"TAG", "app", "cache", "old", ""});
  CHECK(err == "2 of the tags name no image that mlk can read, such as: image " + played.name +
                   "/team/x:cache: its configuration has no rootfs\n");
  const json listed = json::parse(list(err, {"-o", "json"}));
  REQUIRE(listed.size() == 3);
  CHECK(listed[0]["platform"] == "linux/amd64");
  CHECK(listed[0]["bytes"] == 5);
  CHECK(listed[1]["tag"] == "cache");
  CHECK(listed[1]["platform"] == "");
  CHECK(listed[2]["digest"] == "sha256:" + mlk::sha256_hex(R"({"schemaVersion":1})"));
  CHECK(err.starts_with("2 of the tags name no image"));
}

TEST_CASE("mlk image ls fails if the registry refuses a request about one of the tags") {
  PlayedRegistry played;
  add_image(played, "team/x", "app", {"layer"});
  played.before = [&](const PlayedRegistry::Request& request, PlayedRegistry::Response& response) {
    if (request.path == "/v2/team/x/tags/list") {
      response.status = 200;
      response.set_content(R"({"tags":["app"]})", "application/json");
      return true;
    }
    response.status = 403;
    return request.path.find("/blobs/") != std::string::npos;
  };
  mlk::test::Tree tree;
  CHECK(tree.run({"image", "ls", played.name + "/team/x"}) == 4);
}
