// The four kinds of patches, as functions of an object and a body.
#include "cli/local/state/patch.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/local/state/status.h"

TEST_SUITE_BEGIN("local/state/patch");

using namespace mlk::local;

namespace {

constexpr char strategic[] = "application/strategic-merge-patch+json";

json merged(const json& object, const json& patch, const std::string& type = strategic) {
  return apply_patch(type, object, patch.dump());
}

std::string refused_patch(const std::string& type, const std::string& body,
                          const json& object = json::object()) {
  try {
    apply_patch(type, object, body);
  } catch (const StatusError& refusal) {
    return std::to_string(refusal.code()) + " " + refusal.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a patch merges objects field by field, and null removes a field") {
  const json before = R"({"a": {"b": 1, "c": 2}, "d": 3, "l": [1, 2]})"_json;
  const json patch = R"({"a": {"b": null, "e": {"f": 4}}, "d": 5, "l": [3], "n": null})"_json;
  const json after = R"({"a": {"c": 2, "e": {"f": 4}}, "d": 5, "l": [3]})"_json;
  for (const char* type : {strategic, "application/apply-patch+yaml", "application/merge-patch+json",
                           "application/merge-patch+json; charset=utf-8"})
    CHECK_MESSAGE(merged(before, patch, type) == after, type);
  CHECK(merged(R"({"a": 1})"_json, R"({"a": {"b": 2}})"_json) == R"({"a": {"b": 2}})"_json);
}

TEST_CASE("a strategic patch merges elements of a list that have the same key, and appends new ones") {
  const std::pair<const char*, const char*> keys[] = {
      {"containers", "name"}, {"initContainers", "name"},    {"env", "name"},
      {"volumes", "name"},    {"volumeMounts", "mountPath"}, {"imagePullSecrets", "name"},
      {"conditions", "type"}, {"ownerReferences", "uid"},    {"schedulingGates", "name"},
      {"hostAliases", "ip"},  {"ports", "containerPort"},    {"ports", "port"}};
  for (const auto& [list, key] : keys) {
    CAPTURE(list);
    const json before = {{list, {{{key, "1"}, {"x", 1}}, {{key, "2"}, {"x", 2}}}}};
    const json patch = {{list, {{{key, "2"}, {"y", 3}}, {{key, "3"}, {"x", 4}}}}};
    CHECK(merged(before, patch) ==
          json{{list, {{{key, "1"}, {"x", 1}}, {{key, "2"}, {"x", 2}, {"y", 3}}, {{key, "3"}, {"x", 4}}}}});
  }
  CHECK(merged(R"({"others": [{"name": "1"}]})"_json, R"({"others": [{"name": "2"}]})"_json) ==
        R"({"others": [{"name": "2"}]})"_json);
  CHECK(merged(json::object(), R"({"env": [{"name": "1"}]})"_json) == R"({"env": [{"name": "1"}]})"_json);
}

TEST_CASE("$patch in a strategic patch deletes or replaces an element, an object or a list") {
  const json before = R"({"env": [{"name": "a", "value": "1"}, {"name": "b"}], "m": {"x": 1, "y": 2}})"_json;
  CHECK(merged(before, R"({"env": [{"name": "a", "$patch": "delete"}]})"_json).at("env") ==
        R"([{"name": "b"}])"_json);
  CHECK(merged(before, R"({"env": [{"name": "z", "$patch": "delete"}]})"_json) == before);
  CHECK(merged(before, R"({"m": {"$patch": "delete"}})"_json) ==
        R"({"env": [{"name": "a", "value": "1"}, {"name": "b"}]})"_json);
  CHECK(merged(before, R"({"m": {"$patch": "replace", "z": 3}})"_json).at("m") == R"({"z": 3})"_json);
  CHECK(merged(json::object(), R"({"env": [{"$patch": "replace"}, {"name": "c"}]})"_json).at("env") ==
        R"([{"name": "c"}])"_json);
  // If an element has only the directive, the directive applies to the whole list.
  CHECK(merged(before, R"({"env": [{"name": "c"}, {"$patch": "replace"}]})"_json).at("env") ==
        R"([{"name": "c"}])"_json);
  CHECK(merged(before, R"({"env": [{"$patch": "replace"}]})"_json).at("env") == json::array());
  CHECK(merged(before, R"({"m": {"$retainKeys": ["x"], "$setElementOrder/env": [{"name": "b"}]}})"_json) ==
        before);
}

TEST_CASE("a strategic patch can add a finalizer, and remove a finalizer by name") {
  const json before = R"({"metadata": {"finalizers": ["a", "b"]}})"_json;
  CHECK(merged(before, R"({"metadata": {"finalizers": ["b", "c"]}})"_json).at("metadata").at("finalizers") ==
        R"(["a", "b", "c"])"_json);
  CHECK(merged(before, R"({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}})"_json) ==
        R"({"metadata": {"finalizers": ["b"]}})"_json);
  CHECK(merged(json::object(), R"({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})"_json) ==
        R"({"metadata": {}})"_json);
  CHECK(merged(json::object(), R"({"metadata": {"finalizers": ["a"]}})"_json) ==
        R"({"metadata": {"finalizers": ["a"]}})"_json);
}

TEST_CASE("a JSON patch is a list of operations, and an operation that cannot be applied is refused") {
  const std::string type = "application/json-patch+json";
  CHECK(merged(R"({"a": 1})"_json,
               R"([{"op": "add", "path": "/b", "value": 2}, {"op": "remove", "path": "/a"}])"_json,
               type) == R"({"b": 2})"_json);
  CHECK(refused_patch(type, R"([{"op": "remove", "path": "/none"}])")
            .starts_with("422 the server rejected our request due to an error in our request: "));
  CHECK(refused_patch(type, R"([{"op": "test", "path": "/a", "value": 2}])", R"({"a": 1})"_json)
            .starts_with("422 "));
}

TEST_CASE("a JSON patch is refused if its operations copy more than 3 MiB") {
  const std::string type = "application/json-patch+json";
  const auto copies = [](int count) {
    json patch = json::array();
    for (int i = 0; i < count; ++i)
      patch.push_back({{"op", "copy"}, {"from", "/a"}, {"path", "/a/" + std::to_string(i)}});
    return patch;
  };
  CHECK(merged(R"({"a": {"x": 1}})"_json, copies(2), type)["a"].size() == 3);
  CHECK(refused_patch(type, copies(40).dump(), R"({"a": {"x": 1}})"_json) ==
        "413 the operations of the patch copy more than 3 MiB");
}

TEST_CASE("a patch is refused if its body is not JSON, is nested too deep, or is no object") {
  CHECK(refused_patch(strategic, "{").starts_with("400 "));
  CHECK(refused_patch(strategic, "5") == "400 the body is neither an object nor a list");
  CHECK(refused_patch(strategic, "[]") == "400 the patch is not an object");
  CHECK(refused_patch("application/merge-patch+json", "[]") == "400 the patch is not an object");
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"a\":";
    return text + "1" + std::string(static_cast<std::size_t>(depth), '}');
  };
  CHECK(refused_patch(strategic, nested(99)) == "taken");
  CHECK(refused_patch(strategic, nested(101)).starts_with("400 "));
  CHECK(refused_patch("application/xml", "{}")
            .starts_with("415 the body of the request was in an unknown format"));
  CHECK(is_apply_patch("application/apply-patch+yaml"));
  CHECK(is_apply_patch("application/apply-patch+cbor"));
  CHECK_FALSE(is_apply_patch("application/merge-patch+json"));
}
