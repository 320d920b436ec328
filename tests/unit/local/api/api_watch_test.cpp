// The whole events that a watch sends, for each kind of beginning and of end.
#include <algorithm>
#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_watch");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

std::vector<json> watch_lines(const std::string& text) {
  std::vector<json> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(json::parse(text.substr(begin, end - begin)));
  return lines;
}

// A watch that ends when it has sent `most` lines, or after the time-out.
std::vector<json> watched(const Cluster& cluster, const char* plural, const WatchOptions& options,
                          std::size_t most, const std::string& name_space = "default") {
  std::string text;
  const std::function<Time()> now = [] { return noon; };
  const auto complete = [&] { return static_cast<std::size_t>(std::ranges::count(text, '\n')) >= most; };
  const Sink sink{[&](std::string_view part) {
                    text += part;
                    return !complete();
                  },
                  [] { return true; }};
  stream_watch(cluster.store, kind_of(plural), name_space, options, now, sink);
  return watch_lines(text);
}

WatchOptions watch_from(const Cluster& cluster) {
  WatchOptions options;
  options.revision = std::to_string(cluster.store.revision());
  return options;
}

json event_with(const char* type, const json& object) { return {{"type", type}, {"object", object}}; }

json bookmark_at(std::uint64_t revision, bool initial = false) {
  json metadata = {{"resourceVersion", std::to_string(revision)}, {"creationTimestamp", nullptr}};
  if (initial) metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  return event_with("BOOKMARK", {{"kind", "ConfigMap"}, {"apiVersion", "v1"}, {"metadata", metadata}});
}

const json label_one = {{"metadata", {{"labels", {{"l", "1"}}}}}};

TEST_CASE("a watch sends each change of its kind and namespace in order, with the object after the change") {
  Cluster cluster;
  const WatchOptions options = watch_from(cluster);
  const json made = cluster.ask("POST", maps, map_named("a"));
  cluster.send("POST", "/api/v1/namespaces/default/secrets", {{"metadata", {{"name", "a"}}}});
  cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", "team"}}}});
  const json elsewhere = cluster.ask("POST", "/api/v1/namespaces/team/configmaps", map_named("a"));
  const json changed = cluster.ask("PUT", maps + "/a", map_named("a", label_one));
  cluster.send("DELETE", maps + "/a");
  const std::vector<json> events = watched(cluster, "configmaps", options, 3);
  REQUIRE(events.size() == 3);
  CHECK(events[0] == event_with("ADDED", made));
  CHECK(events[1] == event_with("MODIFIED", changed));
  json gone = changed;
  gone["metadata"]["resourceVersion"] = std::to_string(cluster.store.revision());
  gone["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  gone["metadata"]["deletionGracePeriodSeconds"] = 0;
  CHECK(events[2] == event_with("DELETED", gone));
  const std::vector<json> all = watched(cluster, "configmaps", options, 4, "");
  REQUIRE(all.size() == 4);
  CHECK(all[1] == event_with("ADDED", elsewhere));
}

TEST_CASE("a watch with a selector reports an object as deleted when the object no longer matches") {
  Cluster cluster;
  WatchOptions options = watch_from(cluster);
  options.label_selector = "l=1";
  cluster.send("POST", maps, map_named("never"));
  cluster.send("PUT", maps + "/never", map_named("never", {{"data", {{"k", "w"}}}}));
  cluster.send("DELETE", maps + "/never");
  cluster.send("POST", maps, map_named("a"));
  const json matches = cluster.ask("PUT", maps + "/a", map_named("a", label_one));
  const json still =
      cluster.ask("PUT", maps + "/a",
                  map_named("a", json{{"metadata", {{"labels", {{"l", "1"}}}}}, {"data", {{"k", "w"}}}}));
  const json no_longer = cluster.ask("PUT", maps + "/a", map_named("a"));
  cluster.send("DELETE", maps + "/a");
  const std::vector<json> events = watched(cluster, "configmaps", options, 3);
  CHECK(events == std::vector<json>{event_with("ADDED", matches), event_with("MODIFIED", still),
                                    event_with("DELETED", no_longer)});
  options.label_selector.clear();
  options.field_selector = "metadata.name=never";
  CHECK(watched(cluster, "configmaps", options, 3).size() == 3);
}

TEST_CASE("a watch begins with the existing objects if it has no version, or has the version 0") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a", label_one));
  const json b = cluster.ask("POST", maps, map_named("b"));
  for (const char* revision : {"", "0"}) {
    CAPTURE(revision);
    WatchOptions options;
    options.revision = revision;
    CHECK(watched(cluster, "configmaps", options, 2) ==
          std::vector<json>{event_with("ADDED", a), event_with("ADDED", b)});
    CHECK(watched(cluster, "configmaps", options, 1) == std::vector<json>{event_with("ADDED", a)});
    options.label_selector = "l=1";
    options.bookmarks = true;
    options.timeout = std::chrono::seconds(0);
    CHECK(watched(cluster, "configmaps", options, 9) ==
          std::vector<json>{event_with("ADDED", a), bookmark_at(cluster.store.revision())});
  }
}

