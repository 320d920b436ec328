// The requests of the client's verbs, and their handling of answers.
#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/list.h"
#include "cli/kube/objects.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/verbs");

using namespace mlk::kube;
using mlk::ExitCode;

namespace {

// Answers every request with one object, and records the requests.
struct NotingServer {
  std::mutex mutex;
  std::vector<std::string> seen;
  int status = 200;
  std::string body = R"({"metadata":{"name":"x"}})";
  FakeServer server;  // declared last: its handlers use all of the above

  Config start() {
    const auto note = [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      seen.push_back(request.method + " " + request.target + " " + request.get_header_value("Content-Type") +
                     " " + request.body);
      response.set_header("Warning", "299 - \"old\"");
      answer(response, status, body);
    };
    server.http->Get(".*", note).Post(".*", note).Patch(".*", note).Delete(".*", note);
    return server.start();
  }
  std::string last() {
    const std::lock_guard lock(mutex);
    return seen.back();
  }
};

std::string thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& error) {
    return std::to_string(error.status()) + " " + error.reason() + " | " + error.what() + " | " +
           error.hint();
  }
  return "no error";
}

}  // namespace

TEST_CASE("create() sends no dryRun, and asks the server to refuse unknown fields") {
  NotingServer server;
  Client client(server.start());
  client.create(resources::pods, "n", {{"a", 1}});
  CHECK(server.last() ==
        "POST /api/v1/namespaces/n/pods?fieldManager=mlk&fieldValidation=Strict application/json {\"a\":1}");
}

TEST_CASE("patch() and ask_to_patch() send merge patches") {
  NotingServer server;
  Client client(server.start());
  const std::string path = "PATCH /api/v1/namespaces/n/pods/x?fieldManager=mlk&fieldValidation=Strict ";
  client.patch(resources::pods, "n", "x", {{"a", 1}});
  CHECK(server.last() == path + "application/merge-patch+json {\"a\":1}");
  CHECK(client.ask_to_patch(resources::pods, "n", "x", {{"b", 2}}).get().value().status == 200);
  CHECK(server.last() == path + "application/merge-patch+json {\"b\":2}");
}

TEST_CASE("remove() sends no uid if none is given, and asks for background propagation") {
  NotingServer server;
  Client client(server.start());
  client.remove(resources::pods, "n", "x");
  CHECK(server.last() ==
        "DELETE /api/v1/namespaces/n/pods/x application/json "
        R"({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"})");
}

TEST_CASE("patch() reports warnings to on_warning, which may be empty") {
  NotingServer server;
  Client client(server.start());
  client.create(resources::pods, "n", json::object());
  client.patch(resources::pods, "n", "x", {{"a", 1}});
  std::vector<std::string> warnings;
  client.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  client.patch(resources::pods, "n", "x", {{"a", 1}});
  client.create(resources::pods, "n", json::object());
  CHECK(warnings == std::vector<std::string>{"old"});
}

TEST_CASE("find() returns nothing for a missing object, and throws for every other error") {
  NotingServer server;
  const Config config = server.start();
  Client client(config);
  CHECK(client.find(resources::pods, "n", "x").has_value());
  server.status = 404;
  server.body = status_body(404, "NotFound", "no pod");
  CHECK_FALSE(client.find(resources::pods, "n", "x").has_value());
  CHECK(thrown_by([&] { client.remove(resources::pods, "n", "x"); }) ==
        "404 NotFound | pods/x in namespace n: no pod | ");
  CHECK(thrown_by([&] { client.patch(resources::pods, "n", "x", {{"a", 1}}); }) ==
        "404 NotFound | pods/x in namespace n: no pod | ");
  server.status = 500;
  server.body = status_body(500, "NotFound", "odd");
  CHECK(thrown_by([&] { (void)client.find(resources::pods, "n", "x"); }).starts_with("500 NotFound | "));
  CHECK(ApiError(500, "NotFound", "").code() == ExitCode::cluster);
  CHECK(ApiError(404, "Gone", "").code() == ExitCode::cluster);
  CHECK(ApiError(404, "NotFound", "").code() == ExitCode::not_found);
  server.status = 300;
  server.body = "{}";
  CHECK(thrown_by([&] { client.get(resources::pods, "n", "x"); }).starts_with("300 "));
  server.status = 200;
  server.body = "[]";
  CHECK(thrown_by([&] { client.get(resources::pods, "n", "x"); }) ==
        "200 Unreadable | pods/x in namespace n: the server's answer is not a JSON object | is " +
            config.server + " a Kubernetes API server?");
  server.body = "x";
  CHECK(thrown_by([&] {
          client.get(resources::pods, "n", "x");
        }).starts_with("200 Unreadable | pods/x in namespace n: the server's answer is not JSON: "));
  CHECK(thrown_by([&] { parse_response({200, "[]", {}}, ""); }) ==
        "200 Unreadable | the server's answer is not a JSON object | ");
}

