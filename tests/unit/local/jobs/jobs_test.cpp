// The Job controller with a store: complete pods and events, and pods that the Job does not control.
#include "cli/local/jobs/jobs.h"

#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/jobs/jobs");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;
using std::chrono::seconds;

json stored_pod(const Cluster& cluster, const std::string& name) {
  return *cluster.store.get("pods", "default", name);
}

// Stores a finished Job "name" with these conditions.
void store_ended(Store& store, const std::string& name, const json& conditions, const json& ttl) {
  json ended = job(1);
  ended["metadata"]["name"] = name;
  ended["metadata"]["uid"] = "uid-" + name;
  ended["spec"]["template"]["spec"]["restartPolicy"] = "Never";
  ended["status"]["conditions"] = conditions;
  if (!ttl.is_null()) ended["spec"]["ttlSecondsAfterFinished"] = ttl;
  store.create("jobs", ended);
}

json condition_of(const char* type, const char* status, const json& time) {
  json condition = {{"type", type}, {"status", status}};
  if (!time.is_null()) condition["lastTransitionTime"] = time;
  return condition;
}

// A pod "name" with the finalizer of a Job, another finalizer, and the owner reference `owner`.
json held_pod(const std::string& name, const json& owner) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "default"},
            {"uid", "uid-" + name},
            {"finalizers", {"batch.kubernetes.io/job-tracking", "x.io/f"}},
            {"ownerReferences", json::array({owner})}}},
          {"spec", json::object()},
          {"status", {{"phase", "Running"}}}};
}

json finalizers_of(const Cluster& cluster, const std::string& name) {
  return stored_pod(cluster, name).at("metadata").value("finalizers", json());
}

TEST_CASE("step_jobs() creates a pod with all defaults, and an event about it") {
  Cluster cluster;
  const json made =
      cluster.ask("POST", jobs,
                  job_named("j", {{"completions", 1}, {"parallelism", 1}, {"backoffLimitPerIndex", 2}},
                            {{"resources", {{"limits", {{"cpu", 1}}}}}}));
  const json uid = made.at("metadata").at("uid");
  CHECK_FALSE(step_jobs(cluster.store, noon + seconds(5)));
  json list = cluster.ask("GET", pods).at("items");
  REQUIRE(list.size() == 1);
  json pod = list[0];
  const std::string name = pod.at("metadata").at("name");
  CHECK(name.starts_with("j-0-"));
  CHECK(name.size() == 9);
  CHECK(pod.at("metadata").at("uid").get<std::string>().size() == 36);
  for (const char* field : {"name", "uid", "resourceVersion"}) pod["metadata"].erase(field);
  json expected = R"({"metadata": {
      "generateName": "j-0-", "namespace": "default", "creationTimestamp": "2026-11-21T12:00:05Z",
      "generation": 1,
      "labels": {"batch.kubernetes.io/job-name": "j", "job-name": "j",
                 "batch.kubernetes.io/job-completion-index": "0"},
      "annotations": {"batch.kubernetes.io/job-completion-index": "0",
                      "batch.kubernetes.io/job-index-failure-count": "0"},
      "finalizers": ["batch.kubernetes.io/job-tracking"],
      "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": true,
                           "blockOwnerDeletion": true}]},
    "spec": {
      "containers": [{"name": "main", "image": "i", "command": ["true"],
        "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1",
          "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}],
        "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}}, "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
      "hostname": "j-0", "restartPolicy": "Never", "dnsPolicy": "ClusterFirst",
      "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "securityContext": {},
      "enableServiceLinks": true, "serviceAccountName": "default"},
    "status": {"phase": "Pending"}})"_json;
  for (const char* label : {"batch.kubernetes.io/controller-uid", "controller-uid"})
    expected["metadata"]["labels"][label] = uid;
  expected["metadata"]["ownerReferences"][0]["uid"] = uid;
  CHECK(pod == expected);
  CHECK(cluster.ask("GET", jobs + "/j").at("status") ==
        R"({"startTime": "2026-11-21T12:00:05Z", "active": 1, "ready": 0, "terminating": 0,
            "failedIndexes": "", "uncountedTerminatedPods": {}})"_json);
  const std::vector<Object> events = cluster.store.list("events");
  REQUIRE(events.size() == 1);
  json event = *events[0];
  event.erase("metadata");
  json about = R"({"apiVersion": "v1", "kind": "Event", "reason": "SuccessfulCreate", "type": "Normal",
      "involvedObject": {"kind": "Job", "namespace": "default", "name": "j", "apiVersion": "batch/v1"},
      "count": 1, "firstTimestamp": "2026-11-21T12:00:05Z", "lastTimestamp": "2026-11-21T12:00:05Z",
      "eventTime": null, "source": {"component": "job-controller"},
      "reportingComponent": "job-controller", "reportingInstance": "local"})"_json;
  about["message"] = "Created pod: " + name;
  about["involvedObject"]["uid"] = uid;
  CHECK(event == about);
}