TEST_CASE("a watch with initial events sends the existing objects and a bookmark, even if it has a version") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a"));
  WatchOptions options = watch_from(cluster);
  options.initial_events = true;
  const json end = bookmark_at(cluster.store.revision(), true);
  CHECK(watched(cluster, "configmaps", options, 2) == std::vector<json>{event_with("ADDED", a), end});
  options.timeout = std::chrono::seconds(0);
  CHECK(watched(cluster, "configmaps", options, 9) == std::vector<json>{event_with("ADDED", a), end});
  // A client that disconnects at the bookmark gets nothing more.
  options.bookmarks = true;
  options.revision = "1";
  CHECK(watched(cluster, "configmaps", options, 2).size() == 2);
}

TEST_CASE("a watch without changes ends at its timeout, with a bookmark if the client wants bookmarks") {
  Cluster cluster;
  WatchOptions options = watch_from(cluster);
  options.timeout = std::chrono::seconds(0);
  CHECK(watched(cluster, "configmaps", options, 9).empty());
  options.bookmarks = true;
  CHECK(watched(cluster, "configmaps", options, 9) ==
        std::vector<json>{bookmark_at(cluster.store.revision())});
}

TEST_CASE("a watch ends with the error 410 if the history no longer has the version from which it begins") {
  Cluster cluster;
  WatchOptions options;
  options.revision = "0000";  // a version before the first
  CHECK(
      watched(cluster, "configmaps", options, 9) ==
      std::vector<json>{event_with(
          "ERROR",
          R"-({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired",
                "message": "too old resource version: 0 (1)", "code": 410})-"_json)});
}

TEST_CASE("a watch sends tables, metadata or whole objects, as the client asks") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const auto first = [&](const std::string& accept) {
    const Answer answer = cluster.send("GET", maps + "?watch=1", nullptr, "", accept);
    REQUIRE(answer.stream);
    std::string text;
    answer.stream({[&](std::string_view part) {
                     text += part;
                     return false;
                   },
                   [] { return true; }});
    return watch_lines(text).at(0);
  };
  const json stored = cluster.ask("GET", maps + "/a");
  const json partial = {{"kind", "PartialObjectMetadata"},
                        {"apiVersion", "meta.k8s.io/v1"},
                        {"metadata", stored.at("metadata")}};
  CHECK(first("application/json") == event_with("ADDED", stored));
  CHECK(first("application/json;as=PartialObjectMetadata") == event_with("ADDED", partial));
  const json table = first("application/json;as=Table").at("object");
  CHECK(table.at("kind") == "Table");
  CHECK(table.at("rows").at(0) == json{{"cells", {"a", 1, "0s"}}, {"object", partial}});
}

