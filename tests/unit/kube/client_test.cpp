#include "cli/kube/client.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/list.h"
#include "cli/kube/objects.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/client");

using namespace mlk::kube;
using mlk::ExitCode;
using std::chrono::milliseconds;

namespace {

ApiError error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& error) {
    return error;
  }
  return ApiError(-1, "None", "no error was thrown");
}

}  // namespace

TEST_CASE("path_of() encodes the namespace and the name in a path") {
  CHECK(path_of(resources::pods, "ns", "p") == "/api/v1/namespaces/ns/pods/p");
  CHECK(path_of(resources::jobs, "a b", "x/../y") == "/apis/batch/v1/namespaces/a%20b/jobs/x%2F..%2Fy");
  CHECK(path_of(resources::jobs, "") == "/apis/batch/v1/jobs");
}

TEST_CASE("a client refuses a request with an empty name, and sends nothing") {
  FakeServer server;
  std::atomic<int> requests = 0;
  const auto count = [&](const httplib::Request&, httplib::Response& response) {
    ++requests;
    answer(response, 200, "{}");
  };
  server.http->Get(".*", count).Patch(".*", count).Delete(".*", count);
  Client client(server.start());
  CHECK_THROWS_AS(client.get(resources::jobs, "n", ""), mlk::Error);
  CHECK_THROWS_AS(client.find(resources::jobs, "n", ""), mlk::Error);
  CHECK_THROWS_AS(client.patch(resources::jobs, "n", "", {{"a", 1}}), mlk::Error);
  CHECK_THROWS_AS(client.remove(resources::jobs, "n", ""), mlk::Error);
  CHECK(requests == 0);
}

TEST_CASE("each verb sends the method, path, query and body that Kubernetes expects") {
  FakeServer server;
  std::vector<std::string> seen;
  std::mutex mutex;
  const auto note = [&](const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mutex);
    seen.push_back(request.method + " " + request.target + " " + request.get_header_value("Content-Type") +
                   " " + request.body);
    answer(response, 200, R"({"kind":"ConfigMap","metadata":{"name":"x"}})");
  };
  server.http->Get(".*", note).Post(".*", note).Patch(".*", note).Delete(".*", note);
  Client client(server.start());
  CHECK(name_of(client.get(resources::config_maps, "n", "x")) == "x");
  client.create(resources::config_maps, "n", {{"a", 1}}, {.dry_run = true});
  client.patch(resources::jobs, "n", "x", {{"a", 1}});
  client.remove(resources::jobs, "n", "x", "u");
  REQUIRE(seen.size() == 4);
  CHECK(seen[0] == "GET /api/v1/namespaces/n/configmaps/x  ");
  CHECK(seen[1] ==
        "POST /api/v1/namespaces/n/configmaps?fieldManager=mlk&fieldValidation=Strict&dryRun=All "
        "application/json {\"a\":1}");
  CHECK(seen[2] ==
        "PATCH /apis/batch/v1/namespaces/n/jobs/x?fieldManager=mlk&fieldValidation=Strict "
        "application/merge-patch+json {\"a\":1}");
  CHECK(seen[3] ==
        "DELETE /apis/batch/v1/namespaces/n/jobs/x application/json "
        R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},)"
        R"("propagationPolicy":"Background"})");
}

TEST_CASE("an answer with an error status becomes an ApiError; find() returns nothing for a missing object") {
  FakeServer server;
  server.http->Get("/api/v1/namespaces/n/pods/x", [](const auto&, auto& response) {
    answer(response, 404, status_body(404, "NotFound", "pods \\\"x\\\" not found"));
  });
  server.http->Post("/api/v1/namespaces/n/pods", [](const auto&, auto& response) {
    answer(response, 403, status_body(403, "Forbidden", "pods is forbidden: User \\\"me\\\" cannot create"));
  });
  server.http->Get("/page",
                   [](const auto&, auto& response) { answer(response, 502, "<html>bad gateway</html>"); });
  Client client(server.start());
  CHECK_FALSE(client.find(resources::pods, "n", "x"));
  const ApiError missing = error_of([&] { client.get(resources::pods, "n", "x"); });
  CHECK(missing.status() == 404);
  CHECK(missing.reason() == "NotFound");
  CHECK(missing.code() == ExitCode::not_found);
  const ApiError forbidden =
      error_of([&] { client.create(resources::pods, "n", {{"metadata", {{"name", "p"}}}}); });
  CHECK(forbidden.status() == 403);
  CHECK(forbidden.code() == ExitCode::cluster);
  CHECK(std::string(forbidden.what()) ==
        "pods/p in namespace n: pods is forbidden: User \"me\" cannot create");
  CHECK_FALSE(forbidden.hint().empty());
  const ApiError page = error_of([&] { parse_response(client.send({.path = "/page"}), "page"); });
  CHECK(std::string(page.what()) == "page: the server answers 502");
}

