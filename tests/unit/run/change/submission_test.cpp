// Tests submits to a simulated cluster that are cut off, refused or repeated, or meet objects being deleted.
#include "cli/run/change/submission.h"

#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/change/submission");

namespace {

using mlk::Error;
using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::Submitted;
using mlk::test::FakeCluster;
using mlk::test::one_worker;
using mlk::test::Submitter;
using nlohmann::json;

const auto invalid = mlk::test::refusal(422, "Invalid", "the Job is invalid");

}  // namespace

TEST_CASE("a submit creates no object if the cluster does not serve one of the kinds") {
  Submitter submitter;
  submitter.templates.add("jobs/mine.yaml",
                          {"roles: [{name: a, ends_run: true}]\n"
                           "objects: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}}]\n",
                           "mine.yaml"});
  submitter.experiment = mlk::load_experiment("name: x\nmode: mine\nimage: i\nrun: a\n", "x.yaml", {},
                                              submitter.templates.names());
  bool wrote = false;
  submitter.cluster.before([&](const mlk::local::Request& request) {
    wrote = wrote || request.method != "GET";
    return std::nullopt;
  });
  CHECK(submitter.refused() ==
        std::pair(ExitCode::cannot_start,
                  std::string("mine.yaml makes PersistentVolumeClaim x of apiVersion v1, "
                              "which the cluster does not serve")));
  CHECK(!wrote);
}

TEST_CASE("a template may make objects of any kind that the cluster serves") {
  Submitter submitter;
  submitter.with_objects(
      "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: \"${run}-a\"}},"
      "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: \"${run}-b\"}}");
  int asked = 0;
  submitter.cluster.before([&](const mlk::local::Request& request) {
    asked += request.path == "/apis/coordination.k8s.io/v1" ? 1 : 0;
    return std::nullopt;
  });
  const Submitted submitted = submitter.submit();
  CHECK(asked == 1);
  const auto owner = submitter.cluster.store.get("configmaps", "default", submitted.run);
  for (const char* name : {"-a", "-b"}) {
    const auto lease = submitter.cluster.store.get("leases", "default", submitted.run + name);
    CHECK(lease->at("metadata").at("ownerReferences").at(0).at("uid") == owner->at("metadata").at("uid"));
  }
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
}

TEST_CASE("two objects of the same kind but different apiVersions are looked up as two kinds") {
  Submitter submitter;
  submitter.with_objects("{apiVersion: serving.example.dev/v1, kind: Service, metadata: {name: x}}");
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::cannot_start);
  CHECK(what ==
        "mine.yaml makes Service x of apiVersion serving.example.dev/v1, which the cluster does not serve");
}

TEST_CASE("a submit says that a cluster-scoped object stays when the run is deleted") {
  Submitter submitter;
  submitter.with_objects("{apiVersion: v1, kind: Namespace, metadata: {name: \"${run}-room\"}}");
  const std::string run = submitter.submit().run;
  const auto owner = submitter.cluster.store.get("configmaps", "default", run);
  const auto room = submitter.cluster.store.get("namespaces", "", run + "-room");
  CHECK(!room->at("metadata").contains("ownerReferences"));
  CHECK(!room->at("metadata").contains("namespace"));
  CHECK(room->at("metadata").at("annotations").at("mlk.dev/owner") == owner->at("metadata").at("uid"));
  const std::string told = "namespace/" + run +
                           "-room is of the whole cluster and stays when the run is deleted; delete it with: "
                           "kubectl delete namespaces " +
                           run + "-room";
  CHECK(std::count(submitter.notes.begin(), submitter.notes.end(), told) == 1);
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
}

TEST_CASE("a submit deletes its new cluster-scoped object if a later object is refused") {
  Submitter submitter;
  submitter.with_objects(
      "{apiVersion: v1, kind: Namespace, metadata: {name: \"${run}-room\"}},"
      "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: \"${run}-a\"}}");
  std::vector<std::string> deleted;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "DELETE") deleted.push_back(request.path.substr(request.path.rfind('/')));
    if (request.method == "POST" && request.path.ends_with("/leases"))
      return mlk::test::refusal(422, "Invalid", "no");
    return std::nullopt;
  });
  CHECK(submitter.refused().first == ExitCode::cannot_start);
  REQUIRE(deleted.size() == 2);
  CHECK(deleted[0].ends_with("-room"));
  CHECK(deleted[0] == deleted[1] + "-room");
}