TEST_CASE("a watch has the timeout, selectors, bookmarks and version that its query asks for") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a", label_one));
  const json b = cluster.ask("POST", maps, map_named("b"));
  const std::string watch = maps + "?watch=true&timeoutSeconds=0";
  const json end = bookmark_at(cluster.store.revision());
  const std::string since = a.at("metadata").at("resourceVersion");
  CHECK(cluster.stream(watch) == std::vector<json>{event_with("ADDED", a), event_with("ADDED", b)});
  CHECK(cluster.stream(watch + "&labelSelector=l=1&allowWatchBookmarks=true") ==
        std::vector<json>{event_with("ADDED", a), end});
  CHECK(
      cluster.stream(watch + "&fieldSelector=metadata.name=b&sendInitialEvents=1&resourceVersion=" + since) ==
      std::vector<json>{event_with("ADDED", b), bookmark_at(cluster.store.revision(), true)});
  CHECK(cluster.stream("/api/v1/configmaps?watch=1&timeoutSeconds=0").size() == 2);
  CHECK(cluster.stream("/api/v1/nodes?watch=1&timeoutSeconds=0").size() == 1);
  CHECK(cluster.stream(watch + "&resourceVersion=0") ==
        std::vector<json>{event_with("ADDED", a), event_with("ADDED", b)});
  CHECK(cluster.stream(watch + "&allowWatchBookmarks=1&resourceVersion=" + since) ==
        std::vector<json>{bookmark_at(std::stoull(since))});
  const Answer answer = cluster.send("GET", watch);
  CHECK(answer.status == 200);
  CHECK(answer.content_type == "application/json");
  CHECK(answer.body.empty());
}

TEST_CASE("a watch is refused if its version is older than the start of the server") {
  const Folder folder;
  std::string old;
  {
    Store store(folder.path());
    seed(store, noon);
    old = std::to_string(store.revision());
  }
  Store store(folder.path());
  PodLogs logs(folder.path());
  Api api(store, logs, [] { return noon; });
  Request request;
  request.path = maps;
  request.query = {{"watch", "1"}, {"resourceVersion", old}};
  const Answer answer = api.handle(request);
  CHECK(answer.status == 410);
  CHECK(json::parse(answer.body) ==
        json{{"kind", "Status"},
             {"apiVersion", "v1"},
             {"metadata", json::object()},
             {"status", "Failure"},
             {"reason", "Expired"},
             {"message", "too old resource version: " + old + " (" + std::to_string(store.revision()) + ")"},
             {"code", 410}});
  request.query["sendInitialEvents"] = "true";
  CHECK(api.handle(request).status == 200);
}

TEST_CASE("stop() ends all streams of the API, also a stream that waits for changes") {
  Cluster cluster;
  const Answer answer =
      cluster.send("GET", maps + "?watch=1&resourceVersion=" + std::to_string(cluster.store.revision()));
  REQUIRE(answer.stream);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::atomic<bool> abandoned{false}, over{false};
  std::thread client([&] {
    answer.stream({[](std::string_view) { return true; },
                   [&] {
                     if (std::chrono::steady_clock::now() > give_up) abandoned = true;
                     return !abandoned;
                   }});
    over = true;
  });
  while (!over) {
    cluster.api.stop();  // wakes the streams that already wait
    std::this_thread::yield();
  }
  client.join();
  CHECK_FALSE(abandoned);
}

TEST_CASE("a watch sends nothing if its client has disconnected") {
  Cluster cluster;
  WatchOptions options = watch_from(cluster);
  cluster.send("POST", maps, map_named("a"));
  bool sent = false;
  const std::function<Time()> now = [] { return noon; };
  stream_watch(cluster.store, kind_of("configmaps"), "default", options, now,
               {[&](std::string_view) { return sent = true; }, [] { return false; }});
  CHECK_FALSE(sent);
}

}  // namespace
}  // namespace mlk::local
