#include "cli/kube/access.h"

#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/access");

using namespace mlk::kube;
using Texts = std::vector<std::string>;

TEST_CASE(
    "may_all() answers in the order of the questions, and whoami() gives the name and groups of the user") {
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
  CHECK(may_all(client, "n", {{"create", resources::jobs}}) == std::vector<bool>{true});
  CHECK(spec == json({{"verb", "create"},
                      {"group", "batch"},
                      {"version", "v1"},
                      {"resource", "jobs"},
                      {"namespace", "n"}}));
  CHECK(whoami(client).name == "jane");
  CHECK(whoami(client).groups == Texts{"g"});
}

TEST_CASE("mlk impersonates a user to ask about the access of this user, and in no other request") {
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
  CHECK(may_all(client, "n", {{"create", resources::jobs}}) == std::vector<bool>{true});
  CHECK(names == Texts{""});
}

TEST_CASE("require_version() refuses a Kubernetes that is older than the required version") {
  FakeServer server;
  std::string version = R"({"major":"1","minor":"30+","gitVersion":"v1.30.1-gke"})";
  server.http->Get("/version", [&](const auto&, auto& response) { answer(response, 200, version); });
  Client client(server.start());
  const ServerVersion old = server_version(client);
  CHECK(old.major == 1);
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

TEST_CASE(
    "an access review names the subresource, and names the namespace only if objects of the kind have one") {
  FakeServer server;
  std::mutex mutex;
  std::vector<json> bodies;
  server.http->Post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    [&](const httplib::Request& request, auto& response) {
                      const std::lock_guard lock(mutex);
                      bodies.push_back(json::parse(request.body));
                      answer(response, 201, bodies.size() == 1 ? "{}" : R"({"status":{"allowed":"yes"}})");
                    });
  Client client(server.start());
  CHECK(may_all(client, "n", {{"get", resources::pods, "log"}}) == std::vector<bool>{false});
  CHECK(may_all(client, "n", {{"list", resources::nodes}}) == std::vector<bool>{false});
  CHECK(may_all(client, "", {{"list", resources::pods}}) == std::vector<bool>{false});
  REQUIRE(bodies.size() == 3);
  CHECK(bodies[0] ==
        json::parse(R"({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"verb": "get", "group": "", "version": "v1", "resource": "pods",
                                    "namespace": "n", "subresource": "log"}}})"));
  CHECK_FALSE(bodies[1]["spec"]["resourceAttributes"].contains("namespace"));
  CHECK_FALSE(bodies[2]["spec"]["resourceAttributes"].contains("namespace"));
  CHECK_FALSE(bodies[2]["spec"]["resourceAttributes"].contains("subresource"));
}

TEST_CASE(
    "whoami() returns the name and the groups in the server's answer, and skips values of wrong types") {
  FakeServer server;
  std::string said, body;
  server.http->Post("/apis/authentication.k8s.io/v1/selfsubjectreviews",
                    [&](const httplib::Request& request, auto& response) {
                      body = request.body;
                      answer(response, 201, said);
                    });
  Client client(server.start());
  said = R"({"status":{"userInfo":{"username":"jane","groups":["a",7,"b"]}}})";
  CHECK(whoami(client).groups == Texts{"a", "b"});
  CHECK(json::parse(body) == json{{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "SelfSubjectReview"}});
  said = R"({"status":{"userInfo":{"username":7,"groups":"a"}}})";
  CHECK(whoami(client).name.empty());
  CHECK(whoami(client).groups.empty());
}

TEST_CASE("require_version() compares the major number before the minor number") {
  const auto is_enough = [](int major, int minor) {
    try {
      require_version({major, minor, ""}, 2, 5);
    } catch (const mlk::Error& error) {
      CHECK(error.hint() == "choose another cluster with --context, or ask its operators for an upgrade");
      return false;
    }
    return true;
  };
  CHECK_FALSE(is_enough(1, 9));
  CHECK_FALSE(is_enough(2, 4));
  CHECK(is_enough(2, 5));
  CHECK(is_enough(2, 6));
  CHECK(is_enough(3, 0));
}

TEST_CASE("the error of server_version() names the server if the server gives no version") {
  FakeServer server;
  server.http->Get("/version", [](const auto&, auto& response) { answer(response, 200, "{}"); });
  const Config config = server.start();
  Client client(config);
  try {
    server_version(client);
    FAIL("no error");
  } catch (const ApiError& error) {
    CHECK(std::string(error.what()) == "the server at " + config.server + " does not say its version");
    CHECK(error.reason() == "Unreadable");
    CHECK(error.hint() == "is it a Kubernetes API server?");
  }
}
