#include "cli/kube/reflector.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include <doctest/doctest.h>

#include "cli/util/json_path.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/reflector");

using namespace mlk::kube;
using std::chrono::milliseconds;

namespace {

std::string pod(const std::string& name, int version, const std::string& phase = "Running") {
  return R"({"kind":"Pod","metadata":{"name":")" + name + R"(","namespace":"n","resourceVersion":")" +
         std::to_string(version) + R"("},"status":{"phase":")" + phase + "\"}}";
}
std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string gone_event() { return event("ERROR", status_body(410, "Expired", "too old resource version")); }

// Serves lists and watches by script. The n-th list gives lists[n], and then the last list again and again.
// The n-th watch sends watches[n] and then ends, breaks or stays open, or is refused with a status. Later
// watches stay open and silent.
struct Script {
  struct Watch {
    std::vector<std::string> events;
    enum { end, cut, stay, status } then = stay;
    int code = 200;
  };
  std::vector<std::string> lists;
  std::vector<Watch> watches;
  std::mutex mutex;
  std::vector<std::string> targets;  // of all requests
  int list_count = 0, watch_count = 0;
  FakeServer server;  // declared last: its handlers use all of the above

  Config start() {
    server.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      targets.push_back(request.target);
      if (request.has_param("watch")) {
        watch(response);
      } else {
        const std::size_t n = std::min(static_cast<std::size_t>(list_count++), lists.size() - 1);
        answer(response, 200, lists[n]);
      }
    });
    return server.start();
  }
  void watch(httplib::Response& response) {
    const auto n = static_cast<std::size_t>(watch_count++);
    const Watch script = n < watches.size() ? watches[n] : Watch();
    if (script.then == Watch::status)
      return answer(response, script.code, status_body(script.code, "Gone", "too old"));
    response.set_chunked_content_provider("application/json",
                                          [this, script](std::size_t, httplib::DataSink& sink) {
                                            for (const std::string& text : script.events)
                                              sink.write(text.data(), text.size());
                                            if (script.then == Watch::stay) server.hang();
                                            if (script.then == Watch::end) sink.done();
                                            return script.then == Watch::end;
                                          });
  }
  int watches_seen() {
    const std::lock_guard lock(mutex);
    return watch_count;
  }
  int lists_seen() {
    const std::lock_guard lock(mutex);
    return list_count;
  }
  std::string target(std::size_t n) {
    const std::lock_guard lock(mutex);
    return n < targets.size() ? targets[n] : "";
  }
};

std::string list_of(const std::vector<std::string>& items, int version) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return R"({"kind":"PodList","metadata":{"resourceVersion":")" + std::to_string(version) +
         R"("},"items":[)" + text + "]}";
}

// Names and phases of the reflector's objects.
std::string holds(const Reflector& reflector) {
  std::string text;
  for (const json& object : reflector.objects()) {
    text += name_of(object) + ":" + mlk::text_of(object, {"status", "phase"}) + " ";
  }
  return text;
}

ReflectorTimes quick_reflector() {
  ReflectorTimes times;
  times.first_wait = milliseconds(10);
  times.longest_wait = milliseconds(50);
  return times;
}

}  // namespace

TEST_CASE("a reflector lists objects, then applies the changes of a watch, and sorts the objects by name") {
  Script script;
  script.lists = {list_of({pod("b", 1), pod("a", 2)}, 5)};
  script.watches = {{{event("ADDED", pod("c", 6)), event("MODIFIED", pod("a", 7, "Failed")),
                      event("DELETED", pod("b", 8)), event("BOOKMARK", pod("", 9))},
                     Script::Watch::stay}};
  Client client(script.start());
  std::atomic<int> changes = 0;
  Reflector reflector(
      client, resources::pods, "n", {.label_selector = "x=y"}, [&] { ++changes; }, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "a:Failed c:Running "; }));
  CHECK(reflector.synced());
  CHECK(eventually([&] { return changes >= 2; }));  // the callback comes after the change
  CHECK(reflector.failure() == nullptr);
  CHECK(reflector.failing_for() == milliseconds(0));
  CHECK(script.target(0) == "/api/v1/namespaces/n/pods?labelSelector=x%3Dy&limit=500");
  const std::string watch = script.target(1);
  CHECK(
      watch.find("labelSelector=x%3Dy&watch=1&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=") !=
      std::string::npos);
}