TEST_CASE("step_jobs() writes nothing if no Job needs a change") {
  Cluster cluster;
  cluster.send("POST", jobs, job_named("j"));
  step_jobs(cluster.store, noon);
  const std::uint64_t before = cluster.store.revision();
  CHECK_FALSE(step_jobs(cluster.store, noon + seconds(1)));
  CHECK(cluster.store.revision() == before);
}

TEST_CASE("step_jobs() stores an event when a Job ends") {
  Cluster cluster;
  cluster.send("POST", jobs, job_named("j", {{"activeDeadlineSeconds", 5}, {"completions", 0}}));
  for (int i = 0; i < 2; ++i) step_jobs(cluster.store, noon);
  std::vector<std::string> said;
  for (const Object& event : cluster.store.list("events"))
    said.push_back(event->at("type").get<std::string>() + " " + event->at("reason").get<std::string>() + " " +
                   event->at("message").get<std::string>() + " " +
                   event->at("reportingComponent").get<std::string>() + " " +
                   event->at("firstTimestamp").get<std::string>());
  CHECK(said ==
        std::vector<std::string>{"Normal Completed Job completed job-controller 2026-11-21T12:00:00Z"});
}

TEST_CASE("a Job ignores a pod that it does not control, and the pod keeps its finalizers") {
  Cluster cluster;
  const json made = cluster.ask(
      "POST", jobs, job_named("j", {{"completions", 1}, {"parallelism", 1}, {"backoffLimitPerIndex", 2}}));
  const json uid = made.at("metadata").at("uid");
  const json owners[] = {{{"kind", "Job"}, {"uid", uid}, {"controller", false}},
                         {{"kind", "Job"}, {"uid", uid}},
                         {{"kind", "ConfigMap"}, {"uid", uid}, {"controller", true}},
                         {{"uid", uid}, {"controller", true}}};
  int number = 0;
  for (const json& owner : owners) {
    json pod = held_pod("alien-" + std::to_string(++number), owner);
    pod["metadata"]["annotations"] = {{"batch.kubernetes.io/job-completion-index", "0"}};
    cluster.store.create("pods", pod);
  }
  step_jobs(cluster.store, noon);
  CHECK(cluster.ask("GET", jobs + "/j").at("status").at("active") == 1);
  CHECK(cluster.store.list("pods").size() == 5);
  for (int i = 1; i <= number; ++i) CHECK(finalizers_of(cluster, "alien-" + std::to_string(i)).size() == 2);
}

TEST_CASE("a pod with two Jobs as owners belongs to the Job that is its controller") {
  Cluster cluster;
  json pod = held_pod("p", {{"kind", "Job"}, {"uid", "other"}});
  pod["metadata"]["ownerReferences"].push_back({{"kind", "Job"}, {"uid", "gone"}, {"controller", true}});
  cluster.store.create("pods", pod);
  step_jobs(cluster.store, noon);
  CHECK(finalizers_of(cluster, "p") == json{"x.io/f"});
}

TEST_CASE("a pod loses the finalizer of its Job, and no other finalizer, if the Job is deleted") {
  Cluster cluster;
  cluster.store.create("pods", held_pod("orphan", {{"kind", "Job"}, {"uid", "gone"}, {"controller", true}}));
  json left = held_pod("left", json::object());  // its Job was deleted with --cascade=orphan
  left["metadata"]["ownerReferences"] = json::array();
  cluster.store.create("pods", left);
  json going = job(1);
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  going["metadata"]["finalizers"] = {"foregroundDeletion"};
  cluster.store.create("jobs", going);
  const json owner = {{"kind", "Job"}, {"uid", "job-uid"}, {"controller", true}};
  cluster.store.create("pods", held_pod("own", owner));
  json alone = held_pod("alone", owner);
  alone["metadata"]["finalizers"] = {"batch.kubernetes.io/job-tracking"};
  cluster.store.create("pods", alone);
  CHECK_FALSE(step_jobs(cluster.store, noon));
  CHECK(finalizers_of(cluster, "orphan") == json{"x.io/f"});
  CHECK(finalizers_of(cluster, "left") == json{"x.io/f"});
  CHECK(finalizers_of(cluster, "own") == json{"x.io/f"});
  CHECK_FALSE(stored_pod(cluster, "alone").at("metadata").contains("finalizers"));
  CHECK(cluster.store.list("pods").size() == 4);  // the Job creates no pods
  CHECK(*cluster.store.get("jobs", "default", "j") == [&] {
    json same = going;
    same["metadata"]["resourceVersion"] =
        cluster.store.get("jobs", "default", "j")->at("metadata").at("resourceVersion");
    return same;
  }());
}

