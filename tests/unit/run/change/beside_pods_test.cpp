// Tests a submit of a run whose Job was deleted while its pods still run. No training starts beside these
// pods.
#include <set>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "cli/run/facts/pods_left.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/change/beside_pods");

namespace {

using mlk::Error;
using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::test::Submitter;
using nlohmann::json;

// A run that has only its running pod left. The node ends a pod when the test requests it.
struct BesidePods : Submitter {
  const std::string pods = mlk::test::pods_path + "/";
  std::string run, pod;
  std::vector<std::string> done;  // the deletions and ends of pods, and the creations of Jobs, in order

  BesidePods() {
    run = submit().run;
    const json made = mlk::test::pod_of(run, "Running");
    pod = made.at("metadata").at("name");
    cluster.store.create("pods", made);
    cluster.store.remove("jobs", "default", run + "-worker");
    cluster.before([this](const mlk::local::Request& request) {
      if (request.method == "DELETE" && request.path.starts_with(pods))
        done.push_back("end " + request.path.substr(pods.size()));
      if (request.method == "POST" && request.path.ends_with("/jobs")) done.push_back("make a Job");
      return std::nullopt;
    });
  }
  void end_pod() {
    cluster.store.modify("pods", "default", pod, [](json& object) { object["status"]["phase"] = "Failed"; });
    done.push_back("it has ended");
  }
  json metadata() const { return cluster.store.get("pods", "default", pod)->at("metadata"); }
};

using Doings = std::vector<std::string>;

}  // namespace

TEST_CASE("a submit without --again does not end the pods of a deleted Job") {
  BesidePods left;
  for (int i = 0; i < 2; ++i) {
    const mlk::Submitted again = left.submit();
    CHECK(again.outcome == SubmitOutcome::ended);
    CHECK(again.run == left.run);
    REQUIRE(again.status);
    CHECK(again.status->pods_left == 1);
    CHECK(again.status->why.ends_with("; one of its pods still runs; deleting the run ends it"));
  }
  CHECK(left.done.empty());
}

TEST_CASE("--again ends the pods of a deleted Job before it starts the new training") {
  BesidePods left;
  left.again = true;
  bool ends = false;
  left.cluster.before([&](const mlk::local::Request& request) {
    if (request.method == "GET" && request.path + "/" == left.pods && ends && left.done.size() == 1)
      left.end_pod();
    if (request.method == "DELETE" && request.path.starts_with(left.pods)) {
      left.done.push_back("end " + request.path.substr(left.pods.size()));
      ends = true;
    }
    if (request.method == "POST" && request.path.ends_with("/jobs")) left.done.push_back("make a Job");
    return std::nullopt;
  });
  const mlk::Submitted second = left.submit();
  CHECK(second.outcome == SubmitOutcome::created);
  CHECK(second.run == left.run + "-2");
  CHECK(left.done == Doings{"end " + left.pod, "it has ended", "make a Job"});
  CHECK(left.notes == std::vector<std::string>{"ending a pod of run " + left.run +
                                               ", whose Job is gone, and waiting for its end"});
}

TEST_CASE("--again sends no second delete request for a pod that is already ending") {
  BesidePods left;
  left.again = true;
  left.cluster.store.modify("pods", "default", left.pod, [](json& object) {
    object["metadata"]["deletionTimestamp"] = "2099-01-01T00:00:00Z";
    object["metadata"]["finalizers"] = {"test/held"};
  });
  left.on_note = [&](const std::string&) { left.end_pod(); };
  CHECK(left.submit().run == left.run + "-2");
  CHECK(left.done == Doings{"it has ended", "make a Job"});
}

TEST_CASE("--again starts no training if its wait for the pods of a deleted Job is interrupted") {
  BesidePods left;
  left.again = true;
  left.on_note = [&](const std::string&) { left.interrupted = true; };
  CHECK(left.refused().first == ExitCode::interrupted);
  CHECK(left.done == Doings{"end " + left.pod});
  CHECK_FALSE(left.cluster.has("configmaps", left.run + "-2"));
}

TEST_CASE("--again fails if the user may not delete the pods of a deleted Job") {
  BesidePods left;
  left.again = true;
  left.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "DELETE") return mlk::test::refusal(403, "Forbidden", "not for you");
    return std::nullopt;
  });
  CHECK(left.refused().second.find("not for you") != std::string::npos);
  CHECK_FALSE(left.cluster.has("configmaps", left.run + "-2"));
}

TEST_CASE("a dry run of --again says that it would end pods, but ends none") {
  BesidePods left;
  left.again = left.dry_run = true;
  CHECK(left.submit().run == left.run + "-2");
  CHECK(left.notes.front() == "pods of run " + left.run + " would be ended first: their Job is gone");
  CHECK_FALSE(left.metadata().contains("deletionTimestamp"));
}

TEST_CASE("--again deletes neither ended pods nor pods of other runs") {
  BesidePods left;
  left.again = true;
  left.end_pod();
  left.cluster.store.create("pods", mlk::test::pod_of("other", "Running"));
  CHECK(left.submit().run == left.run + "-2");
  CHECK(left.done == Doings{"it has ended", "make a Job"});
  CHECK(left.notes.empty());
}

TEST_CASE("a submit does not make a missing Job again if pods of this Job still run") {
  for (const bool service_too : {false, true}) {
    BesidePods left;
    // A submit that was cut off before it could mark that all objects were made.
    left.cluster.store.modify("configmaps", "default", left.run, [](json& owner) {
      owner["metadata"]["annotations"].erase(mlk::annotations::created);
    });
    if (service_too) left.cluster.store.remove("services", "default", left.run);
    CHECK(left.submit().outcome == (service_too ? SubmitOutcome::completed : SubmitOutcome::running));
    CHECK(left.done.empty());
    CHECK(left.cluster.has("services", left.run));
    // The submit has set the mark on the owner, so the missing Job now counts as gone.
    CHECK(left.submit().outcome == SubmitOutcome::ended);
    CHECK(left.done.empty());
  }
}

TEST_CASE("the error for an object without its owner says how to delete the object") {
  BesidePods left;
  left.cluster.store.modify("services", "default", left.run,
                            [](json& service) { service["metadata"].erase("ownerReferences"); });
  left.cluster.store.remove("configmaps", "default", left.run);
  try {
    left.submit();
    FAIL("is created");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::failure);
    CHECK(std::string(error.what()) == "service/" + left.run + " exists and belongs to something else");
    CHECK(error.hint() ==
          "the object is left from an earlier run: only the ConfigMap of this run was deleted; delete the "
          "rest with: mlk delete " +
              left.run);
  }
  CHECK_FALSE(left.cluster.has("configmaps", left.run));
  CHECK(left.done.empty());
}
