#include "cli/kube/discovery.h"

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/discovery");

using namespace mlk::kube;

TEST_CASE("discovery_path() begins with /api for the core group, and with /apis for other groups") {
  CHECK(discovery_path("v1") == "/api/v1");
  CHECK(discovery_path("batch/v1") == "/apis/batch/v1");
  CHECK(discovery_path("a/../b") == "/apis/a/..%2Fb");
}

TEST_CASE("resources_in() gives the kinds whose objects can be created") {
  const std::vector<Resource> found = resources_in(json::parse(R"({"resources": [
      {"name": "widgets", "kind": "Widget", "namespaced": true, "verbs": ["get", "create"]},
      {"name": "widgets/status", "kind": "Widget", "namespaced": true, "verbs": ["create"]},
      {"name": "globes", "kind": "Globe", "namespaced": false, "verbs": ["create"]},
      {"name": "readings", "kind": "Reading", "namespaced": true, "verbs": ["get"]},
      {"name": "odd", "kind": "Odd", "namespaced": "true", "verbs": ["create"]},
      {"name": "bare", "kind": "Bare", "verbs": ["create"]}]})"),
                                                   "example.dev/v1");
  REQUIRE(found.size() == 4);
  CHECK(found[0].group == "example.dev");
  CHECK(found[0].version == "v1");
  CHECK_FALSE(found[2].namespaced);
  CHECK_FALSE(found[3].namespaced);
  CHECK(path_of(found[0], "ns", "a") == "/apis/example.dev/v1/namespaces/ns/widgets/a");
  CHECK(found[0].kind == "Widget");
  CHECK(path_of(found[1], "ns", "a") == "/apis/example.dev/v1/globes/a");
}

TEST_CASE("a field of a discovery document is treated as missing if it has a wrong type") {
  for (const char* text :
       {"null", "[]", "{}", R"({"resources": 7})", R"({"resources": [7, {}, {"verbs": "create"}]})",
        R"({"resources": [{"name": 7, "kind": "X", "verbs": ["create"]}]})",
        R"({"resources": [{"name": "xs", "kind": [], "verbs": ["create", 7]}]})",
        R"({"resources": [{"kind": "X", "verbs": ["create"]}]})",
        R"({"resources": [{"name": "xs", "kind": "X"}]})"})
    CHECK_MESSAGE(resources_in(json::parse(text), "v1").empty(), text);
}

TEST_CASE("a client asks once for the kinds of an apiVersion, and an unknown apiVersion has no kinds") {
  FakeServer server;
  std::atomic<int> asked = 0;
  server.http->Get("/apis/example.dev/v1", [&](const auto&, auto& response) {
    ++asked;
    answer(response, 200,
           R"({"kind": "APIResourceList", "resources": [{"name": "widgets", "kind": "Widget",
               "namespaced": true, "verbs": ["create"]}]})");
  });
  server.http->Get("/apis/other.dev/v1", [&](const auto&, auto& response) { answer(response, 404, ""); });
  server.http->Get("/apis/broken.dev/v1", [&](const auto&, auto& response) {
    answer(response, 503, status_body(503, "ServiceUnavailable", "its server is away"));
  });
  Client client(server.start());
  REQUIRE(client.served("example.dev/v1", "Widget"));
  CHECK(client.served("example.dev/v1", "Widget")->plural == "widgets");
  CHECK_FALSE(client.served("example.dev/v1", "Gadget"));
  CHECK(asked == 1);
  CHECK_FALSE(client.served("other.dev/v1", "Widget"));
  CHECK_THROWS_AS(client.served("broken.dev/v1", "Widget"), ApiError);
}