TEST_CASE(
    "the callback for a deleted object gets the last state of the object, even if no caller saw this state") {
  Script script;
  script.lists = {list_of({pod("a", 1)}, 5)};
  script.watches = {{{event("MODIFIED", pod("a", 6, "Failed")), event("DELETED", pod("a", 7, "Failed"))},
                     Script::Watch::stay}};
  Client client(script.start());
  std::mutex mutex;
  std::string gone;
  Reflector reflector(
      client, resources::pods, "n", {}, [] {}, quick_reflector(),
      [&](const json& object) {
        const std::lock_guard lock(mutex);
        gone += name_of(object) + ":" + mlk::text_of(object, {"status", "phase"}) + " ";
      });
  CHECK(eventually([&] { return reflector.synced() && holds(reflector).empty(); }));
  const std::lock_guard lock(mutex);
  CHECK(gone == "a:Failed ");
}

TEST_CASE(
    "if a watch ends, the next watch begins at the last version, which may be the version of a bookmark") {
  Script script;
  script.lists = {list_of({pod("a", 1)}, 5)};
  script.watches = {{{event("ADDED", pod("b", 6)), event("BOOKMARK", pod("", 9))}, Script::Watch::end},
                    {{event("DELETED", pod("a", 10))}, Script::Watch::stay}};
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "b:Running "; }));
  CHECK(script.target(2).find("resourceVersion=9&") != std::string::npos);
  CHECK(script.lists_seen() == 1);
}

TEST_CASE("if a watch is cut within an event, it resumes from the last whole event") {
  Script script;
  script.lists = {list_of({}, 5)};
  const std::string second = event("ADDED", pod("b", 7));
  script.watches = {{{event("ADDED", pod("a", 6)), second.substr(0, 30)}, Script::Watch::cut},
                    {{second}, Script::Watch::stay}};
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "a:Running b:Running "; }));
  CHECK(script.target(2).find("resourceVersion=6&") != std::string::npos);
  CHECK(eventually([&] { return reflector.failure() == nullptr; }));
}

TEST_CASE(
    "each time a watch is cut after an event, it resumes at once, and the reflector reports no failure") {
  Script script;
  script.lists = {list_of({}, 5)};
  script.watches.assign(5, {{event("ADDED", pod("a", 6))}, Script::Watch::cut});
  const Config config = script.start();
  Client client(config);
  ReflectorTimes times;
  times.first_wait = times.longest_wait = std::chrono::hours(1);
  std::atomic<bool> failed = false;
  std::atomic<Reflector*> watched = nullptr;
  Reflector reflector(
      client, resources::pods, "n", {},
      [&] {
        const Reflector* of = watched;
        if (of != nullptr && of->failure()) failed = true;
      },
      times);
  watched = &reflector;
  CHECK(eventually([&] { return script.watches_seen() == 6; }));
  CHECK_FALSE(failed);
}

TEST_CASE("a reflector ignores an incomplete event if the watch ends without an error") {
  Script script;
  script.lists = {list_of({}, 5)};
  script.watches = {{{event("ADDED", pod("a", 6)), R"({"type":"ADDED","obj)"}, Script::Watch::end},
                    {{event("ADDED", pod("b", 7))}, Script::Watch::stay}};
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "a:Running b:Running "; }));
}

TEST_CASE("a 410 leads to a new list, whether it comes as an event or as a status") {
  Script script;
  script.lists = {list_of({pod("a", 1), pod("b", 2)}, 5), list_of({pod("a", 3, "Failed")}, 20)};
  SUBCASE("in the stream") {
    script.watches = {{{event("ADDED", pod("c", 6)), gone_event()}, Script::Watch::end}};
  }
  SUBCASE("as the status") { script.watches = {{{}, Script::Watch::status, 410}}; }
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "a:Failed "; }));
  CHECK(eventually([&] { return script.watches_seen() == 2; }));
  CHECK(script.lists_seen() == 2);
  CHECK(script.target(3).find("resourceVersion=20&") != std::string::npos);
}

TEST_CASE("a reflector opens a new watch without a new list after an error event other than 410") {
  Script script;
  script.lists = {list_of({}, 5)};
  script.watches = {{{event("ERROR", status_body(500, "InternalError", "oops"))}, Script::Watch::end},
                    {{event("ADDED", pod("a", 6))}, Script::Watch::stay}};
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return holds(reflector) == "a:Running "; }));
  CHECK(script.lists_seen() == 1);
}

TEST_CASE("a silent watch is reopened") {
  Script script;
  script.lists = {list_of({}, 5)};
  script.watches = {{{}, Script::Watch::stay}, {{event("ADDED", pod("a", 6))}, Script::Watch::stay}};
  Client client(script.start());
  ReflectorTimes times = quick_reflector();
  times.silence = milliseconds(200);
  Reflector reflector(client, resources::pods, "n", {}, [] {}, times);
  CHECK(eventually([&] { return holds(reflector) == "a:Running "; }));
}