TEST_CASE("a 404 without a Status is an error of the server and does not mean a missing object") {
  FakeServer server;
  server.http->Get("/api/v1/.*", [](const auto&, auto& response) {
    answer(response, 404, "<html><body>404 page not found</body></html>");
  });
  server.http->Get("/apis/.*",
                   [](const auto&, auto& response) { answer(response, 404, "404 page not found"); });
  Client client(server.start());
  for (const Resource* resource : {&resources::pods, &resources::jobs}) {
    const ApiError error = error_of([&] { (void)client.find(*resource, "n", "x"); });
    CHECK(error.code() == ExitCode::cluster);
    CHECK(error.status() == 404);
    CHECK(error.reason() != "NotFound");
    CHECK(error.hint().find("a Kubernetes API server") != std::string::npos);
  }
}

TEST_CASE("a field of a server's answer is treated as missing if it has a wrong type") {
  FakeServer server;
  server.http->Get("/api/v1/namespaces/n/pods", [](const auto&, auto& response) {
    answer(response, 200,
           R"({"items": [{"metadata": [1], "spec": 3, "status": "x", "data": false}, 7, null, "x",
        {"metadata": {"name": 5, "labels": "a", "annotations": [{}], "ownerReferences": "x"}}]})");
  });
  server.http->Get("/api/v1/namespaces/n/pods/x",
                   [](const auto&, auto& response) { answer(response, 200, R"({"metadata": 3})"); });
  Client client(server.start());
  const ListResult list = client.list(resources::pods, "n");
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0].at("metadata") == json::object());
  for (const char* part : {"spec", "status", "data"}) CHECK_FALSE(list.items[0].contains(part));
  CHECK(list.items[1].at("metadata") == json{{"name", 5}});
  CHECK(name_of(list.items[1]).empty());
  CHECK(client.get(resources::pods, "n", "x").at("metadata") == json::object());
}

TEST_CASE("the error for refused credentials names the server, the user and the kubeconfig") {
  FakeServer server;
  server.http->Get(".*", [](const auto&, auto& response) {
    answer(response, 401, status_body(401, "Unauthorized", "Unauthorized"));
  });
  const Config config = server.start();
  Client client(config);
  const ApiError error = error_of([&] { client.list(resources::pods, "n"); });
  CHECK(std::string(error.what()) ==
        "the server at " + config.server +
            " does not accept the credentials of user \"researcher\" in /home/me/.kube/config");
  CHECK(error.code() == ExitCode::cluster);
}

TEST_CASE("without_managed_fields() removes the managed fields and nothing else") {
  const std::string fields =
      R"(,"managedFields":[{"manager":"mlk","fieldsV1":{"k:{\"a\":\"]\\\"}":{"x":[1,[2]]}}}])";
  const auto list = [](const std::string& in) {
    return R"({"items":[{"metadata":{"name":"a")" + in + R"(}},{"metadata":{"name":"b")" + in + "}}]}";
  };
  CHECK(without_managed_fields(list(fields)) == list(""));
  CHECK(without_managed_fields(list("")) == list(""));
  for (const std::string other : {
           R"({"a":"x","managedFields":["of a user"]})",
           R"({"a":"x,\"managedFields\":[{\"manager\":1}]"})",
           R"({"a":"x","managedFields":[{"manager":"cut)",
       })
    CHECK(without_managed_fields(other) == other);
}

TEST_CASE("a client throws if an answer is not JSON") {
  FakeServer server;
  server.http->Get(".*", [](const auto&, auto& response) { answer(response, 200, "hello"); });
  Client client(server.start());
  CHECK(error_of([&] { client.get(resources::pods, "n", "x"); }).reason() == "Unreadable");
}

TEST_CASE("a client repeats a request to a busy server if Retry-After fits in the time-out") {
  FakeServer server;
  std::atomic<int> with = 0, without = 0, always = 0;
  server.http->Post("/with", [&](const auto& request, auto& response) {
    if (request.body != "body") return answer(response, 500, "");  // each attempt must have the body
    if (with++ < 2) response.set_header("Retry-After", "0");
    answer(response, with <= 2 ? 429 : 200, "{}");
  });
  server.http->Post("/without", [&](const auto&, auto& response) {
    ++without;
    answer(response, 503, "{}");
  });
  server.http->Get("/always", [&](const auto&, auto& response) {
    ++always;
    response.set_header("Retry-After", "0");
    answer(response, 503, "{}");
  });
  server.http->Get("/later", [](const auto&, auto& response) {
    response.set_header("Retry-After", "3600");
    answer(response, 429, "{}");
  });
  Client client(server.start());
  CHECK(client.send({.method = "POST", .path = "/with", .body = "body"}).status == 200);
  CHECK(with == 3);
  CHECK(client.send({.method = "POST", .path = "/without", .body = "body"}).status == 503);
  CHECK(without == 1);
  CHECK(client.send({.path = "/always"}).status == 503);
  CHECK(always == 10);
  CHECK(client.send({.path = "/later", .timeout = milliseconds(2000)}).status ==
        429);  // a wait beyond the time-out is useless
}

