// Whole events as they are stored, and which events expire.
#include "cli/local/state/events.h"

#include <doctest/doctest.h>

#include "cli/util/hash.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/state/events");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const json event_subject = R"({"kind": "Job", "apiVersion": "batch/v1",
  "metadata": {"name": "j", "namespace": "ns", "uid": "u"}})"_json;

json only_event(const Store& store) {
  const std::vector<Object> events = store.list("events");
  REQUIRE(events.size() == 1);
  json event = *events[0];
  event["metadata"].erase("resourceVersion");
  return event;
}

TEST_CASE(
    "record_event() stores an event's object, reason, message, time and source, and counts equal events") {
  const Folder folder;
  Store store(folder.path());
  record_event(store, event_subject, "job-controller", "Warning", "Failed", "it failed", noon);
  json event = only_event(store);
  CHECK(event.at("metadata").at("uid").get<std::string>().size() == 36);
  event["metadata"].erase("uid");
  json expected = R"({"apiVersion": "v1", "kind": "Event",
    "metadata": {"namespace": "ns", "creationTimestamp": "2026-11-21T12:00:00Z"},
    "involvedObject": {"kind": "Job", "namespace": "ns", "name": "j", "uid": "u", "apiVersion": "batch/v1"},
    "reason": "Failed", "message": "it failed", "type": "Warning", "count": 1,
    "firstTimestamp": "2026-11-21T12:00:00Z", "lastTimestamp": "2026-11-21T12:00:00Z", "eventTime": null,
    "source": {"component": "job-controller"}, "reportingComponent": "job-controller",
    "reportingInstance": "local"})"_json;
  expected["metadata"]["name"] = "j." + sha256_hex("u/Failed/it failed").substr(0, 16);
  CHECK(event == expected);
  record_event(store, event_subject, "job-controller", "Warning", "Failed", "it failed",
               noon + std::chrono::seconds(3));
  expected["count"] = 2;
  expected["lastTimestamp"] = "2026-11-21T12:00:03Z";
  event = only_event(store);
  event["metadata"].erase("uid");
  CHECK(event == expected);
}

TEST_CASE("events that differ in object, reason or message are stored separately") {
  const Folder folder;
  Store store(folder.path());
  json other = event_subject;
  other["metadata"]["uid"] = "v";
  record_event(store, event_subject, "c", "Normal", "A", "m", noon);
  record_event(store, other, "c", "Normal", "A", "m", noon);
  record_event(store, event_subject, "c", "Normal", "B", "m", noon);
  record_event(store, event_subject, "c", "Normal", "A", "n", noon);
  record_event(store, event_subject, "c", "Normal", "A/m", "", noon);
  CHECK(store.list("events", "ns").size() == 5);
  for (const Object& event : store.list("events")) CHECK(event->at("count") == 1);
}

TEST_CASE("record_event() uses the namespace `default` if the object has no namespace") {
  const Folder folder;
  Store store(folder.path());
  const json bare = {{"metadata", {{"name", std::string(201, 'n')}}}};
  record_event(store, bare, "c", "Normal", "R", "m", noon);
  const json event = only_event(store);
  CHECK(event.at("metadata").at("name") == std::string(200, 'n') + "." + sha256_hex("/R/m").substr(0, 16));
  CHECK(event.at("metadata").at("namespace") == "default");
  CHECK(event.at("involvedObject") == json{{"kind", ""},
                                           {"namespace", "default"},
                                           {"name", std::string(201, 'n')},
                                           {"uid", ""},
                                           {"apiVersion", ""}});
}

TEST_CASE("record_event() ignores an event about an object without a name") {
  const Folder folder;
  Store store(folder.path());
  record_event(store, json::object(), "c", "Normal", "R", "m", noon);  // about an object without a name
  CHECK(store.list("events").empty());
}

TEST_CASE("expire_events() removes an event that is older than an hour or has no time") {
  const Folder folder;
  Store store(folder.path());
  for (const auto& [name, time] : {std::pair("hour", json("2026-11-21T11:00:00Z")),
                                   {"over", json("2026-11-21T10:59:59Z")},
                                   {"new", json("2026-11-21T12:00:00Z")},
                                   {"odd", json(5)},
                                   {"null", json()}})
    store.create("events", {{"metadata", {{"name", name}, {"namespace", "ns"}}}, {"lastTimestamp", time}});
  store.create("events", R"({"metadata": {"name": "bare"}})"_json);
  expire_events(store, noon);
  std::vector<std::string> left;
  for (const Object& event : store.list("events")) left.push_back(event->at("metadata").at("name"));
  CHECK(left == std::vector<std::string>{"hour", "new"});
}

TEST_CASE("expire_events() keeps the newest 2000 events") {
  const Folder folder;
  const auto write = [&](int number, int second) {
    const std::string name = "e-" + std::to_string(number);
    const json event = {{"metadata", {{"name", name}, {"namespace", "ns"}, {"resourceVersion", "1"}}},
                        {"lastTimestamp", format_time(noon + std::chrono::seconds(second))}};
    write_text(folder.path() / "events" / "ns" / (name + ".json"), event.dump());
  };
  for (int i = 0; i < 2000; ++i) write(i, i == 1234 ? 0 : 1 + i % 7);
  {
    Store store(folder.path());
    expire_events(store, noon);
    CHECK(store.list("events").size() == 2000);
  }
  write(2000, 5);
  Store store(folder.path());
  expire_events(store, noon);
  CHECK(store.list("events").size() == 2000);
  CHECK_FALSE(store.find("events", "ns", "e-1234"));
}

}  // namespace
}  // namespace mlk::local
