// The rule of merging, for each kind of list.
#include "cli/render/merge.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("render/merge");

namespace mlk {
namespace {

using nlohmann::json;

json merged(const char* base, const char* overlay) { return merge(json::parse(base), json::parse(overlay)); }

TEST_CASE("maps are merged, but scalars and plain lists are replaced") {
  CHECK(merged(R"({"a":{"b":1,"c":2},"l":[1,2],"x":1})", R"({"a":{"c":3,"d":4},"l":[9],"x":null})") ==
        json::parse(R"({"a":{"b":1,"c":3,"d":4},"l":[9]})"));
}

TEST_CASE("containers of the same name are merged, and new containers are appended") {
  CHECK(
      merged(
          R"({"containers":[{"name":"main","image":"a","env":[{"name":"A","value":"1"}]}]})",
          R"({"containers":[{"name":"main","env":[{"name":"B","value":"2"}]},{"name":"side","image":"b"}]})") ==
      json::parse(
          R"({"containers":[{"name":"main","image":"a","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},
                                      {"name":"side","image":"b"}]})"));
}

TEST_CASE("a variable or volume is replaced by one of the same name") {
  CHECK(
      merged(R"({"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]})",
             R"({"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]})") ==
      json::parse(
          R"({"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"B","value":"2"}]})"));
  CHECK(merged(R"({"volumes":[{"name":"v","emptyDir":{}}]})",
               R"({"volumes":[{"name":"v","hostPath":{"path":"/x"}}]})") ==
        json::parse(R"({"volumes":[{"name":"v","hostPath":{"path":"/x"}}]})"));
}

TEST_CASE("a mount is replaced by a mount with the same path") {
  CHECK(merged(R"({"volumeMounts":[{"name":"v","mountPath":"/a"}]})",
               R"({"volumeMounts":[{"name":"v","mountPath":"/b"},{"name":"w","mountPath":"/a"}]})") ==
        json::parse(R"({"volumeMounts":[{"name":"w","mountPath":"/a"},{"name":"v","mountPath":"/b"}]})"));
}

TEST_CASE("tolerations and imagePullSecrets are appended") {
  CHECK(merged(R"({"tolerations":[{"key":"a"}],"imagePullSecrets":[{"name":"x"}]})",
               R"({"tolerations":[{"key":"a"}],"imagePullSecrets":[{"name":"y"}]})") ==
        json::parse(
            R"({"tolerations":[{"key":"a"},{"key":"a"}],"imagePullSecrets":[{"name":"x"},{"name":"y"}]})"));
}

TEST_CASE("init containers and ports are merged by name") {
  CHECK(merged(R"({"initContainers":[{"name":"a","image":"i","tty":true}]})",
               R"({"initContainers":[{"name":"a","image":"j"},{"name":"b"}]})") ==
        json::parse(R"({"initContainers":[{"name":"a","image":"j","tty":true},{"name":"b"}]})"));
  CHECK(merged(R"({"ports":[{"name":"mlk","containerPort":7070}]})",
               R"({"ports":[{"name":"mlk","protocol":"TCP"},{"containerPort":80},7]})") ==
        json::parse(
            R"({"ports":[{"name":"mlk","containerPort":7070,"protocol":"TCP"},{"containerPort":80},7]})"));
  CHECK(merged(R"({"containers":[7,{"image":"i"}]})", R"({"containers":[{"image":"j"}]})") ==
        json::parse(R"({"containers":[7,{"image":"i"},{"image":"j"}]})"));
}

TEST_CASE("a value is replaced if only one of the two values is a list") {
  CHECK(merged(R"({"containers":{"a":1}})", R"({"containers":[{"name":"b"}]})") ==
        json::parse(R"({"containers":[{"name":"b"}]})"));
  CHECK(merged(R"({"containers":[{"name":"b"}]})", R"({"containers":{"a":1}})") ==
        json::parse(R"({"containers":{"a":1}})"));
  CHECK(merged(R"({})", R"({"tolerations":[{"key":"a"}],"a":{"b":null},"gone":null})") ==
        json::parse(R"({"tolerations":[{"key":"a"}],"a":{"b":null}})"));
  CHECK(merged(R"({"a":1})", R"([2])") == json::parse("[2]"));
  CHECK(merged("[1]", R"({"a":2})") == json::parse(R"({"a":2})"));
}

}  // namespace
}  // namespace mlk