TEST_CASE("a client repeats a GET after a broken connection, but not a POST") {
  const auto breaks = [](int n, const std::string& request) {
    const bool first = n == 0;  // opens the connection that is then reused
    const bool repeated_get = n >= 2 && request.starts_with("GET");
    return first || repeated_get ? RawServer::empty_object() : std::string();
  };
  SUBCASE("GET") {
    RawServer server(breaks);
    Client client(server.config());
    client.send({.path = "/first"});
    CHECK(client.send({.path = "/x"}).status == 200);
    CHECK(server.requests() == 3);
  }
  SUBCASE("POST") {
    RawServer server(breaks);
    Client client(server.config());
    client.send({.path = "/first"});
    const ApiError error = error_of([&] { client.send({.method = "POST", .path = "/x", .body = "{}"}); });
    CHECK(error.status() == 0);
    CHECK(error.reason() == "Unreachable");
    CHECK(std::string(error.what()).find("the connection broke") != std::string::npos);
    CHECK(server.requests() == 2);
  }
  SUBCASE("a POST whose answer is cut on a new connection") {
    RawServer server([](int, const std::string&) {
      return std::string("HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{");
    });
    Client client(server.config());
    CHECK(error_of([&] { client.send({.method = "POST", .path = "/x", .body = "{}"}); }).status() == 0);
    CHECK(server.requests() == 1);
  }
}

TEST_CASE("a request fails at its time-out if the server does not answer") {
  FakeServer server;
  server.http->Get(".*", [&](const auto&, auto&) { server.hang(); });
  Client client(server.start());
  const ApiError error = error_of([&] { client.send({.path = "/x", .timeout = milliseconds(300)}); });
  CHECK(error.status() == 0);
  CHECK(std::string(error.what()).find("no answer within 0.3 s") != std::string::npos);
}

TEST_CASE("the error for a port without a listener says that the connection was refused") {
  Config config;
  {
    FakeServer server;
    config = server.start();
  }
  config.longest_trying = milliseconds(0);
  Client client(config);
  const ApiError error = error_of([&] { client.get(resources::pods, "n", "x"); });
  CHECK(std::string(error.what()) == "cannot reach " + config.server + ": connection refused");
  CHECK(error.code() == ExitCode::cluster);
  CHECK(error.hint().find("/home/me/.kube/config (context test)") != std::string::npos);
}

TEST_CASE("a client runs many requests at the same time") {
  FakeServer server;
  std::atomic<int> inside = 0, most = 0;
  server.http->Get(".*", [&](const auto&, auto& response) {
    const int now = ++inside;
    int before = most;
    while (now > before && !most.compare_exchange_weak(before, now)) continue;
    for (int i = 0; i < 500 && most < 4; ++i) std::this_thread::sleep_for(milliseconds(10));
    --inside;
    answer(response, 200, "{}");
  });
  Client client(server.start());
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(client.ask({.path = "/" + std::to_string(i)}));
  for (auto& future : answers) CHECK(future.get().value().status == 200);
  CHECK(most >= 4);
}

TEST_CASE("the destructor of a client ends its running requests with an error") {
  FakeServer server;
  server.http->Get(".*", [&](const auto&, auto&) { server.hang(); });
  std::future<Answer> answer;
  {
    Client client(server.start());
    answer = client.ask({.path = "/x"});
  }
  CHECK_THROWS_AS(answer.get().value(), ApiError);
}

TEST_CASE("a client passes each warning text of the server to on_warning only once") {
  FakeServer server;
  server.http->Post(".*", [&](const auto&, auto& response) {
    response.set_header("Warning", "299 - \"unknown field \\\"x\\\"\"");
    response.headers.emplace("Warning", "199 - \"not for us\"");
    answer(response, 201, "{}");
  });
  Client client(server.start());
  std::vector<std::string> warnings;
  client.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  client.create(resources::pods, "n", json::object());
  client.create(resources::pods, "n", json::object());
  CHECK(warnings == std::vector<std::string>{"unknown field \"x\""});
}