TEST_CASE("a submit creates every object of the run with the run's owner") {
  Submitter submitter;
  const Submitted submitted = submitter.submit();
  CHECK(submitted.outcome == SubmitOutcome::created);
  const auto owner = submitter.cluster.store.get("configmaps", "default", submitted.run);
  for (const char* plural : {"services", "jobs"}) {
    const auto objects = submitter.cluster.store.list(plural, "default");
    REQUIRE(objects.size() == 1);
    CHECK(objects.front()->at("metadata").at("ownerReferences").at(0).at("uid") ==
          owner->at("metadata").at("uid"));
  }
}

TEST_CASE("a second submit of the same run creates no objects") {
  Submitter submitter;
  const std::string run = submitter.submit().run;
  const std::string before = submitter.cluster.names("jobs") + submitter.cluster.names("configmaps");
  CHECK(submitter.submit().outcome == SubmitOutcome::running);
  submitter.cluster.store.modify("configmaps", "default", run, [](json& owner) {
    owner["metadata"]["annotations"][mlk::annotations::stopped] = "2026-11-22T12:00:00Z";
  });
  CHECK(submitter.submit().outcome == SubmitOutcome::stopped);
  submitter.cluster.store.modify("jobs", "default", run + "-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  CHECK(submitter.submit().outcome == SubmitOutcome::ended);
  CHECK(submitter.cluster.names("jobs") + submitter.cluster.names("configmaps") == before);
}

TEST_CASE("--again makes a new run if the newest run of the experiment has ended") {
  Submitter submitter;
  submitter.again = true;
  const std::string run = submitter.submit().run;
  CHECK(submitter.submit().run == run);
  submitter.cluster.store.modify("jobs", "default", run + "-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  CHECK(submitter.submit().run == run + "-2");
}

TEST_CASE("--again makes no new run if another program has resumed the stopped run") {
  Submitter submitter;
  submitter.again = true;
  const std::string run = submitter.submit().run;
  submitter.cluster.store.modify("configmaps", "default", run, [](json& owner) {
    owner["metadata"]["annotations"][mlk::annotations::stopped] = "2026-11-22T12:00:00Z";
  });
  const auto suspend = [&](bool suspended) {
    submitter.cluster.store.modify("jobs", "default", run + "-worker", [&](json& job) {
      job["metadata"]["annotations"][mlk::annotations::suspended] = "true";
      job["spec"]["suspend"] = suspended;
    });
  };
  suspend(false);
  const Submitted again = submitter.submit();
  CHECK(again.run == run);
  CHECK(again.outcome == SubmitOutcome::running);
  suspend(true);
  CHECK(submitter.submit().run == run + "-2");
}

TEST_CASE("a submit creates the missing objects of a run if an earlier submit was cut off") {
  Submitter submitter;
  const std::string run = submitter.cut_off();
  const Submitted submitted = submitter.submit();
  CHECK(submitted.run == run);
  CHECK(submitted.outcome == SubmitOutcome::completed);
  CHECK(submitter.cluster.has("jobs", run + "-worker"));
}

TEST_CASE("a submit that the cluster refuses leaves no objects behind") {
  Submitter submitter;
  submitter.refuse_creating("jobs", invalid);
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::cannot_start);
  CHECK_MESSAGE(what.ends_with("the Job is invalid"), what);
  CHECK(submitter.cluster.names("configmaps").empty());
}

TEST_CASE("a submit fails if another user's Service has the run's name") {
  Submitter submitter;
  std::string name;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/services") || !name.empty())
      return std::nullopt;
    name = json::parse(request.body).at("metadata").at("name");
    submitter.cluster.ask("POST", request.path,
                          {{"apiVersion", "v1"},
                           {"kind", "Service"},
                           {"metadata", {{"name", name}}},
                           {"spec", {{"clusterIP", "None"}}}});
    return std::nullopt;
  });
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "service/" + name + " exists and belongs to something else");
  CHECK(submitter.cluster.names("configmaps").empty());
  CHECK(submitter.cluster.has("services", name));
}

TEST_CASE("the existing objects of an incomplete run stay if its next submit is refused") {
  Submitter submitter;
  const std::string run = submitter.cut_off();
  submitter.refuse_creating("jobs", invalid);
  CHECK(submitter.refused().first == ExitCode::cannot_start);
  CHECK(submitter.cluster.has("configmaps", run));
}

