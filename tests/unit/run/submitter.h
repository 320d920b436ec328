// A submit against a cluster that the test holds.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/run/change/submission.h"
#include "cli/util/error.h"
#include "tests/unit/fake_cluster.h"

namespace mlk::test {

inline const std::string one_worker = "name: x\nmode: single\nimage: i\nrun: echo\n";

struct Submitter {
  Templates templates;
  Experiment experiment = load_experiment(one_worker, "x.yaml", {}, templates.names());
  FileContents files;
  FakeCluster cluster;
  std::vector<std::string> notes;
  std::function<void(const std::string&)> on_note = [](const std::string&) {};
  std::function<void()> owner_is_there{};
  bool again = false, dry_run = false;
  bool interrupted = false;

  Submitted submit() {
    kube::Client client(cluster.config());
    const SubmitRequest request{.experiment = experiment,
                                .files = files,
                                .templates = templates,
                                .name_space = "default",
                                .version = "0",
                                .again = again,
                                .dry_run = dry_run};
    return submit_run(client, request, render_run(request),
                      {.note =
                           [this](const std::string& note) {
                             notes.push_back(note);
                             on_note(note);
                           },
                       .check_interrupted =
                           [this] {
                             if (interrupted) throw Error(ExitCode::interrupted, "interrupted");
                           },
                       .owner_is_there = owner_is_there});
  }
  // Submits, and returns the exit code and the message of the refusal; ExitCode::ok if the submit is not
  // refused.
  std::pair<ExitCode, std::string> refused() {
    try {
      submit();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {ExitCode::ok, ""};
  }
  // Gives `answer` to each request to create an object of this kind.
  void refuse_creating(const std::string& plural, local::Answer answer) {
    cluster.before([=](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method == "POST" && request.path.ends_with("/" + plural)) return answer;
      return std::nullopt;
    });
  }
  // Submits with a job type whose template makes these objects.
  void with_objects(const std::string& objects) {
    templates.add("jobs/mine.yaml",
                  {"roles: [{name: a, ends_run: true}]\nobjects: [" + objects + "]\n", "mine.yaml"});
    experiment = load_experiment("name: x\nmode: mine\nimage: i\nrun: a\n", "x.yaml", {}, templates.names());
  }
  void let_everything_in() { cluster.before({}); }

  // Makes an owner without its objects, as a submit leaves it that is cut off after its first object. Returns
  // the name of the run.
  std::string cut_off() {
    cluster.before([this](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method == "POST" && request.path.ends_with("/services")) interrupted = true;
      return interrupted ? std::optional(refusal(503, "ServiceUnavailable", "later")) : std::nullopt;
    });
    CHECK(refused().first == ExitCode::interrupted);
    interrupted = false;
    let_everything_in();
    const std::string run = cluster.store.list("configmaps", "default").front()->at("metadata").at("name");
    CHECK(cluster.names("services").empty());
    return run;
  }
};

}  // namespace mlk::test
