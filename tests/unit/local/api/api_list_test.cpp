// Lists: whole ones, page by page, over namespaces, and of an earlier moment.
#include <doctest/doctest.h>

#include "cli/util/hash.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_list");

namespace mlk::local {
namespace {

using namespace samples;

// ConfigMaps in the namespaces default and default-2. Sorted as texts "namespace/name" they would have
// another order.
struct Listed {
  Cluster cluster;
  std::vector<json> all;

  Listed() {
    cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", "default-2"}}}});
    for (const auto& [space, name, value] : {std::tuple{"default", "x", "1"},
                                             {"default", "z", "2"},
                                             {"default-2", "a", "1"},
                                             {"default-2", "b", "1"}})
      all.push_back(cluster.ask("POST", std::string("/api/v1/namespaces/") + space + "/configmaps",
                                map_named(name, {{"metadata", {{"labels", {{"l", value}}}}}})));
  }
  // The objects as items of a list, which have no fields for their type.
  json items(const std::vector<std::size_t>& which) const {
    json result = json::array();
    for (const std::size_t i : which) {
      result.push_back(all[i]);
      result.back().erase("kind");
      result.back().erase("apiVersion");
    }
    return result;
  }
  json list(const json& metadata, const std::vector<std::size_t>& which) const {
    return {{"kind", "ConfigMapList"}, {"apiVersion", "v1"}, {"metadata", metadata}, {"items", items(which)}};
  }
};

TEST_CASE("a list has a version, and shows each object without its kind and apiVersion") {
  Listed listed;
  const json version = {{"resourceVersion", std::to_string(listed.cluster.store.revision())}};
  CHECK(listed.cluster.ask("GET", "/api/v1/configmaps") == listed.list(version, {0, 1, 2, 3}));
  CHECK(listed.cluster.ask("GET", maps) == listed.list(version, {0, 1}));
  CHECK(listed.cluster.ask("GET", maps + "?watch=false") == listed.list(version, {0, 1}));
  CHECK(listed.cluster.ask("GET", maps + "?limit=0") == listed.list(version, {0, 1}));
  CHECK(listed.cluster.ask("GET", maps + "?limit=2") == listed.list(version, {0, 1}));
  CHECK(listed.cluster.ask("GET", "/api/v1/configmaps?labelSelector=l=1&fieldSelector=metadata.name!=b") ==
        listed.list(version, {0, 2}));
  CHECK(listed.cluster.ask("GET", "/api/v1/namespaces/none/configmaps") == listed.list(version, {}));
}

TEST_CASE("a page of a list may end inside a namespace, and says how many objects remain") {
  Listed listed;
  Cluster& cluster = listed.cluster;
  const std::uint64_t revision = cluster.store.revision();
  std::string next;
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    const json page = cluster.ask(
        "GET", "/api/v1/configmaps?limit=1" + (next.empty() ? std::string() : "&continue=" + next));
    json metadata = {{"resourceVersion", std::to_string(revision)}};
    if (i < 3) {
      next = page.at("metadata").at("continue");
      metadata["continue"] = next;
      metadata["remainingItemCount"] = 3 - i;
    }
    CHECK(page == listed.list(metadata, {i}));
    // Objects that are created later are on none of the pages.
    cluster.send("POST", maps, map_named("a-" + std::to_string(i)));
    cluster.send("DELETE", "/api/v1/namespaces/default-2/configmaps/b");
  }
}

TEST_CASE("pages of a filtered list contain only the selected objects, and count only these objects") {
  Listed listed;
  const std::string selected = "/api/v1/configmaps?labelSelector=l=1&limit=2";
  const json first = listed.cluster.ask("GET", selected);
  CHECK(names(first) == std::vector<std::string>{"x", "a"});
  CHECK(first.at("metadata").at("remainingItemCount") == 1);
  const json second = listed.cluster.ask(
      "GET", selected + "&continue=" + first.at("metadata").at("continue").get<std::string>());
  CHECK(names(second) == std::vector<std::string>{"b"});
  CHECK_FALSE(second.at("metadata").contains("continue"));
  CHECK_FALSE(second.at("metadata").contains("remainingItemCount"));
}

TEST_CASE("the continue token of a page contains the last object of the page and the version of the list") {
  Listed listed;
  const json first = listed.cluster.ask("GET", maps + "?limit=1");
  const json token = json::parse(base64_decode(first.at("metadata").at("continue").get<std::string>()));
  CHECK(token == json{{"rv", listed.cluster.store.revision()}, {"after", std::string("default\0x", 9)}});
}

TEST_CASE("the list of namespaces is sorted by name, also over several pages") {
  Cluster cluster;
  for (const char* name : {"b", "a"})
    cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", name}}}});
  const json first = cluster.ask("GET", "/api/v1/namespaces?limit=1");
  CHECK(names(first) == std::vector<std::string>{"a"});
  CHECK(names(cluster.ask("GET", "/api/v1/namespaces?continue=" +
                                     first.at("metadata").at("continue").get<std::string>())) ==
        std::vector<std::string>{"b", "default"});
}

TEST_CASE("with resourceVersionMatch=Exact, a list shows the objects as they were at the requested version") {
  Listed listed;
  const std::string then = listed.all[1].at("metadata").at("resourceVersion");
  listed.cluster.send("DELETE", maps + "/z");
  listed.cluster.send("PUT", maps + "/x", map_named("x"));
  const std::string exact = "&resourceVersionMatch=Exact";
  CHECK(listed.cluster.ask("GET", "/api/v1/configmaps?resourceVersion=" + then + exact) ==
        listed.list({{"resourceVersion", then}}, {0, 1}));
  CHECK(names(listed.cluster.ask("GET", maps + "?resourceVersion=" + then)) == std::vector<std::string>{"x"});
}

TEST_CASE("a list is sent as a table, or with the metadata alone, if the client asks for this") {
  Listed listed;
  const auto as = [&](const std::string& form) {
    return json::parse(
        listed.cluster.send("GET", maps + "?limit=1", nullptr, "", "application/json;as=" + form).body);
  };
  const json partial = {{"kind", "PartialObjectMetadata"},
                        {"apiVersion", "meta.k8s.io/v1"},
                        {"metadata", listed.all[0].at("metadata")}};
  const json metadata = as("Table").at("metadata");
  CHECK(metadata.at("remainingItemCount") == 1);
  CHECK(as("Table").at("rows") == json::array({{{"cells", {"x", 1, "0s"}}, {"object", partial}}}));
  CHECK(as("PartialObjectMetadata") == json{{"kind", "PartialObjectMetadataList"},
                                            {"apiVersion", "meta.k8s.io/v1"},
                                            {"metadata", metadata},
                                            {"items", {partial}}});
}

}  // namespace
}  // namespace mlk::local