TEST_CASE("if an object is being deleted, a submit waits until it is gone, and makes it again") {
  Submitter submitter;
  const std::string run = submitter.submit().run;
  const json first = submitter.cluster.store.get("services", "default", run)->at("metadata").at("uid");
  submitter.cluster.store.modify("services", "default", run, [](json& service) {
    service["metadata"]["finalizers"] = {"test/held"};
    service["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z";
  });
  submitter.on_note = [&](const std::string& note) {
    if (note == "waiting for service/" + run + " of an earlier run to be deleted")
      submitter.cluster.store.modify("services", "default", run,
                                     [](json& service) { service["metadata"].erase("finalizers"); });
  };
  CHECK(submitter.submit().outcome == SubmitOutcome::completed);
  CHECK(submitter.cluster.store.get("services", "default", run)->at("metadata").at("uid") != first);
}

TEST_CASE("if a run of the same name is being deleted, a submit waits until this run is gone") {
  Submitter submitter;
  const std::string run = submitter.submit().run;
  submitter.cluster.store.modify("configmaps", "default", run, [](json& owner) {
    owner["metadata"]["finalizers"] = {"test/held"};
    owner["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z";
  });
  submitter.on_note = [&](const std::string& note) {
    if (note != "waiting for " + run + " of an earlier run to be deleted") return;
    for (const auto& [plural, name] :
         std::map<std::string, std::string>{{"jobs", run + "-worker"}, {"services", run}})
      submitter.cluster.store.remove(plural, "default", name);
    submitter.cluster.store.modify("configmaps", "default", run,
                                   [](json& owner) { owner["metadata"].erase("finalizers"); });
  };
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  CHECK(submitter.notes.size() == 1);
}

TEST_CASE("a submit uses the run's owner even if the answer to the creation of the owner was lost") {
  Submitter submitter;
  int posts = 0;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/configmaps") || posts++ > 0)
      return std::nullopt;
    submitter.cluster.ask("POST", request.path, json::parse(request.body));
    return mlk::test::refusal(503, "ServiceUnavailable", "the answer is lost");
  });
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  CHECK(posts == 2);
}

TEST_CASE("a submit fails, and deletes nothing, if another user's ConfigMap has the run's name") {
  Submitter submitter;
  submitter.dry_run = true;
  const std::string run = submitter.submit().run;
  submitter.dry_run = false;
  submitter.cluster.ask("POST", mlk::test::config_maps_path,
                        {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", run}}}});
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "configmap/" + run + " exists and belongs to something else");
  CHECK(submitter.cluster.has("configmaps", run));
}

TEST_CASE("a submit fails and leaves no objects if the cluster drops a field") {
  Submitter submitter;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/jobs")) return std::nullopt;
    json job = json::parse(request.body);
    job["spec"].erase("podFailurePolicy");
    mlk::local::Answer answer;
    answer.status = 201;
    answer.body = submitter.cluster.ask("POST", request.path, job).dump();
    return answer;
  });
  const auto [code, what] = submitter.refused();
  CHECK(code == ExitCode::cannot_start);
  CHECK(what.find("the cluster dropped spec.podFailurePolicy") == 0);
  CHECK(submitter.cluster.names("configmaps").empty());
}

TEST_CASE("a POST without a clear answer is sent at most six times") {
  for (const int status : {429, 500, 503}) {
    Submitter submitter;
    int posts = 0;
    submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (request.method != "POST" || !request.path.ends_with("/jobs") || ++posts > 2) return std::nullopt;
      return mlk::test::refusal(status, "Whatever", "not now");
    });
    CHECK(submitter.submit().outcome == SubmitOutcome::created);
    CHECK(posts == 3);
    REQUIRE(submitter.notes.size() == 2);
    CHECK_MESSAGE(submitter.notes[0].starts_with("job/x-"), submitter.notes[0]);
    CHECK_MESSAGE(submitter.notes[0].ends_with("; trying again (2 of 6)"), submitter.notes[0]);
    CHECK_MESSAGE(submitter.notes[1].ends_with("; trying again (3 of 6)"), submitter.notes[1]);
  }
  Submitter submitter;
  submitter.refuse_creating("jobs", mlk::test::refusal(409, "Conflict", "the quota is being changed"));
  CHECK(submitter.refused().first == ExitCode::cluster);
  CHECK(submitter.notes.size() == 5);
  CHECK_FALSE(submitter.cluster.names("configmaps").empty());  // the next submit continues from here
}

TEST_CASE("the exit code of a refused submit depends on the HTTP status of the refusal") {
  const auto refused = [](int status) {
    Submitter submitter;
    submitter.refuse_creating("configmaps", mlk::test::refusal(status, "Whatever", "no"));
    return submitter.refused();
  };
  CHECK(refused(404) == std::pair(ExitCode::cluster, std::string("there is no namespace 'default'")));
  CHECK(refused(401).first == ExitCode::cluster);
  CHECK(refused(403).first == ExitCode::cannot_start);
  CHECK_MESSAGE(refused(403).second.starts_with("configmap/x-"), refused(403).second);
  CHECK(refused(422).first == ExitCode::cannot_start);
}

