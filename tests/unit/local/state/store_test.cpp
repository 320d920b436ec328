// Objects on disk: the state after a crash, and the changes that a watch sees.
#include "cli/local/state/store.h"

#include <fstream>

#include <doctest/doctest.h>

#include "cli/local/api/selector.h"
#include "cli/local/state/kinds.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/state/store");

using namespace mlk::local;
using mlk::local::samples::Folder;

namespace {

json object(const std::string& name, const std::string& value = "1") {
  return {{"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", "u-" + name}}},
          {"data", {{"v", value}}}};
}

std::uint64_t version_of(const Object& stored) {
  return std::stoull(stored->at("metadata").at("resourceVersion").get<std::string>());
}

std::vector<std::string> names(const std::vector<Object>& objects) {
  std::vector<std::string> result;
  for (const Object& stored : objects) result.push_back(stored->at("metadata").at("name"));
  return result;
}

int code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const StatusError& refusal) {
    return refusal.code();
  }
  return 0;
}

const auto at_once = std::chrono::steady_clock::time_point{};

}  // namespace

TEST_CASE("a store that is opened again has the same objects and larger versions") {
  const Folder folder;
  std::uint64_t before = 0;
  {
    Store store(folder.path());
    store.create("configmaps", object("b"));
    store.create("configmaps", object("a"));
    before = version_of(store.modify("configmaps", "ns", "a", [](json& o) { o["data"]["v"] = "2"; }));
    store.create("configmaps", object("gone"));
    CHECK(store.remove("configmaps", "ns", "gone"));
  }
  Store store(folder.path());
  CHECK(names(store.list("configmaps")) == std::vector<std::string>{"a", "b"});
  CHECK(store.get("configmaps", "ns", "a")->at("data").at("v") == "2");
  CHECK(version_of(store.create("configmaps", object("c"))) > before);
}

TEST_CASE("a store that is opened again uses larger versions, even if it is empty") {
  const Folder folder;
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    Store store(folder.path());
    const std::uint64_t first = version_of(store.create("configmaps", object("x")));
    CHECK(first > last);
    store.remove("configmaps", "ns", "x");
    last = store.revision();
  }
}

TEST_CASE("a store does not load a temporary file, or a file that a crash has cut") {
  const Folder folder;
  {
    Store(folder.path()).create("configmaps", object("good"));
  }
  const auto place = folder.path() / "configmaps" / "ns";
  std::ofstream(place / "half.json.tmp-123") << "{\"metadata\":";
  std::ofstream(place / "bad.json") << "{\"metadata\":";
  Store store(folder.path());
  CHECK(names(store.list("configmaps")) == std::vector<std::string>{"good"});
  CHECK(std::filesystem::exists(place / "bad.json.broken"));
}

TEST_CASE("invalid content of the file `revision` is ignored") {
  for (const char* text : {"", "x", "-1", "99999999999999999999999", "[[[["}) {
    CAPTURE(text);
    const Folder folder;
    {
      Store store(folder.path());
      store.create("configmaps", object("a"));
    }
    std::ofstream(folder.path() / "revision") << text;
    const Store store(folder.path());
    CHECK(store.find("configmaps", "ns", "a"));
    CHECK(store.revision() > 0);
  }
}

TEST_CASE("an object's name may be longer than a file name can be") {
  const Folder folder;
  const std::string stem(250, 'n');
  {
    Store store(folder.path());
    store.create("configmaps", object(stem + "-a"));
    store.create("configmaps", object(stem + "-b"));
  }
  CHECK(Store(folder.path()).list("configmaps").size() == 2);
}

TEST_CASE("a store refuses to create an object that exists, and to change an object that is missing") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", object("a"));
  CHECK(code_of([&] { store.create("configmaps", object("a")); }) == 409);
  CHECK(code_of([&] { store.get("configmaps", "ns", "none"); }) == 404);
  CHECK(code_of([&] { store.modify("configmaps", "ns", "none", [](json&) {}); }) == 404);
  CHECK(code_of([&] { store.create("configmaps", object("big", std::string(1600 * 1024, 'x'))); }) == 413);
  CHECK(!store.find("configmaps", "ns", "big"));
}

TEST_CASE("modify() keeps the version of an object that does not change") {
  const Folder folder;
  Store store(folder.path());
  const auto before = version_of(store.create("configmaps", object("a")));
  CHECK(version_of(store.modify("configmaps", "ns", "a", [](json&) {})) == before);
}

TEST_CASE("changes_after() returns each change once and in order") {
  const Folder folder;
  Store store(folder.path());
  std::uint64_t seen = store.revision();
  store.create("configmaps", object("a"));
  store.create("secrets", object("s"));
  store.modify("configmaps", "ns", "a", [](json& o) { o["data"]["v"] = "2"; });
  store.remove("configmaps", "ns", "a");
  std::vector<Change::Type> types;
  for (const Change& change : store.changes_after(seen, "configmaps", at_once)) types.push_back(change.type);
  CHECK(types ==
        std::vector<Change::Type>{Change::Type::added, Change::Type::modified, Change::Type::deleted});
  CHECK(store.changes_after(seen, "configmaps", at_once).empty());
}

TEST_CASE(
    "a watch gets 410 if its version is from before the store's start, so that the client lists again") {
  const Folder folder;
  std::uint64_t old = 0;
  {
    Store store(folder.path());
    store.create("configmaps", object("a"));
    old = store.revision();
  }
  Store store(folder.path());
  CHECK(code_of([&] { store.changes_after(old, "configmaps", at_once); }) == 410);
}

