// Tests the requests of a submit to a cluster, its advice when it is refused, and what it waits for.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/run/change/submission.h"
#include "cli/run/facts/labels.h"
#include "cli/util/error.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/change/submit_advice");

namespace mlk {
namespace {

using nlohmann::json;
using Asked = std::vector<std::string>;
using Step = test::FakeCluster::Step;

struct Advised {
  test::FakeCluster cluster;
  Templates templates;
  Experiment experiment =
      load_experiment("name: x\nmode: single\nimage: i\nrun: echo\n", "x.yaml", {}, templates.names());
  std::vector<std::string> notes;
  bool interrupted = false;

  Submitted submit(bool again = false) {
    const FileContents files;
    kube::Client client(cluster.config());
    const SubmitRequest request{.experiment = experiment,
                                .files = files,
                                .templates = templates,
                                .name_space = "default",
                                .version = "1.2.3",
                                .again = again};
    return submit_run(client, request, render_run(request),
                      {.note = [this](const std::string& note) { notes.push_back(note); },
                       .check_interrupted =
                           [this] {
                             if (interrupted) throw Error(ExitCode::interrupted, "interrupted");
                           }});
  }
  // The code, the message and the hint of a refusal.
  std::tuple<ExitCode, std::string, std::string> refused() {
    try {
      submit();
    } catch (const Error& error) {
      return {error.code(), error.what(), error.hint()};
    }
    return {ExitCode::ok, "", ""};
  }
  std::string run() {
    const auto owners = cluster.store.list("configmaps", "default");
    return owners.empty() ? "" : owners.front()->at("metadata").at("name").get<std::string>();
  }
};

Step answer_posts(const std::string& plural, local::Answer answer) {
  return [=](const local::Request& request) -> std::optional<local::Answer> {
    if (request.method == "POST" && request.path.ends_with("/" + plural)) return answer;
    return std::nullopt;
  };
}

TEST_CASE("a submit sends the owner first, and sends each object once") {
  Advised advised;
  std::mutex mutex;
  Asked asked;
  advised.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    const std::string name = request.path.substr(request.path.rfind('/') + 1);
    const std::lock_guard lock(mutex);
    if (name != "selfsubjectaccessreviews" && name != "version") asked.push_back(request.method + " " + name);
    return std::nullopt;
  });
  const std::string run = advised.submit().run;
  CHECK(asked == Asked{"GET configmaps", "POST configmaps", "POST services", "POST jobs", "PATCH " + run});
  CHECK(advised.notes.empty());
  const json owner = *advised.cluster.store.get("configmaps", "default", run);
  const std::string mark = owner["metadata"]["annotations"][annotations::submit];
  CHECK(mark.size() == 16);
  CHECK(mark.find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("a submit asks for the server's version and the user's rights in parallel") {
  Advised advised;
  std::atomic<bool> rights_asked = false, together = false;
  advised.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    if (request.path.ends_with("/selfsubjectaccessreviews")) rights_asked = true;
    for (int tries = 0; request.path == "/version" && !rights_asked && tries < 500; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (request.path == "/version") together = rights_asked.load();
    return std::nullopt;
  });
  advised.submit();
  CHECK(together);
}

TEST_CASE("each kind of refusal gives its exit code, message and advice") {
  using Told = std::tuple<ExitCode, std::string, std::string>;
  {
    Advised advised;
    advised.cluster.before(answer_posts("configmaps", test::refusal(404, "NotFound", "no")));
    CHECK(advised.refused() == Told{ExitCode::cluster, "there is no namespace 'default'",
                                    "choose one with -n, or have it created"});
  }
  {
    Advised advised;
    advised.cluster.before([](const local::Request& request) -> std::optional<local::Answer> {
      if (!request.path.ends_with("/selfsubjectaccessreviews")) return std::nullopt;
      json review = json::parse(request.body);
      const json& what = review["spec"]["resourceAttributes"];
      review["status"]["allowed"] = what["verb"] != "list" || what["resource"] != "pods";
      local::Answer answer;
      answer.status = 201;
      answer.body = review.dump();
      return answer;
    });
    CHECK(advised.refused() ==
          Told{ExitCode::cluster, "you may not list pods in namespace 'default'",
               "see what you may do with: mlk context; the ClusterRole 'edit' in that namespace is enough"});
  }
  {
    Advised advised;
    advised.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method != "POST" || !request.path.ends_with("/jobs")) return std::nullopt;
      json job = json::parse(request.body);
      job["spec"].erase("podFailurePolicy");
      local::Answer answer;
      answer.status = 201;
      answer.body = job.dump();
      return answer;
    });
    const auto [code, what, hint] = advised.refused();
    CHECK(code == ExitCode::cannot_start);
    CHECK_MESSAGE(what.starts_with("the cluster dropped spec.podFailurePolicy of job/x-"), what);
    CHECK(hint == "a feature is switched off there; take the field out with patch:, or ask for the feature");
  }
  {
    Advised advised;
    advised.templates.add("jobs/mine.yaml",
                          {"roles: [{name: a, ends_run: true}]\n"
                           "objects: [{apiVersion: a.dev/v2, kind: Gang, metadata: {name: x}}]\n",
                           "mine.yaml"});
    advised.experiment =
        load_experiment("name: x\nmode: mine\nimage: i\nrun: a\n", "x.yaml", {}, advised.templates.names());
    CHECK(
        advised.refused() ==
        Told{
            ExitCode::cannot_start,
            "mine.yaml makes Gang x of apiVersion a.dev/v2, which the cluster does not serve",
            "have the definition of Gang installed in the cluster, or correct apiVersion and kind; the known "
            "kinds: kubectl api-resources"});
  }
}