TEST_CASE("a client requests the kinds of an unknown apiVersion only once") {
  NotingServer server;
  server.status = 404;
  Client client(server.start());
  CHECK_FALSE(client.served("other.dev/v1", "Widget"));
  CHECK_FALSE(client.served("other.dev/v1", "Widget"));
  CHECK(server.seen.size() == 1);
  CHECK_FALSE(client.served("other.dev/v2", "Widget"));
  CHECK(server.seen.size() == 2);
}

namespace {

// The limits in the requests for pages of these sizes in bytes. Each page but the last has a successor.
std::vector<std::string> limits_for(const std::vector<std::size_t>& pages, int first_page) {
  std::vector<std::string> limits;
  std::size_t page = 0;
  const auto send = [&](const Request& request) {
    for (const auto& [name, value] : request.query) {
      if (name == "limit") limits.push_back(value);
    }
    const std::string more = page + 1 < pages.size() ? R"("continue":"t")" : "";
    std::string body = R"({"metadata":{)" + more + R"(},"items":[]})";
    body.resize(std::max(body.size(), pages[page++]), ' ');
    return Response{200, body, {}};
  };
  list_pages(send, resources::pods, "n", {.first_page = first_page}, nullptr);
  return limits;
}

// Returns pages with one object each, for ever.
struct EndlessPages {
  int asked = 0;
  Response operator()(const Request&) {
    const std::string n = std::to_string(++asked);
    return {200,
            R"({"metadata":{"resourceVersion":")" + n +
                R"(","continue":"t"},"items":[{"metadata":{"name":"p)" + n + R"("}}]})",
            {}};
  }
};

}  // namespace

TEST_CASE("the size of a page decides the limit of the next page, between 10 and 500 objects") {
  using Limits = std::vector<std::string>;
  constexpr std::size_t mebi = 1u << 20;
  CHECK(limits_for({1, 1, 1, 1}, 100) == Limits{"100", "200", "400", "500"});
  CHECK(limits_for({2 * mebi - 1, 1}, 100) == Limits{"100", "200"});
  CHECK(limits_for({2 * mebi, 1}, 100) == Limits{"100", "100"});
  CHECK(limits_for({8 * mebi, 1}, 100) == Limits{"100", "100"});
  CHECK(limits_for({8 * mebi + 1, 1}, 100) == Limits{"100", "50"});
  CHECK(limits_for({8 * mebi + 1, 1}, 11) == Limits{"11", "10"});
}

TEST_CASE("list_pages() stops at `enough` objects, and fails after 1000 pages without `enough`") {
  EndlessPages pages;
  const auto send = [&](const Request& request) { return pages(request); };
  const ListResult three = list_pages(send, resources::pods, "n", {.enough = 3}, nullptr);
  CHECK(three.items.size() == 3);
  CHECK(pages.asked == 3);
  CHECK(three.resource_version == "3");
  try {
    list_pages(send, resources::pods, "n", {}, nullptr);
    FAIL("it ended");
  } catch (const ApiError& error) {
    CHECK(std::string(error.what()) ==
          "pods in namespace n: the list does not end: 1000 objects in 1000 pages");
    CHECK(error.hint().empty());
  }
}

TEST_CASE("list_pages() throws on a 410 for the first page, and does not restart the list") {
  int asked = 0;
  const auto refused = [&](const Request&) {
    ++asked;
    return Response{410, status_body(410, "Expired", "too old"), {}};
  };
  CHECK(thrown_by([&] { list_pages(refused, resources::pods, "n", {}, nullptr); }) ==
        "410 Expired | pods in namespace n: too old | ");
  CHECK(asked == 1);
}

TEST_CASE("objects of a list get the kind and the apiVersion if these are missing") {
  const auto send = [](const Request&) {
    return Response{200, R"({"items":[{}, {"kind":"Own","apiVersion":"own/v1"}]})", {}};
  };
  const ListResult list = list_pages(send, resources::pods, "n", {}, nullptr);
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0]["kind"] == "Pod");
  CHECK(list.items[0]["apiVersion"] == "v1");
  CHECK(list.items[1]["kind"] == "Own");
  CHECK(list.items[1]["apiVersion"] == "own/v1");
  CHECK(list.resource_version.empty());
  const auto none = [](const Request&) { return Response{200, R"({"items":{"a":1}})", {}}; };
  CHECK(list_pages(none, resources::pods, "n", {}, nullptr).items.empty());
}

TEST_CASE("without_managed_fields() removes managed fields with nested brackets and quotes") {
  const auto object = [](const std::string& in) { return R"({"metadata":{"a":"b")" + in + R"(},"c":[1]})"; };
  CHECK(without_managed_fields(object(R"(,"managedFields":[{"manager":[[],[2]]},{"manager":1}])")) ==
        object(""));
  CHECK(without_managed_fields(object(R"(,"managedFields":[{"manager":"]"}])")) == object(""));
  CHECK(without_managed_fields(object(R"(,"managedFields":[{"manager":"\\"}])")) == object(""));
  CHECK(without_managed_fields(object(R"(,"managedFields":[])")) == object(R"(,"managedFields":[])"));
  CHECK(without_managed_fields("").empty());
}