TEST_CASE("snapshot_at() returns the objects of an earlier version, and 410 for a version that is too old") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", object("a"));
  store.create("configmaps", object("b"));
  const std::uint64_t then = store.revision();
  store.remove("configmaps", "ns", "a");
  store.modify("configmaps", "ns", "b", [](json& o) { o["data"]["v"] = "2"; });
  store.create("configmaps", object("c"));
  const auto snapshot = store.snapshot_at("configmaps", "ns", then);
  CHECK(names(snapshot.objects) == std::vector<std::string>{"a", "b"});
  CHECK(snapshot.objects[1]->at("data").at("v") == "1");
  CHECK(code_of([&] { store.snapshot_at("configmaps", "ns", 0); }) == 410);
}

TEST_CASE("a deleted object stays until its last finalizer is gone") {
  const Folder folder;
  Store store(folder.path());
  json held = object("a");
  held["metadata"]["finalizers"] = {"x"};
  store.create("configmaps", held);
  store.modify("configmaps", "ns", "a", [](json& o) {
    o["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
    o["metadata"]["deletionGracePeriodSeconds"] = 0;
  });
  CHECK(store.find("configmaps", "ns", "a"));
  store.modify("configmaps", "ns", "a", [](json& o) { o["metadata"].erase("finalizers"); });
  CHECK(!store.find("configmaps", "ns", "a"));
}

TEST_CASE("a change in the history has the object before the change, even if the change is a deletion") {
  const Folder folder;
  Store store(folder.path());
  json held = object("a");
  held["metadata"]["labels"]["l"] = "1";
  held["metadata"]["finalizers"] = json::array({"f"});
  store.create("configmaps", held);
  store.modify("configmaps", "ns", "a",
               [](json& o) { o["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"; });
  std::uint64_t seen = store.revision();
  store.modify("configmaps", "ns", "a", [](json& o) {
    o["metadata"].erase("labels");
    o["metadata"].erase("finalizers");
  });
  const std::vector<Change> changes = store.changes_after(seen, "configmaps", at_once);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].type == Change::Type::deleted);
  CHECK(changes[0].before->at("metadata").at("labels").at("l") ==
        "1");  // so a watch knows that it has seen the object
}

TEST_CASE("a label selector matches by value, by set or by presence, and gets 400 if it is invalid") {
  const json labelled = {{"metadata", {{"labels", {{"a", "1"}, {"b", ""}}}}}};
  const struct {
    const char* text;
    bool matches;
  } table[] = {{"", true},          {"a=1", true},         {"a==1", true},        {"a=2", false},
               {"a!=2", true},      {"a!=1", false},       {"c!=1", true},        {"a", true},
               {"c", false},        {"!c", true},          {"!a", false},         {"a in (1,2)", true},
               {"a in (2)", false}, {"a notin (2)", true}, {"c notin (1)", true}, {"a=1,b=", true},
               {"a=1,c", false},    {"a = 1 , b", true}};
  for (const auto& row : table) {
    CAPTURE(row.text);
    CHECK(LabelSelector(row.text).matches(labelled) == row.matches);
  }
  for (const char* bad : {"a in 1", "a between (1)", "=1", "a=b=c", "a b"}) {
    CAPTURE(bad);
    CHECK(code_of([&] { LabelSelector selector(bad); }) == 400);
  }
}

TEST_CASE("a field selector compares fields as text, and gets 400 if a field is unknown") {
  const json thing = {{"metadata", {{"name", "x"}}},
                      {"status", {{"phase", "Running"}, {"succeeded", 1}}},
                      {"source", {{"component", "kubelet"}}},
                      {"involvedObject", {{"uid", "u"}}}};
  const struct {
    const char* plural;
    const char* text;
    bool matches;
  } table[] = {
      {"pods", "metadata.name=x", true},        {"configmaps", "metadata.name=y", false},
      {"pods", "metadata.name!=y", true},       {"pods", "status.phase=Running,metadata.name=x", true},
      {"events", "involvedObject.uid=u", true}, {"events", "source==kubelet", true},
      {"jobs", "status.successful=1", true},    {"pods", "spec.nodeName=", true},
      {"pods", "spec.nodeName!=local", true},   {"nodes", "", true}};
  for (const auto& row : table) {
    CAPTURE(row.text);
    CHECK(FieldSelector(row.text, kind_of(row.plural)).matches(thing) == row.matches);
  }
  // These are the answers of the API server, word by word.
  const struct {
    const char* plural;
    const char* text;
    const char* message;
  } refused[] = {
      {"configmaps", "data.k=v",
       "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""},
      {"pods", "metadata.uid=x", "field label not supported: metadata.uid"},
      {"events", "foo=x", "field label not supported: foo"},
      {"services", "foo=x", "field label not supported: foo"},
      {"jobs", "spec.x=1", "field label \"spec.x\" not supported for Job"},
      {"configmaps", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"}};
  for (const auto& row : refused) {
    CAPTURE(row.text);
    try {
      const FieldSelector selector(row.text, kind_of(row.plural));
      CHECK_MESSAGE(false, "was taken");
    } catch (const StatusError& refusal) {
      CHECK(refusal.code() == 400);
      CHECK(std::string(refusal.what()) == row.message);
    }
  }
}
