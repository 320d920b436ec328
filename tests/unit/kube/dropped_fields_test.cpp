#include "cli/kube/dropped_fields.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/failure.h"
#include "cli/kube/objects.h"

TEST_SUITE_BEGIN("kube/dropped_fields");

using mlk::kube::dropped_fields;
using nlohmann::json;
using Paths = std::vector<std::string>;

TEST_CASE("dropped_fields() reports no field that a server adds or writes in another form") {
  const json sent = json::parse(R"({
    "kind": "Job", "metadata": {"name": "x", "labels": {"mlk.dev/run": "r"}, "creationTimestamp": null},
    "spec": {"suspend": false, "backoffLimit": 0, "template": {"spec": {
      "volumes": [], "nodeSelector": {}, "hostname": "",
      "containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}, "args": ["x", "y"]}],
      "tolerations": [{"key": "k", "operator": "Exists"}]}}}})");
  const json answered = json::parse(R"({
    "kind": "Job", "apiVersion": "batch/v1", "status": {},
    "metadata": {"name": "x", "uid": "u", "labels": {"mlk.dev/run": "r", "more": "m"}},
    "spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst",
      "containers": [{"name": "sidecar"}, {"name": "a", "resources": {"limits": {"cpu": "1"}}, "args": ["x", "y"], "image": "i"}],
      "tolerations": [{"key": "added"}, {"key": "k", "operator": "Exists"}]}}}})");
  CHECK(dropped_fields(sent, answered).empty());
}

