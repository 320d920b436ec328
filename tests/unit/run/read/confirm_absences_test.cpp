// Tests the second list of Jobs before a Job counts as gone, and the names of Jobs that an owner stores.
#include "cli/run/read/confirm_absences.h"

#include <algorithm>
#include <mutex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/deciding_job.h"
#include "cli/run/facts/labels.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("run/read/confirm_absences");

namespace mlk {
namespace {

using json = nlohmann::json;

json owner_that_made(const std::string& run, const std::string& jobs, const std::string& gone = "") {
  json owner = {
      {"metadata", {{"name", run}, {"uid", "uid-" + run}, {"annotations", {{annotations::created, jobs}}}}}};
  if (!gone.empty()) owner["metadata"]["annotations"][annotations::gone] = gone;
  return owner;
}

// A server that lists these Jobs, and records all lists and patches.
struct ListedJobs {
  json jobs = json::array();
  std::mutex mutex;
  std::vector<std::string> lists, patches;
  FakeServer server;

  ListedJobs() {
    server.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      lists.push_back(request.get_param_value("labelSelector"));
      answer(response, 200, json{{"items", jobs}}.dump());
    });
    server.http->Patch(".*", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      const json patch = json::parse(request.body);
      patches.push_back(patch["metadata"]["uid"].get<std::string>() + " " +
                        patch["metadata"]["annotations"][annotations::gone].get<std::string>());
      answer(response, 200, "{}");
    });
  }
};

std::string gone_of(const json& owner) {
  return owner["metadata"]["annotations"].value(annotations::gone, "");
}

TEST_CASE("confirm_absences() marks a Job as gone if two lists lack it") {
  ListedJobs cluster;
  cluster.jobs = {{{"metadata", {{"name", "b"}}}}, {{"metadata", {{"name", "other"}}}}};
  kube::Client client(cluster.server.start());
  json owner = owner_that_made("r", "a,b,c,d", "c");
  std::vector<json> jobs = {{{"metadata", {{"name", "d"}}}}};
  CHECK(confirm_absences(client, "lab", {&owner}, jobs) == std::vector<std::string>{"b"});
  CHECK(jobs.size() == 2);
  CHECK(gone_of(owner) == "c,a");
  CHECK(cluster.lists == std::vector<std::string>{"mlk.dev/run=r"});
  CHECK(cluster.patches == std::vector<std::string>{"uid-r c,a"});
  // The owner now records the Job as gone, so no second list is needed.
  CHECK(confirm_absences(client, "lab", {&owner}, jobs).empty());
  CHECK(cluster.lists.size() == 1);
}

TEST_CASE("confirm_absences() writes at most 64 marks to the cluster even if more Jobs are missing") {
  ListedJobs cluster;
  kube::Client client(cluster.server.start());
  std::vector<json> owners;
  for (int i = 0; i < 66; ++i)
    owners.push_back(owner_that_made("r" + std::to_string(i), "job" + std::to_string(i)));
  std::vector<json*> all;
  for (json& owner : owners) all.push_back(&owner);
  std::vector<json> jobs = {{{"metadata", {{"name", "job65"}}}}};
  CHECK(confirm_absences(client, "lab", all, jobs).empty());
  CHECK(cluster.lists == std::vector<std::string>{"mlk.dev/run"});
  CHECK(cluster.patches.size() == 64);
  CHECK(std::count_if(owners.begin(), owners.end(),
                      [](const json& owner) { return !gone_of(owner).empty(); }) == 65);
  CHECK(gone_of(owners[65]).empty());
}

TEST_CASE("the names of Jobs in an annotation are separated by commas") {
  using Listed = std::vector<std::string>;
  CHECK(jobs_made(owner_that_made("r", "a,b")) == Listed{"a", "b"});
  CHECK(jobs_made(owner_that_made("r", ",a,,b,")) == Listed{"a", "b"});
  CHECK(jobs_made(owner_that_made("r", ",")).empty());
  CHECK(jobs_made(json::object()).empty());
  CHECK(jobs_found_gone(owner_that_made("r", "a", "x,y")) == Listed{"x", "y"});
  CHECK(jobs_found_gone(owner_that_made("r", "a")).empty());
}

TEST_CASE("the deciding Job has the mark, a success policy or the role `worker`") {
  const auto decides = [](const std::string& role, const char* mark, bool policy) {
    json job = {{"kind", "Job"},
                {"apiVersion", "batch/v1"},
                {"metadata", {{"name", "r-" + role}, {"labels", {{"mlk.dev/role", role}}}}},
                {"spec", json::object()}};
    if (mark != nullptr) job["metadata"]["annotations"][annotations::decides] = mark;
    if (policy) job["spec"]["successPolicy"] = json::object();
    return name_of_deciding_job({job});
  };
  CHECK(decides("a", nullptr, false) == "");
  CHECK(decides("a", "true", false) == "r-a");
  CHECK(decides("a", "false", false) == "");
  CHECK(decides("a", nullptr, true) == "r-a");
  CHECK(decides("worker", nullptr, false) == "r-worker");
  CHECK(name_of_deciding_job({}) == "");
}

TEST_CASE("is_job() accepts only Jobs of batch/v1") {
  CHECK(is_job({{"kind", "Job"}, {"apiVersion", "batch/v1"}}));
  CHECK_FALSE(is_job({{"kind", "Job"}, {"apiVersion", "batch/v1beta1"}}));
  CHECK_FALSE(is_job({{"kind", "CronJob"}, {"apiVersion", "batch/v1"}}));
  CHECK_FALSE(is_job(json::object()));
}

}  // namespace
}  // namespace mlk
