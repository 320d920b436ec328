// Checks after which answers of a registry mlk repeats a request, and how long mlk waits before that.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/registry/registry.h"
#include "tests/unit/registry/played_answers.h"

TEST_SUITE_BEGIN("registry/repeats");

using mlk::registry::Access;
using mlk::registry::Registry;

TEST_CASE("mlk repeats a request after 429 and 503, even if Retry-After is a date") {
  PlayedRegistry played;
  played.manifests[repository]["1"] = manifest_text;
  int refused = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || refused == 3) return false;
    const char* times[] = {"0", "1", "Fri, 31 Dec 1999 23:59:59 GMT"};
    response.set_header("Retry-After", times[refused]);
    return answered_with(response, refused++ == 0 ? 503 : 429);
  };
  Registry registry({}, played.reference());
  const auto found = registry.find_manifest(repository, "1");
  REQUIRE(found);
  CHECK(found->bytes == manifest_text);
  CHECK(found->digest == "sha256:" + mlk::sha256_hex(manifest_text));
  CHECK(refused == 3);
}

TEST_CASE("if Retry-After is 0, mlk waits as usual before it repeats a request") {
  PlayedRegistry played;
  std::vector<std::chrono::steady_clock::time_point> asked;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    asked.push_back(std::chrono::steady_clock::now());
    response.set_header("Retry-After", "0");
    return asked.size() == 1 && answered_with(response, 503);
  };
  Registry registry({}, played.reference());
  CHECK_FALSE(registry.find_manifest(repository, "1"));
  REQUIRE(asked.size() == 2);
  CHECK(asked[1] - asked[0] >= std::chrono::milliseconds(400));
}

TEST_CASE("mlk fails at once with the registry's words if the registry asks for a wait of an hour") {
  PlayedRegistry played;
  played.before = [&](const Request&, Response& response) {
    response.set_header("Retry-After", "3600");
    return answered_with(response, 429, R"({"errors":[{"code":"TOOMANYREQUESTS","message":"pull less"}]})");
  };
  Registry registry({}, played.reference());
  const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) == "registry " + played.name + " answered with status 429 for image " +
                                         played.name + "/team/x:1: TOOMANYREQUESTS: pull less");
  CHECK(played.count("GET /v2/team/x/manifests/1") == 1);
}

TEST_CASE("the wait for a registry ends with an error if the user interrupts mlk") {
  PlayedRegistry played;
  played.before = [&](const Request&, Response& response) {
    response.set_header("Retry-After", "59");
    return answered_with(response, 503);
  };
  std::string noted;
  Access access;
  access.go_on = [&] { return noted.empty(); };
  access.note = [&](const std::string& note) { noted = note; };
  Registry registry(access, played.reference());
  CHECK(registry_error([&] { (void)registry.find_manifest(repository, "1"); }).code() ==
        mlk::ExitCode::interrupted);
  CHECK(noted == "registry " + played.name + " answered with status 503; trying again in 59 s");
}