TEST_CASE("a submit fails if an existing object has no owner, and waits if the object has a deleted owner") {
  Submitter submitter;
  const std::string run = submitter.cut_off();
  json service = {{"apiVersion", "v1"},
                  {"kind", "Service"},
                  {"metadata", {{"name", run}}},
                  {"spec", {{"clusterIP", "None"}, {"selector", {{"a", "b"}}}}}};
  submitter.cluster.ask("POST", "/api/v1/namespaces/default/services", service);
  CHECK(submitter.refused() ==
        std::pair(ExitCode::failure, "service/" + run + " exists and belongs to something else"));
  CHECK(submitter.cluster.has("configmaps", run));  // the owner existed before this submit
  submitter.cluster.store.modify("services", "default", run, [](json& there) {
    there["metadata"]["ownerReferences"] = {
        {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "x"}, {"uid", "gone"}}};
  });
  submitter.on_note = [&](const std::string& note) {
    if (note.starts_with("waiting for service/")) submitter.cluster.store.remove("services", "default", run);
  };
  submitter.notes.clear();
  CHECK(submitter.submit().outcome == SubmitOutcome::completed);
  CHECK(submitter.notes ==
        std::vector<std::string>{"waiting for service/" + run + " of an earlier run to be deleted"});
}

TEST_CASE("a submit that is interrupted while it waits for a deletion leaves the run as it is") {
  Submitter submitter;
  const std::string run = submitter.submit().run;
  submitter.cluster.store.modify("services", "default", run, [](json& service) {
    service["metadata"]["finalizers"] = {"test/held"};
    service["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z";
  });
  submitter.on_note = [&](const std::string&) { submitter.interrupted = true; };
  CHECK(submitter.refused().first == ExitCode::interrupted);
  CHECK(submitter.cluster.has("configmaps", run));
}

TEST_CASE("an interrupted submit names the run and says how to complete it") {
  Submitter submitter;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    submitter.interrupted =
        submitter.interrupted || (request.method == "POST" && request.path.ends_with("/configmaps"));
    return std::nullopt;
  });
  try {
    submitter.submit();
    FAIL("is not interrupted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::interrupted);
    CHECK(std::string(error.what()).starts_with("interrupted: x-"));
    CHECK(error.hint().starts_with("the same command again completes it; delete it with: mlk delete x-"));
  }
}

TEST_CASE("a submit that cannot undo its work tells the user how to delete the object") {
  Submitter submitter;
  submitter.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "POST" && request.path.ends_with("/jobs")) return invalid;
    if (request.method == "DELETE") return mlk::test::refusal(403, "Forbidden", "no");
    return std::nullopt;
  });
  CHECK(submitter.refused().first == ExitCode::cannot_start);
  REQUIRE(submitter.notes.size() == 1);
  const std::string run =
      submitter.cluster.store.list("configmaps", "default").front()->at("metadata").at("name");
  CHECK(submitter.notes[0] == "could not take back configmap/" + run + "; delete it with: mlk delete " + run);
}

TEST_CASE("a submit uses an existing object if a quota refuses to create the object again") {
  // A quota counts objects from a request whose answer was lost, and objects of another submit.
  const auto full = mlk::test::refusal(403, "Forbidden", "it is forbidden: exceeded quota: q");
  for (const char* plural : {"configmaps", "services", "jobs"}) {
    for (const bool lost : {true, false}) {
      CAPTURE(plural);
      CAPTURE(lost);
      Submitter submitter;
      int posts = 0;
      submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
        if (request.method != "POST" || !request.path.ends_with(std::string("/") + plural))
          return std::nullopt;
        if (posts++ == 0) submitter.cluster.ask("POST", request.path, json::parse(request.body));
        return lost && posts == 1 ? mlk::test::refusal(503, "ServiceUnavailable", "lost") : full;
      });
      const Submitted submitted = submitter.submit();
      CHECK(submitted.outcome == SubmitOutcome::created);
      CHECK(posts == (lost ? 2 : 1));
      CHECK(submitter.cluster.has("configmaps", submitted.run));
      CHECK(submitter.cluster.has("jobs", submitted.run + "-worker"));
    }
  }
}

TEST_CASE("a submit that fails right after it has made the owner does not delete the owner") {
  for (const ExitCode code : {ExitCode::interrupted, ExitCode::cluster, ExitCode::failure}) {
    Submitter submitter;
    submitter.owner_is_there = [&] { throw Error(code, "no"); };
    const auto [ended, said] = submitter.refused();
    CHECK(ended == code);
    const std::string run =
        submitter.cluster.store.list("configmaps", "default").front()->at("metadata").at("name");
    CHECK(said == (code == ExitCode::interrupted ? "no: " + run + " may lack objects" : "no"));
    CHECK(submitter.cluster.names("jobs").empty());
    submitter.owner_is_there = {};
    CHECK(submitter.submit().outcome == SubmitOutcome::completed);
  }
}
