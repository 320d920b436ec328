// Tests that a record is written from a status, read back, and used for facts of pods that are gone.
#include "cli/run/state/record.h"

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/state/record");

namespace mlk {
namespace {

using test::Fixture;
using test::load;

// Writes the record of the status into the owner.
void write_into(nlohmann::json& owner, const RunStatus& status) { owner.merge_patch(record_patch(status)); }

TEST_CASE("the record of an ended run gives the same status when all other objects of the run are gone") {
  for (const char* name : {"failed_exit_code", "succeeded", "failed_oom"}) {
    Fixture fixture = load(name);
    const RunStatus before = fixture.observed();
    write_into(fixture.objects.owner, before);
    fixture.objects.jobs.clear();
    fixture.objects.pods.clear();
    fixture.objects.events.clear();
    const RunStatus after = fixture.observed();
    CHECK(to_record(after) == to_record(before));
    CHECK(exit_code(after) == exit_code(before));
  }
}

TEST_CASE("the end of a run can be read from the metadata of its owner") {
  Fixture fixture = load("failed_exit_code");
  const RunStatus before = fixture.observed();
  write_into(fixture.objects.owner, before);
  fixture.objects.owner.erase("data");
  fixture.objects.jobs.clear();
  fixture.objects.pods.clear();
  const RunStatus after = fixture.observed();
  CHECK(after.phase == Phase::failed);
  CHECK(after.why == before.why);
  CHECK(fixture.objects.owner["metadata"]["annotations"][annotations::phase] == "Failed");
}

TEST_CASE("a resumed run still shows the result from the record of its stop") {
  Fixture fixture = load("stopped");
  RunStatus stopped = fixture.observed();
  stopped.result = {{"schema", 1}, {"step", 70}};
  stopped.restarts = 2;
  write_into(fixture.objects.owner, stopped);
  CHECK(fixture.observed().phase == Phase::stopped);
  CHECK(fixture.observed().result["step"] == 70);
  fixture.objects.owner["metadata"]["annotations"].erase(annotations::stopped);
  fixture.objects.jobs[0]["spec"]["suspend"] = false;
  const RunStatus resumed = fixture.observed();
  CHECK(resumed.phase == Phase::scheduling);
  CHECK(resumed.result["step"] == 70);
  CHECK(resumed.restarts == 2);
}

TEST_CASE("if a rank still ran at the time of the record, it is shown with its later end") {
  Fixture fixture = load("succeeded");
  const RunStatus early = fixture.observed();
  REQUIRE(early.ranks.back().state == "Running");  // servers end after the workers
  write_into(fixture.objects.owner, early);
  for (nlohmann::json& pod : fixture.objects.pods) pod["status"]["phase"] = "Succeeded";
  CHECK(fixture.observed().ranks.back().state == "Succeeded");
  CHECK(fixture.observed().phase == Phase::succeeded);

  fixture.objects.pods.clear();
  for (nlohmann::json& job : fixture.objects.jobs) {
    if (job["metadata"]["labels"][labels::role] == "server") job["status"]["completedIndexes"] = "0";
  }
  CHECK(fixture.observed().ranks.back().state == "Succeeded");
  CHECK(fixture.observed().ranks.back().node == early.ranks.back().node);
}

TEST_CASE("a rank has not failed if its Job removed it at the end") {
  Fixture fixture = load("succeeded");
  nlohmann::json* job = nullptr;
  for (nlohmann::json& each : fixture.objects.jobs) {
    if (each["metadata"]["labels"][labels::role] == "worker") job = &each;
  }
  REQUIRE(job);
  (*job)["status"]["completedIndexes"] = "0";
  nlohmann::json first, second;
  std::vector<nlohmann::json> others;
  for (const nlohmann::json& pod : fixture.objects.pods) {
    const bool worker_1 = pod["metadata"]["name"].get<std::string>().find("-worker-1-") != std::string::npos;
    (worker_1 ? first : others.emplace_back()) = pod;
  }
  REQUIRE(first.is_object());
  first["status"]["phase"] = "Failed";
  second = first;
  second["metadata"]["name"] = "ok-aaaaa-worker-1-later";
  second["metadata"]["uid"] = "later";
  second["metadata"]["creationTimestamp"] = "2026-11-21T08:09:34Z";
  second["metadata"]["deletionTimestamp"] = "2026-11-21T08:09:36Z";
  fixture.objects.pods = others;
  fixture.objects.pods.push_back(first);
  fixture.objects.pods.push_back(second);
  const auto worker_1 = [&] { return fixture.observed().ranks.at(1); };
  REQUIRE(worker_1().role == "worker");
  CHECK(worker_1().state == "Missing");
  CHECK(worker_1().reason == "removed by its Job, which had succeeded");
  CHECK(worker_1().restarts == 1);

  write_into(fixture.objects.owner, fixture.observed());
  fixture.objects.pods.pop_back();
  CHECK(worker_1().restarts == 1);
}

TEST_CASE("a value that is not a record is ignored") {
  Fixture fixture = load("running");
  for (const char* text : {"", "{", "[]", "3", R"({"schema":2,"phase":"Failed"})",
                           R"({"schema":1,"phase":"Done"})", R"({"schema":1,"phase":3,"ranks":{"a":1}})"}) {
    fixture.objects.owner["data"]["record"] = text;
    CHECK(fixture.observed().phase == Phase::running);
  }
}

TEST_CASE("JSON that is nested too deeply is not a record, a result or an experiment") {
  // A stack overflow would end the `ls` of every user in the namespace because of one such object.
  constexpr std::size_t depth = 120'000;
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  for (const char* name : {"running", "failed_exit_code", "succeeded"}) {
    Fixture fixture = load(name);
    const Phase phase = fixture.observed().phase;
    const std::string record = R"({"schema":1,"phase":"Stopped","result":{"a":)" + deep + "}}";
    fixture.objects.owner["metadata"]["annotations"][annotations::summary] = record;
    fixture.objects.owner["metadata"]["annotations"][annotations::roles] = deep;
    fixture.objects.owner["data"]["record"] = record;
    fixture.objects.owner["data"]["experiment"] = deep;
    for (nlohmann::json& pod : fixture.objects.pods) {
      for (nlohmann::json& status : pod["status"]["containerStatuses"]) {
        if (status["state"].contains("terminated"))
          status["state"]["terminated"]["message"] = R"({"schema":1,"x":)" + deep + "}";
      }
    }
    const RunStatus observed = fixture.observed();
    CHECK(observed.phase == phase);
    CHECK_FALSE(json_text(to_json(observed)).empty());
  }
}

TEST_CASE("a record can be written with last words that are not UTF-8") {
  RunStatus status = load("failed_exit_code").observed();
  status.first_failure->message = "\xff\xfe";
  CHECK_NOTHROW(record_patch(status));
}

}  // namespace
}  // namespace mlk
