// Tests the status of the driver of a sweep.
#include "sweeps/trials/driver_status.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/trials/driver_status");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char driver_job[] = "s-abcde-driver";

// The Jobs of drivers and their pods.
struct Drivers {
  SweepObjects objects;

  void add_job(const std::string& name = driver_job, bool finished = false) {
    json job = test::job_of("s-abcde", "driver");
    job["metadata"]["name"] = name;
    job["metadata"]["uid"] = "uid-of-" + name;
    if (finished) job["status"] = {{"conditions", {{{"type", "Complete"}, {"status", "True"}}}}};
    objects.drivers.push_back(job);
  }
  json& add_pod(const std::string& phase, const std::string& job = driver_job, int second = 0) {
    json pod = test::pod_of("s-abcde", phase, "driver");
    pod["metadata"]["name"] = job + "-" + phase + std::to_string(second);
    pod["metadata"]["uid"] = job + phase + std::to_string(second);
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = job;
    pod["metadata"]["creationTimestamp"] = "2026-11-23T10:00:0" + std::to_string(second) + "Z";
    if (phase == "Running")
      pod["status"]["containerStatuses"] = {
          {{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-11-23T10:00:00Z"}}}}}}};
    objects.driver_pods.push_back(pod);
    return objects.driver_pods.back();
  }
  void add_failed(const std::string& words, int second = 0) {
    add_pod("Failed", driver_job, second)["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"terminated", {{"exitCode", 4}, {"message", words}}}}}}};
  }
  DriverStatus status() const { return observe_driver(objects, std::chrono::system_clock::now()); }
};

}  // namespace

TEST_CASE("observe_driver() finds no driver in a sweep without a driver's Job") {
  const DriverStatus none = Drivers().status();
  CHECK(none.what == "");
  CHECK_FALSE(none.goes_on);
  CHECK_FALSE(none.runs);
}

TEST_CASE("the status of a driver says whether it is being started, runs, or has ended") {
  Drivers drivers;
  drivers.add_job();
  CHECK(drivers.status().what == "is being started");
  CHECK(drivers.status().goes_on);
  CHECK_FALSE(drivers.status().runs);
  drivers.add_pod("Pending");
  CHECK(drivers.status().what == "is being started");
  drivers.add_pod("Running", driver_job, 1);
  CHECK(drivers.status().what == "runs in the cluster");
  CHECK(drivers.status().runs);
  drivers.add_pod("Succeeded", driver_job, 2);
  CHECK(drivers.status().what == "has ended");
  CHECK_FALSE(drivers.status().runs);
  CHECK(drivers.status().goes_on);  // its Job does not show the end yet
}

TEST_CASE("the status of a driver comes from its newest pod, in whatever order the pods are listed") {
  Drivers drivers;
  drivers.add_job();
  drivers.add_pod("Running", driver_job, 5);
  drivers.add_failed("mlk: error: no room", 3);
  CHECK(drivers.status().what == "runs in the cluster");
  drivers.add_pod("Running", "other", 7);  // a pod of another Job
  drivers.add_failed("mlk: error: no room", 6);
  CHECK(drivers.status().what == "failed: no room");
}

TEST_CASE("the status of a driver has the reason if the driver cannot start") {
  Drivers drivers;
  drivers.add_job();
  drivers.add_pod("Pending")["status"] = {
      {"phase", "Pending"},
      {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}},
      {"containerStatuses",
       {{{"name", "main"},
         {"state", {{"waiting", {{"reason", "InvalidImageName"}, {"message", "no such name"}}}}}}}}};
  CHECK(drivers.status().what.starts_with("is not started: "));
  CHECK(drivers.status().what.find("invalid image name") != std::string::npos);
  drivers.objects.driver_pods.clear();
  drivers.objects.events = {
      {{"type", "Warning"},
       {"reason", "FailedCreate"},
       {"message", "pods \"x\" is forbidden: exceeded quota: few"},
       {"lastTimestamp", "2026-11-23T10:00:00Z"},
       {"involvedObject",
        {{"kind", "Job"}, {"name", driver_job}, {"uid", std::string("uid-of-") + driver_job}}}}};
  CHECK(drivers.status().what.starts_with("is not started: "));
  CHECK(drivers.status().what.find("few") != std::string::npos);
}

TEST_CASE("the status of a failed driver quotes mlk's last error, or else its last output") {
  const auto words = [](const std::string& said) {
    Drivers drivers;
    drivers.add_job();
    drivers.add_failed(said);
    return drivers.status().what;
  };
  CHECK(words("driving x\nmlk: error: may not create jobs\nhint: ask\n") == "failed: may not create jobs");
  CHECK(words("mlk: error: first\nmlk: error: second\nhint: ask") == "failed: second");
  CHECK(words("mlk: error: a\x1b[1mb") == "failed: a?[1mb");
  CHECK(words("sh: mlk: not found") == "failed: exit code 4: sh: mlk: not found");
  CHECK(words("it said mlk: error: x").find("failed: exit code 4") == 0);
}

TEST_CASE("the status of an ended driver comes from its Job if its pods are gone") {
  Drivers drivers;
  drivers.add_job(driver_job, true);
  CHECK(drivers.status().what == "has ended");
  CHECK_FALSE(drivers.status().goes_on);
  drivers.add_pod("Pending");
  CHECK(drivers.status().what == "has ended");
  drivers.add_failed("mlk: error: no room", 1);
  CHECK(drivers.status().what == "failed: no room");
}

TEST_CASE("observe_driver() finds out from the Lease whether anybody drives the sweep") {
  const Time now = *parse_time("2026-11-23T10:10:00Z");
  const auto gone = [&](const json& lease, const char* created = "2026-11-23T10:00:00Z") {
    SweepObjects objects;
    objects.owner = {{"metadata", {{"creationTimestamp", created}}}};
    objects.lease = lease;
    return observe_driver(objects, now).gone;
  };
  const auto held = [](const char* holder, const char* renewed) {
    return json{{"spec", {{"holderIdentity", holder}, {"renewTime", renewed}}}};
  };
  CHECK(observe_driver({}, now).gone == "");
  CHECK(gone(held("desk-7-ab", "2026-11-23T10:09:56.000000Z")) == "");
  CHECK(gone(held("desk-7-ab", "2026-11-23T10:09:00.000000Z")) == "");
  CHECK(gone(held("desk-7-ab", "2026-11-23T10:08:59.000000Z")) ==
        "nobody drives it: its driver desk-7-ab was last heard of 1m1s ago");
  CHECK(gone(held("desk-7-ab", "2026-11-23T10:20:00.000000Z")) == "");  // clocks differ
  CHECK(gone(held("desk-7-ab", "")) == "");
  CHECK(gone(held("", "2026-11-23T10:09:59.000000Z")) ==
        "nobody drives it");  // the driver has released the Lease
  CHECK(gone(json()) == "nobody drives it");
  CHECK(gone(json(), "2026-11-23T10:09:30Z") == "");  // a driver may still acquire the Lease
  Drivers drivers;
  drivers.add_job();
  drivers.objects.lease = held("", "2026-11-23T10:00:00.000000Z");
  CHECK(drivers.status().gone == "");  // the cluster will start a driver
  drivers.objects.drivers.clear();
  CHECK(drivers.status().gone == "nobody drives it");
}

TEST_CASE("the status of a sweep with several drivers describes the driver that runs or is being started") {
  for (const bool first : {true, false}) {
    INFO(first);
    Drivers drivers;
    drivers.add_job(first ? "a" : "b", false);
    drivers.add_job(first ? "b" : "a", true);
    CHECK(drivers.status().goes_on);
    CHECK(drivers.status().what == "is being started");
    drivers.objects.drivers.pop_back();
    drivers.add_job(first ? "b" : "a", false);
    drivers.add_pod("Running", first ? "a" : "b");
    CHECK(drivers.status().runs);
    CHECK(drivers.status().what == "runs in the cluster");
  }
}
