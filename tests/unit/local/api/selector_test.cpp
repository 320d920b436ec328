// Labels and fields by which objects are selected.
#include "cli/local/api/selector.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"
#include "cli/local/state/status.h"

TEST_SUITE_BEGIN("local/api/selector");

using namespace mlk::local;

namespace {

std::string refused_labels(const std::string& text) {
  try {
    LabelSelector selector(text);
  } catch (const StatusError& refusal) {
    return std::to_string(refusal.code()) + " " + refusal.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a label selector is refused if it is malformed or has a character that labels cannot have") {
  for (const char* good :
       {"a=b", "x.io/a-b_c=1.2-3_4", "a in (b,c)", "a in (b, c )", "a notin (b)", " a = b ", "a==b",
        "a=", "!a", "! a", "a,b,!c", "a in ()", "a!=", "a in (b),c", "A=B"})
    CHECK_MESSAGE(refused_labels(good) == "taken", good);
  for (const char* bad : {"=a", "!", "a=b/c", "a=b c", "a b", "a in b", "a in (b", "a in", "a within (b)",
                          "in (b)", "a=b=c", "a in (b/c)", "a(b)", "ä=b"})
    CHECK_MESSAGE(refused_labels(bad).starts_with("400 unable to parse requirement: \""), bad);
  CHECK(refused_labels("x,a b,y") == "400 unable to parse requirement: \"a b\"");
}

TEST_CASE("an object without a label matches `notin` and `!=` for this label, but not `in` and `=`") {
  const json bare = R"({"metadata": {"name": "x"}})"_json, odd = R"({"metadata": {"labels": {"a": 5}}})"_json;
  for (const json& object : {bare, odd, json::object()}) {
    for (const char* holds : {"", "a!=b", "a notin (b,c)", "!a"}) CHECK(LabelSelector(holds).matches(object));
    for (const char* fails : {"a", "a=b", "a=", "a in (b,)", "a==b"})
      CHECK_FALSE(LabelSelector(fails).matches(object));
  }
  const json x = R"({"metadata": {"labels": {"a": "b", "e": ""}}})"_json;
  CHECK(LabelSelector("a in (c,b),e=,!z").matches(x));
  CHECK_FALSE(LabelSelector("a in (c,b),z").matches(x));
  CHECK_FALSE(LabelSelector("a notin (c,b)").matches(x));
  CHECK(LabelSelector("a notin (c)").matches(x));
}

TEST_CASE("objects of each kind can be selected by the fields that Kubernetes supports for this kind") {
  const std::pair<const char*, std::vector<const char*>> table[] = {
      {"pods",
       {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
        "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
        "status.nominatedNodeName"}},
      {"events",
       {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "type"}},
      {"services", {"spec.clusterIP", "spec.type", "metadata.name"}},
      {"secrets", {"type", "metadata.namespace"}},
      {"namespaces", {"status.phase", "metadata.name"}},
      {"nodes", {"spec.unschedulable", "metadata.name"}},
      {"configmaps", {"metadata.name", "metadata.namespace"}},
      {"leases", {"metadata.name", "metadata.namespace"}}};
  for (const auto& [plural, fields] : table) {
    for (const std::string field : fields) {
      CAPTURE(plural);
      CAPTURE(field);
      json object = json::object();
      std::string pointer = "/" + field;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      object[json::json_pointer(pointer)] = "v";
      const Kind& kind = kind_of(plural);
      CHECK(FieldSelector(field + "=v", kind).matches(object));
      CHECK_FALSE(FieldSelector(field + "=w", kind).matches(object));
      CHECK_FALSE(FieldSelector(field + "!=v", kind).matches(object));
      CHECK_FALSE(FieldSelector(field + "=v", kind).matches(json::object()));
      CHECK(FieldSelector(field + "=", kind).matches(json::object()));
    }
  }
  CHECK_THROWS_AS(FieldSelector("metadata.namespace=x", kind_of("nodes")), StatusError);
  CHECK_THROWS_AS(FieldSelector("=x", kind_of("pods")), StatusError);
  const json source =
      R"({"source": {"component": "kubelet"}, "status": {"succeeded": 2, "phase": true}})"_json;
  CHECK(FieldSelector("source=kubelet", kind_of("events")).matches(source));
  CHECK(FieldSelector("status.successful=2", kind_of("jobs")).matches(source));
  CHECK(FieldSelector(" status.phase == true ", kind_of("pods")).matches(source));
}