TEST_CASE("step_jobs() gives a removed pod its grace period if the pod has a node") {
  Cluster cluster;
  cluster.send("POST", jobs, job_named("j", {{"completions", 4}, {"parallelism", 4}}));
  step_jobs(cluster.store, noon);
  const json list = cluster.ask("GET", pods).at("items");
  REQUIRE(list.size() == 4);
  const auto name = [&](std::size_t i) { return list[i].at("metadata").at("name").get<std::string>(); };
  cluster.store.modify("pods", "default", name(0), [](json& pod) {
    pod["spec"]["nodeName"] = "local";
    pod["spec"]["terminationGracePeriodSeconds"] = 7;
  });
  cluster.store.modify("pods", "default", name(1), [](json& pod) {
    pod["spec"]["nodeName"] = "local";
    pod["spec"].erase("terminationGracePeriodSeconds");
  });
  cluster.store.modify("pods", "default", name(2), [](json& pod) {
    pod["spec"]["nodeName"] = "local";
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:03Z";
    pod["metadata"]["deletionGracePeriodSeconds"] = 3;
  });
  cluster.send("PATCH", jobs + "/j", {{"spec", {{"suspend", true}}}}, "application/merge-patch+json");
  step_jobs(cluster.store, noon + seconds(1));
  const auto seen = [&](std::size_t i) {
    const json pod = stored_pod(cluster, name(i));
    const json& metadata = pod.at("metadata");
    return json{metadata.at("deletionTimestamp"), metadata.at("deletionGracePeriodSeconds"),
                pod.at("status").at("phase"), metadata.contains("finalizers")};
  };
  CHECK(seen(0) == json{"2026-11-21T12:00:08Z", 7, "Pending", false});
  CHECK(seen(1) == json{"2026-11-21T12:00:31Z", 30, "Pending", false});
  CHECK(seen(2) == json{"2026-11-21T12:00:03Z", 3, "Pending", false});
  CHECK_FALSE(cluster.store.find("pods", "default", name(3)));  // the Job released and then removed it
}

TEST_CASE("step_jobs() handles the other Jobs if one Job has an invalid spec") {
  Cluster cluster;
  json broken = job(1);
  broken["metadata"]["name"] = "a-broken";
  broken["spec"].erase("completions");
  cluster.store.create("jobs", broken);
  cluster.send("POST", jobs, job_named("z"));
  step_jobs(cluster.store, noon);
  CHECK(cluster.store.list("pods").size() == 2);
}

TEST_CASE("step_jobs() deletes a finished Job at the end of its time to live, and returns this time") {
  const char* time = "2026-11-21T11:59:50Z";
  for (const char* type : {"Complete", "Failed"}) {
    const Folder folder;
    Store store(folder.path());
    store_ended(
        store, "j",
        {condition_of("FailureTarget", "True", "2026-11-21T11:00:00Z"), condition_of(type, "True", time)},
        15);
    CHECK(step_jobs(store, noon) == noon + seconds(5));
    CHECK(step_jobs(store, noon + seconds(4)) == noon + seconds(5));
    CHECK(store.find("jobs", "default", "j"));
    CHECK_FALSE(step_jobs(store, noon + seconds(5)));
    CHECK_FALSE(store.find("jobs", "default", "j"));
    CHECK(store.list("pods").empty());
  }
}

TEST_CASE("a finished Job is kept no longer than its time to live, even if the clock was set back") {
  const Folder folder;
  Store store(folder.path());
  store_ended(store, "j", json::array({condition_of("Complete", "True", "2037-01-01T00:00:00Z")}), 15);
  (void)step_jobs(store, noon);
  CHECK(step_jobs(store, noon + seconds(1)) == noon + seconds(15));
  CHECK(store.find("jobs", "default", "j"));
  CHECK_FALSE(step_jobs(store, noon + seconds(15)));
  CHECK_FALSE(store.find("jobs", "default", "j"));
}

TEST_CASE("a finished Job without a time to live or without an end time is kept, and creates no pods") {
  const Folder folder;
  Store store(folder.path());
  const json time = "2026-11-21T11:00:00Z";
  store_ended(store, "a", json::array({condition_of("Complete", "True", time)}), nullptr);
  store_ended(store, "b", json::array({condition_of("Complete", "True", nullptr)}), 1);
  store_ended(store, "c", json::array({condition_of("Failed", "True", "soon")}), 1);
  CHECK_FALSE(step_jobs(store, noon));
  CHECK(store.list("jobs").size() == 3);
  CHECK(store.list("pods").empty());
  CHECK(store.list("events").empty());
}

TEST_CASE("step_jobs() returns the earliest time at which a Job needs the next step") {
  for (const auto& [first, second] : {std::pair(20, 10), {10, 20}}) {
    const Folder folder;
    Store store(folder.path());
    int number = 0;
    for (const int ttl : {first, second})
      store_ended(store, "j" + std::to_string(++number),
                  json::array({condition_of("Complete", "True", "2026-11-21T12:00:00Z")}), ttl);
    CHECK(step_jobs(store, noon) == noon + seconds(10));
    json limited = job(0, {{"activeDeadlineSeconds", 3603}, {"completions", 1}});
    limited["metadata"]["name"] = "a";
    store.create("jobs", limited);
    CHECK(step_jobs(store, noon) == noon + seconds(3));
  }
}

}  // namespace
}  // namespace mlk::local