TEST_CASE("a reflector waits for a server that cannot be reached, and failure() gives the error") {
  Config config;
  {
    FakeServer server;
    config = server.start();
  }
  config.longest_trying = milliseconds(0);
  Client client(config);
  std::atomic<int> changes = 0;
  Reflector reflector(client, resources::pods, "n", {}, [&] { ++changes; }, quick_reflector());
  REQUIRE(eventually([&] { return reflector.failure() != nullptr && changes > 1; }));
  CHECK_FALSE(reflector.synced());
  CHECK(eventually([&] { return reflector.failing_for() > milliseconds(20); }));
  CHECK_THROWS_AS(std::rethrow_exception(reflector.failure()), ApiError);
}

TEST_CASE("a 401, 403 or 404 is final if it comes before the first list") {
  for (const int code : {401, 403, 404}) {
    FakeServer server;
    std::atomic<int> requests = 0;
    server.http->Get(".*", [&](const auto&, auto& response) {
      ++requests;
      answer(response, code, status_body(code, "Forbidden", "no"));
    });
    Client client(server.start());
    Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
    REQUIRE(eventually([&] { return reflector.failure() != nullptr; }));
    std::this_thread::sleep_for(milliseconds(150));
    CHECK(requests == 1);
  }
}

TEST_CASE("after a successful watch, 403 is final only if the server repeats it for a while") {
  for (const bool passes : {true, false}) {
    FakeServer server;
    std::atomic<bool> refuses = false;
    std::atomic<int> watches = 0, refusals = 0;
    server.http->Get(".*", [&](const auto& request, auto& response) {
      if (refuses) {
        if (++refusals == 3 && passes) refuses = false;
        return answer(response, 403, status_body(403, "Forbidden", "no"));
      }
      if (!request.has_param("watch"))
        return answer(response, 200, R"({"metadata":{"resourceVersion":"7"},"items":[]})");
      ++watches;
      refuses = watches == 1;
      answer(response, 200, "");
    });
    Client client(server.start());
    ReflectorTimes times = quick_reflector();
    if (!passes) times.refusal = milliseconds(100);
    Reflector reflector(client, resources::pods, "n", {}, [] {}, times);
    if (passes) {
      CHECK(eventually([&] { return watches > 1; }));
      CHECK(refusals == 3);
    } else {
      CHECK(eventually([&] {
        try {
          if (reflector.failure()) std::rethrow_exception(reflector.failure());
        } catch (const ApiError& error) {
          return error.status() == 403;
        }
        return false;
      }));
      CHECK(refusals > 1);
    }
  }
}

TEST_CASE("after each successful watch, the time for which a server may answer 403 begins again") {
  FakeServer server;
  std::atomic<bool> refuses = false;
  std::atomic<int> watches = 0;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    if (refuses.exchange(false)) return answer(response, 403, status_body(403, "Forbidden", "no"));
    if (!request.has_param("watch"))
      return answer(response, 200, R"({"metadata":{"resourceVersion":"7"},"items":[]})");
    if (++watches == 2) std::this_thread::sleep_for(milliseconds(300));  // longer than refusals may last
    refuses = watches < 3;
    answer(response, 200, "");
  });
  Client client(server.start());
  ReflectorTimes times = quick_reflector();
  times.refusal = milliseconds(200);
  Reflector reflector(client, resources::pods, "n", {}, [] {}, times);
  CHECK(eventually([&] { return watches > 3; }));
}