TEST_CASE("list() requests a list in pages, and gives each object its kind") {
  FakeServer server;
  std::vector<std::string> targets;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    targets.push_back(request.target);
    const bool second = request.has_param("continue");
    answer(
        response, 200,
        second
            ? R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b"}}]})"
            : R"({"metadata":{"resourceVersion":"7","continue":"t/1"},"items":[{"metadata":{"name":"a"}}]})");
  });
  Client client(server.start());
  const ListResult list = client.list(resources::jobs, "n", {.label_selector = "a=b,c in (d)"});
  REQUIRE(list.items.size() == 2);
  CHECK(name_of(list.items[1]) == "b");
  CHECK(list.items[0]["kind"] == "Job");
  CHECK(list.items[0]["apiVersion"] == "batch/v1");
  CHECK(list.resource_version == "7");
  REQUIRE(targets.size() == 2);
  CHECK(targets[0] == "/apis/batch/v1/namespaces/n/jobs?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=500");
  CHECK(targets[1].ends_with("&limit=500&continue=t%2F1"));
}

TEST_CASE("list() requests shorter pages of large objects, and longer pages of small objects") {
  FakeServer server;
  std::vector<std::string> limits;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    limits.push_back(request.get_param_value("limit"));
    const std::size_t page = limits.size();
    const std::string large(page <= 2 ? 9u << 20 : 10, 'x');
    const std::string more = page < 4 ? R"("continue":"t")" : "";
    answer(response, 200,
           R"({"metadata":{)" + more + R"(},"items":[{"metadata":{"name":"a"},"data":")" + large + R"("}]})");
  });
  Client client(server.start());
  const ListResult list =
      client.list(resources::config_maps, "n",
                  {.first_page = 40, .transform = [](json& object) { object.erase("data"); }});
  CHECK(limits == std::vector<std::string>{"40", "20", "10", "20"});
  REQUIRE(list.items.size() == 4);
  CHECK_FALSE(list.items[0].contains("data"));
  CHECK(name_of(list.items[0]) == "a");
}

TEST_CASE("list() throws after 1000 pages if a list does not end") {
  FakeServer server;
  int pages = 0;
  server.http->Get(".*", [&](const auto&, auto& response) {
    answer(response, 200, R"({"metadata":{"continue":"t)" + std::to_string(++pages) + R"("},"items":[]})");
  });
  Client client(server.start());
  const ApiError error = error_of([&] { client.list(resources::pods, "n"); });
  CHECK(error.reason() == "TooLarge");
  CHECK(error.code() == ExitCode::cluster);
  CHECK(std::string(error.what()) == "pods in namespace n: the list does not end: 0 objects in 1000 pages");
  CHECK(pages == 1000);
}

TEST_CASE("a client refuses an answer if it exceeds the limit together with the other unfinished answers") {
  FakeServer server;
  std::atomic<bool> refused = false;
  const std::string block(10u << 20, ' ');
  server.http->Get(".*", [&](const auto&, auto& response) {
    // httplib compresses JSON, and holds compressed data back. So the answers have another type.
    response.set_chunked_content_provider("application/octet-stream",
                                          [&, begun = false](std::size_t, httplib::DataSink& sink) mutable {
                                            // An answer ends only after another answer was refused. Until
                                            // then it sends one byte every 5 ms.
                                            if (begun) std::this_thread::sleep_for(milliseconds(5));
                                            const std::string part = begun ? " " : block;
                                            begun = true;
                                            if (refused) {
                                              sink.done();
                                            } else if (!sink.write(part.data(), part.size())) {
                                              refused = true;
                                            }
                                            return true;
                                          });
  });
  Config config = server.start();
  config.most_held = 25u << 20;
  Client client(config);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(client.ask({.path = "/large"}));
  int too_large = 0;
  for (auto& answer : answers) {
    const std::string problem = answer.get().unreachable;
    if (problem.find("all answers together more than 25 MiB") != std::string::npos) ++too_large;
  }
  CHECK(too_large >= 1);
}

TEST_CASE("list() requests the list again without pages if the snapshot expires between two pages") {
  FakeServer server;
  int whole = 0;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    if (request.has_param("continue")) return answer(response, 410, status_body(410, "Expired", "too old"));
    const bool paged = request.has_param("limit");
    if (!paged) ++whole;
    answer(
        response, 200,
        paged
            ? R"({"metadata":{"resourceVersion":"1","continue":"t"},"items":[{"metadata":{"name":"a"}}]})"
            : R"({"metadata":{"resourceVersion":"2"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]})");
  });
  Client client(server.start());
  const ListResult list = client.list(resources::pods, "n");
  CHECK(list.items.size() == 2);
  CHECK(list.resource_version == "2");
  CHECK(whole == 1);
}

TEST_CASE("a request for a list of only metadata has the Accept header for PartialObjectMetadataList") {
  FakeServer server;
  std::string accept;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    accept = request.get_header_value("Accept");
    answer(response, 200, R"({"items":[]})");
  });
  Client client(server.start());
  client.list(resources::pods, "n", {.metadata_only = true});
  CHECK(accept.starts_with("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"));
}
