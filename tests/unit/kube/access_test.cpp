#include "cli/kube/access.h"

#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "tests/unit/kube/fake_server.h"

using namespace mlk::kube;
using Texts = std::vector<std::string>;

TEST_CASE("access is asked for several things at once, and the answers keep their order") {
  FakeServer server;
  std::mutex mutex;
  json spec;
  server.http->Post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    [&](const httplib::Request& request, auto& response) {
                      const json body = json::parse(request.body);
                      const json& attributes = body["spec"]["resourceAttributes"];
                      const std::lock_guard lock(mutex);
                      if (attributes["resource"] == "jobs") spec = attributes;
                      answer(response, 201,
                             json({{"status", {{"allowed", attributes["resource"] == "jobs"}}}}).dump());
                    });
  server.http->Post("/apis/authentication.k8s.io/v1/selfsubjectreviews", [](const auto&, auto& response) {
    answer(response, 201, R"({"status":{"userInfo":{"username":"jane","groups":["g"]}}})");
  });
  Client client(server.start());
  CHECK(
      may_all(client, "n",
              {{"create", resources::pods}, {"create", resources::jobs}, {"get", resources::pods, "log"}}) ==
      std::vector<bool>{false, true, false});
  CHECK(may(client, "n", "create", resources::jobs));
  CHECK(spec == json({{"verb", "create"},
                      {"group", "batch"},
                      {"version", "v1"},
                      {"resource", "jobs"},
                      {"namespace", "n"}}));
  CHECK(whoami(client).name == "jane");
  CHECK(whoami(client).groups == Texts{"g"});
}

TEST_CASE("access is asked for another user in that one's name, and in no other request") {
  FakeServer server;
  std::mutex mutex;
  Texts names;
  server.http->Post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    [&](const httplib::Request& request, auto& response) {
                      const std::lock_guard lock(mutex);
                      names.push_back(request.get_header_value("Impersonate-User"));
                      answer(response, 201, R"({"status":{"allowed":true}})");
                    });
  Client client(server.start());
  const std::vector<AccessQuestion> many(20, {"create", resources::pods});
  CHECK(may_all(client, "n", many, "system:serviceaccount:n:a") == std::vector<bool>(20, true));
  CHECK(names == Texts(20, "system:serviceaccount:n:a"));
  names.clear();
  CHECK(may(client, "n", "create", resources::jobs));
  CHECK(names == Texts{""});
}

TEST_CASE("an old cluster is refused by its version") {
  FakeServer server;
  std::string version = R"({"major":"1","minor":"30+","gitVersion":"v1.30.1-gke"})";
  server.http->Get("/version", [&](const auto&, auto& response) { answer(response, 200, version); });
  Client client(server.start());
  const ServerVersion old = server_version(client);
  CHECK(old.minor == 30);
  CHECK(old.text == "v1.30.1-gke");
  try {
    require_version(old, 1, 31);
    FAIL("no error");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()) == "cluster runs Kubernetes 1.30; mlk needs 1.31 or newer");
    CHECK(error.code() == mlk::ExitCode::cluster);
  }
  require_version({1, 31, ""}, 1, 31);
  require_version({2, 0, ""}, 1, 31);
  for (const char* unreadable :
       {R"({"hello":"world"})", R"({"major":"1"})", R"({"minor":"30"})", R"({"major":"x","minor":"30"})"}) {
    version = unreadable;
    CHECK_THROWS_AS(server_version(client), ApiError);
  }
}