TEST_CASE("a reflector does not reopen watches in a tight loop if the server closes each at once") {
  Script script;
  script.lists = {list_of({}, 5)};
  for (int i = 0; i < 1000; ++i) script.watches.push_back({{}, Script::Watch::end});
  Client client(script.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  REQUIRE(eventually([&] { return script.watches_seen() > 3; }));
  std::this_thread::sleep_for(milliseconds(300));
  CHECK(script.watches_seen() < 40);  // a watch takes 50 ms or more; a tight loop makes hundreds
}

TEST_CASE("a reflector can be destroyed at any moment") {
  Script script;
  script.lists = {list_of({pod("a", 1)}, 5)};
  for (int i = 0; i < 1000; ++i)
    script.watches.push_back({{event("ADDED", pod("b", 6))}, Script::Watch::cut});
  Client client(script.start());
  for (int i = 0; i < 20; ++i) {
    Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
    std::this_thread::sleep_for(milliseconds(i));
  }
  FakeServer silent;
  silent.http->Get(".*", [&](const auto&, auto&) { silent.hang(); });
  Client waiting(silent.start());
  Reflector reflector(waiting, resources::pods, "n", {}, [] {}, quick_reflector());
  std::this_thread::sleep_for(milliseconds(30));  // the list is still running when the reflector is destroyed
}

TEST_CASE("a reflector ends with a final failure if the id-token has expired") {
  Script script;
  script.lists = {list_of({}, 5)};
  Config config = script.start();
  config.login = Login::oidc;
  config.user = "me";
  config.token = "e30.eyJleHAiOjE1MDAwMDAwMDB9.c2ln";  // expired in 2017
  Client client(config);
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  CHECK(eventually([&] { return reflector.failure() != nullptr; }));
  try {
    std::rethrow_exception(reflector.failure());
  } catch (const ApiError& error) {
    CHECK(error.status() == 401);
    CHECK(std::string(error.what()).find("user \"me\": the id-token of auth-provider oidc has expired") !=
          std::string::npos);
    CHECK(error.hint().find("any kubectl command") != std::string::npos);
  }
  CHECK(script.lists_seen() == 0);
}

TEST_CASE("objects with the same name in two namespaces are different, and `transform` removes fields") {
  const auto elsewhere = [](std::string object) { return object.replace(object.find("\"n\""), 3, "\"m\""); };
  Script script;
  script.lists = {list_of({pod("a", 1)}, 5)};
  script.watches = {{{event("ADDED", elsewhere(pod("a", 6))), event("ADDED", pod("b", 7)),
                      event("DELETED", elsewhere(pod("a", 8)))},
                     Script::Watch::stay}};
  Client client(script.start());
  std::atomic<int> removals = 0;
  Reflector reflector(
      client, resources::pods, "", {.transform = [](json& object) { object.erase("status"); }}, [] {},
      quick_reflector(), [&](const json&) { ++removals; });
  CHECK(eventually([&] { return removals == 1; }));
  CHECK(eventually([&] { return holds(reflector) == "a: b: "; }));
  CHECK(script.target(0) == "/api/v1/pods?limit=500");
}

TEST_CASE("failure() returns the error of a watch, and the reflector requests no new list") {
  for (const bool in_stream : {true, false}) {
    Script script;
    script.lists = {list_of({}, 5)};
    const std::string status = status_body(500, "InternalError", "oops");
    script.watches = {in_stream ? Script::Watch{{event("ERROR", status)}, Script::Watch::end}
                                : Script::Watch{{}, Script::Watch::status, 500},
                      {{event("ADDED", pod("a", 6))}, Script::Watch::stay}};
    Client client(script.start());
    std::mutex mutex;
    std::string seen;
    std::atomic<Reflector*> watched = nullptr;
    const auto look = [&] {
      const Reflector* of = watched;
      if (of == nullptr || !of->failure()) return;
      try {
        std::rethrow_exception(of->failure());
      } catch (const ApiError& error) {
        const std::lock_guard lock(mutex);
        seen = std::to_string(error.status()) + " " + error.what();
      }
    };
    ReflectorTimes times = quick_reflector();
    times.first_wait = times.longest_wait = milliseconds(500);  // so that the test can see the failure
    Reflector reflector(client, resources::pods, "n", {}, look, times);
    watched = &reflector;
    CHECK(eventually([&] {
      look();
      return holds(reflector) == "a:Running ";
    }));
    const std::lock_guard lock(mutex);
    CHECK(seen == (in_stream ? "500 pods in namespace n: oops" : "500 pods in namespace n: too old"));
    CHECK(script.lists_seen() == 1);
  }
}

TEST_CASE("a reflector requests a failed list again, and synced() is true after a list has come") {
  FakeServer server;
  std::atomic<int> lists = 0;
  std::atomic<bool> up = false;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    if (request.has_param("watch")) return server.hang();
    ++lists;
    if (!up) return answer(response, 500, status_body(500, "InternalError", "oops"));
    answer(response, 200, list_of({pod("a", 1)}, 5));
  });
  Client client(server.start());
  Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
  REQUIRE(eventually([&] { return lists >= 2; }));
  CHECK_FALSE(reflector.synced());
  CHECK(reflector.failure() != nullptr);
  up = true;
  REQUIRE(eventually([&] { return reflector.synced(); }));
  CHECK(eventually([&] { return reflector.failure() == nullptr; }));
  CHECK(holds(reflector) == "a:Running ");
}

TEST_CASE("a 401 or 404 after a successful watch is final at once") {
  for (const int code : {401, 404}) {
    FakeServer server;
    std::atomic<int> watches = 0, refusals = 0;
    server.http->Get(".*", [&](const auto& request, auto& response) {
      if (!request.has_param("watch"))
        return answer(response, 200, R"({"metadata":{"resourceVersion":"7"},"items":[]})");
      if (++watches == 1) return answer(response, 200, "");
      ++refusals;
      answer(response, code, status_body(code, "Refused", "no"));
    });
    Client client(server.start());
    Reflector reflector(client, resources::pods, "n", {}, [] {}, quick_reflector());
    REQUIRE(eventually([&] { return reflector.failure() != nullptr; }));
    try {
      std::rethrow_exception(reflector.failure());
    } catch (const ApiError& error) {
      CHECK(error.status() == code);
    }
    CHECK(refusals == 1);
  }
}
