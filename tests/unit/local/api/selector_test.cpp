// Labels and fields by which objects are selected, and sets of indexes.
#include "cli/local/api/selector.h"

#include <random>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"
#include "cli/local/state/status.h"
#include "cli/util/indexes.h"

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

TEST_CASE("values and keys of label selectors have the letters of labels") {
  for (const char* good :
       {"a=b", "x.io/a-b_c=1.2-3_4", "a in (b,c)", "a in (b, c )", "a notin (b)", " a = b ", "a==b",
        "a=", "!a", "! a", "a,b,!c", "a in ()", "a!=", "a in (b),c", "A=B"})
    CHECK_MESSAGE(refused_labels(good) == "taken", good);
  for (const char* bad : {"=a", "!", "a=b/c", "a=b c", "a b", "a in b", "a in (b", "a in", "a within (b)",
                          "in (b)", "a=b=c", "a in (b/c)", "a(b)", "ä=b"})
    CHECK_MESSAGE(refused_labels(bad).starts_with("400 unable to parse requirement: \""), bad);
  CHECK(refused_labels("x,a b,y") == "400 unable to parse requirement: \"a b\"");
}

TEST_CASE("a label that is missing is in no set, and outside of every one") {
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

TEST_CASE("each kind is selected by the fields that Kubernetes knows for it") {
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

TEST_CASE("a set of indexes knows its members, its size and its text") {
  Indexes set;
  for (const int index : {5, 3, 4, 9, 0, 1, 3}) set.insert(index);
  CHECK(set.text() == "0,1,3-5,9");
  CHECK(set.size() == 6);
  CHECK(set.contains(9));
  CHECK_FALSE(set.contains(2));
  set.drop_from(4);
  CHECK(set.text() == "0,1,3");
  set.drop_from(4);
  CHECK(set.text() == "0,1,3");
  set.drop_from(0);
  CHECK(set.text() == "");
  CHECK(Indexes::parse("99999")->contains(99999));
  for (const char* bad : {"100000", "1-100000", "2-1", "1,,2", ",", "1-2-3", "1-x", "+1"})
    CHECK_MESSAGE(!Indexes::parse(bad), bad);
  CHECK(Indexes::parse("2-2")->text() == "2");
  CHECK(Indexes::parse("3,1-2,2")->text() == "1-3");
}

TEST_CASE("a set of indexes is the same whatever order they come in, and however it is cut") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Indexes set, other;
    std::set<int> plain, plain_other;
    for (int i = 0; i < 30; ++i) {
      const int index = static_cast<int>(random() % 40), second = static_cast<int>(random() % 40);
      set.insert(index);
      plain.insert(index);
      other.insert(second);
      plain_other.insert(second);
      if (i % 10 == 9) {
        const int end = static_cast<int>(random() % 40);
        set.drop_from(end);
        plain.erase(plain.lower_bound(end), plain.end());
      }
      REQUIRE(set.size() == plain.size());
      for (int at = 0; at < 42; ++at) {
        REQUIRE(set.contains(at) == plain.contains(at));
        int absent = at;
        while (plain.contains(absent)) ++absent;
        REQUIRE(set.first_absent(at) == absent);
      }
      std::size_t common = 0;
      for (const int one : plain) common += plain_other.count(one);
      REQUIRE(set.size_of_common(other) == common);
      REQUIRE(other.size_of_common(set) == common);
    }
    REQUIRE(Indexes::parse(set.text())->text() == set.text());
  }
}

TEST_CASE("a text with the whole of a large Job is one run, and overlaps count once") {
  const auto all = Indexes::parse("5-99999,0-10");
  REQUIRE(all);
  CHECK(all->size() == 100000);
  CHECK(all->text() == "0-99999");
  CHECK(all->first_absent(0) == 100000);
}