TEST_CASE("the error for an object that does not belong to the run says what the user can do") {
  Advised advised;
  const std::string run = advised.submit().run;
  advised.cluster.store.modify("services", "default", run,
                               [](json& service) { service["metadata"].erase("ownerReferences"); });
  auto [code, what, hint] = advised.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "service/" + run + " exists and belongs to something else");
  CHECK(hint == "delete it, or change the experiment's name");
  CHECK(advised.run() == run);
  advised.cluster.store.modify("configmaps", "default", run, [](json& owner) {
    owner["metadata"]["labels"].erase(labels::hash);
    owner["metadata"]["annotations"][annotations::submit] = "of another";
  });
  std::tie(code, what, hint) = advised.refused();
  CHECK(code == ExitCode::failure);
  CHECK(what == "configmap/" + run + " exists and belongs to something else");
  CHECK(hint == "change the experiment's name, or delete that object");
}

TEST_CASE("a submit repeats a POST if the server says that the object exists but then does not find it") {
  for (const char* plural : {"configmaps", "services", "jobs"}) {
    Advised advised;
    int posts = 0;
    advised.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method != "POST" || !request.path.ends_with(std::string("/") + plural) || ++posts > 1)
        return std::nullopt;
      return test::refusal(409, "AlreadyExists", "it is there");
    });
    const Submitted submitted = advised.submit();
    CHECK(submitted.outcome == SubmitOutcome::created);
    CHECK(posts == 2);
    REQUIRE(advised.notes.size() == 1);
    const std::string kind = plural == std::string("services") ? "service/" : "job/";
    const std::string name = plural == std::string("jobs") ? submitted.run + "-worker" : submitted.run;
    CHECK(advised.notes[0] == "waiting for " + (plural == std::string("configmaps") ? "" : kind) + name +
                                  " of an earlier run to be deleted");
  }
}

TEST_CASE("an existing object counts as made if it belongs to the run and lacks no field") {
  for (const bool drops : {false, true}) {
    Advised advised;
    int posts = 0;
    advised.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method != "POST" || !request.path.ends_with("/jobs")) return std::nullopt;
      ++posts;
      json job = json::parse(request.body);
      if (drops) job["spec"].erase("podFailurePolicy");
      advised.cluster.ask("POST", request.path, job);
      return test::refusal(409, "AlreadyExists", "it is there");
    });
    if (drops) {
      CHECK(std::get<0>(advised.refused()) == ExitCode::cannot_start);
      CHECK(advised.run() == "");
    } else {
      CHECK(advised.submit().outcome == SubmitOutcome::created);
      CHECK(advised.notes.empty());
    }
    CHECK(posts == 1);
  }
}

TEST_CASE("a submit that is interrupted before its first object leaves no objects") {
  Advised advised;
  advised.interrupted = true;
  CHECK(std::get<0>(advised.refused()) == ExitCode::interrupted);
  CHECK(advised.run() == "");
}

TEST_CASE("--again names the second run NAME-2 and the third run NAME-3") {
  Advised advised;
  const std::string run = advised.submit(true).run;
  const auto end = [&](const std::string& name) {
    advised.cluster.store.modify("jobs", "default", name + "-worker", [](json& job) {
      job["status"]["conditions"] = {{{"type", "Failed"}, {"status", "True"}}};
    });
  };
  end(run);
  CHECK(advised.submit(false).outcome == SubmitOutcome::ended);
  CHECK(advised.submit(true).run == run + "-2");
  CHECK(advised.submit(true).run == run + "-2");
  CHECK(advised.submit(true).outcome == SubmitOutcome::running);
  end(run + "-2");
  const Submitted third = advised.submit(true);
  CHECK(third.run == run + "-3");
  CHECK(third.outcome == SubmitOutcome::created);
}

}  // namespace
}  // namespace mlk