TEST_CASE("dropped_fields() reports each missing field by its path") {
  const json sent = json::parse(R"({"metadata": {"annotations": {"a.b/c": "x"}}, "spec": {
    "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [{"action": "Ignore"}, {"action": "FailJob", "onExitCodes": {"values": [64]}}]},
    "template": {"spec": {"containers": [
      {"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x", "y"],
       "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "subPath": "s"}]}]}}}})");
  json answered = sent;
  CHECK(dropped_fields(sent, answered).empty());
  answered["metadata"].erase("annotations");
  answered["spec"].erase("podReplacementPolicy");
  answered["spec"]["podFailurePolicy"]["rules"][1].erase("onExitCodes");
  json& container = answered["spec"]["template"]["spec"]["containers"][0];
  container["env"].erase(0);
  container["args"].erase(1);
  container["volumeMounts"][1].erase("subPath");
  CHECK(dropped_fields(sent, answered) ==
        Paths{"metadata.annotations", "spec.podFailurePolicy.rules[1].onExitCodes",
              "spec.podReplacementPolicy", "spec.template.spec.containers[main].args[1]",
              "spec.template.spec.containers[main].env[A]",
              "spec.template.spec.containers[main].volumeMounts[/b].subPath"});
  answered = sent;
  answered["metadata"]["annotations"] = json::object({{"other", "x"}});
  CHECK(dropped_fields(sent, answered) == Paths{"metadata.annotations[\"a.b/c\"]"});
  answered = sent;
  answered["spec"]["podFailurePolicy"] = "flat";
  CHECK(dropped_fields(sent, answered) == Paths{"spec.podFailurePolicy"});
}

TEST_CASE("dropped_fields() reports missing numbers, but not a missing zero, false or empty text") {
  CHECK(dropped_fields({{"a", 1}, {"b", true}, {"c", 0}, {"d", false}, {"e", ""}}, json::object()) ==
        Paths{"a", "b"});
  CHECK(dropped_fields({{"a", {{"b", {{"c", nullptr}}}}}}, json::object()).empty());
}

TEST_CASE("dropped_fields() compares the stringData of a Secret with the data in the answer") {
  const json sent = {{"kind", "Secret"}, {"stringData", {{"key", "v"}, {"other", "w"}}}};
  CHECK(dropped_fields(sent, {{"kind", "Secret"}, {"data", {{"key", "dg=="}, {"other", "dw=="}}}}).empty());
  CHECK(dropped_fields(sent, {{"kind", "Secret"}, {"data", {{"key", "dg=="}}}}) == Paths{"stringData.other"});
}

TEST_CASE(
    "the error for an unknown host, or for a proxy that refuses a request, names the cause and a remedy") {
  using mlk::kube::Failure;
  mlk::kube::Config config;
  config.server = "https://h:6443";
  config.source = "/f";
  config.context = "c";
  config.user = "u";
  const auto text = [&](Failure::Kind kind, const std::string& detail = "") {
    const mlk::kube::ApiError error = mlk::kube::unreachable_error({kind, detail}, config);
    CHECK(error.status() == 0);
    CHECK(error.reason() == "Unreachable");
    CHECK(error.code() == mlk::ExitCode::cluster);
    return std::string(error.what()) + " | " + error.hint();
  };
  CHECK(text(Failure::Kind::resolve) ==
        "cannot reach https://h:6443: no such host | check your network or VPN, and the server in /f "
        "(context c)");
  const Failure of_proxy{Failure::Kind::proxy, "the proxy p:80 of proxy-url refuses connections",
                         "check proxy-url"};
  CHECK(std::string(mlk::kube::unreachable_error(of_proxy, config).hint()) == "check proxy-url");
  config.proxy_url = "http://p";
  const mlk::kube::ApiError error = mlk::kube::unreachable_error(of_proxy, config);
  CHECK(std::string(error.what()) ==
        "cannot reach https://h:6443: the proxy p:80 of proxy-url refuses connections");
  CHECK(error.hint() == "check proxy-url in /f (context c)");
}

TEST_CASE("label_of() and annotation_of() find keys with slashes, and give empty text for a missing key") {
  const json object = json::parse(
      R"({"metadata": {"name": "x", "uid": 7, "labels": {"a/b.c": "v", "n": 1}, "annotations": null}})");
  CHECK(mlk::kube::label_of(object, "a/b.c") == "v");
  CHECK(mlk::kube::label_of(object, "n").empty());
  CHECK(mlk::kube::annotation_of(object, "a/b.c").empty());
  CHECK(mlk::kube::label_of(json::array(), "x").empty());
  CHECK(mlk::kube::name_of(object) == "x");
  CHECK(mlk::kube::uid_of(object).empty());
}

TEST_CASE("dropped_fields() compares items by index if several items have the same key") {
  const json sent = json::parse(R"({"tolerations": [{"key": "k", "effect": "A"},
      {"key": "k", "effect": "B", "tolerationSeconds": 3}]})");
  CHECK(dropped_fields(sent, sent).empty());
  json answered = sent;
  answered["tolerations"][1].erase("tolerationSeconds");
  CHECK(dropped_fields(sent, answered) == Paths{"tolerations[k].tolerationSeconds"});
}

TEST_CASE("dropped_fields() finds an item by the first of mountPath, name, key and topologyKey that it has") {
  const auto dropped_of = [](const char* item, const char* answered) {
    return dropped_fields({{"l", {json::parse(item)}}}, {{"l", {json::parse("{}"), json::parse(answered)}}});
  };
  CHECK(dropped_of(R"({"mountPath": "/a", "name": "v", "x": 1})", R"({"mountPath": "/a", "name": "w"})") ==
        Paths{"l[/a].x"});
  CHECK(dropped_of(R"({"name": "v", "key": "k", "x": 1})", R"({"name": "v", "key": "l"})") ==
        Paths{"l[v].x"});
  CHECK(dropped_of(R"({"key": "k", "topologyKey": "t", "x": 1})", R"({"key": "k", "topologyKey": "u"})") ==
        Paths{"l[k].x"});
  CHECK(dropped_of(R"({"topologyKey": "t", "x": 1})", R"({"topologyKey": "t"})") == Paths{"l[t].x"});
  CHECK(dropped_of(R"({"name": "v"})", R"({"name": "w"})") == Paths{"l[v]"});
  CHECK(dropped_fields({{"l", {{{"name", 7}, {"x", 1}}}}}, {{"l", {{{"name", 7}}}}}) == Paths{"l[0].x"});
}

TEST_CASE("dropped_fields() reports a field that changes between map, list and scalar") {
  CHECK(dropped_fields({{"a", "x"}}, {{"a", json::object()}}) == Paths{"a"});
  CHECK(dropped_fields({{"a", {{"b", 1}}}}, {{"a", {1}}}) == Paths{"a"});
  CHECK(dropped_fields({{"a", {1, 2}}}, {{"a", "1"}}) == Paths{"a"});
  CHECK(dropped_fields({{"a", {1, 2}}}, {{"a", {1}}}) == Paths{"a[1]"});
  CHECK(dropped_fields({{"a", "x"}}, {{"a", 7}}).empty());  // the server may write a scalar in another form
  CHECK(dropped_fields(json(), json::object()) == Paths{""});
}

TEST_CASE(
    "dropped_fields() ignores a missing list or map with only empty values, but reports a missing 0.5") {
  CHECK(dropped_fields(json::parse(R"({"a": [0, "", [], {"b": false}], "c": 0.0})"), json::object()).empty());
  CHECK(dropped_fields({{"a", 0.5}, {"b", {0, 1}}}, json::object()) == Paths{"a", "b"});
}

TEST_CASE("dropped_fields() quotes keys with special characters in a path") {
  for (const char* key : {"a.b", "a/b", "a b", "a[b", "a]b"})
    CHECK(dropped_fields({{"x", {{key, 1}}}}, {{"x", {{"other", 1}}}}) ==
          Paths{"x[\"" + std::string(key) + "\"]"});
  CHECK(dropped_fields({{"a-b_c", 1}}, json::object()) == Paths{"a-b_c"});
}

TEST_CASE(
    "dropped_fields() ignores an empty text in stringData, and reports other missing fields of a Secret") {
  const json sent = {{"kind", "Secret"}, {"immutable", true}, {"stringData", {{"a.b", "v"}, {"none", ""}}}};
  CHECK(dropped_fields(sent, {{"kind", "Secret"}}) == Paths{"immutable", "stringData[\"a.b\"]"});
  CHECK(dropped_fields({{"stringData", "flat"}}, json::object()) == Paths{"stringData"});
  CHECK(dropped_fields({{"stringData", {{"a", "v"}}}}, json::array()) == Paths{"", "stringData.a"});
}
