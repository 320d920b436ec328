#include "cli/run/submission.h"

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/util/error.h"

TEST_CASE("a kind that mlk cannot create is refused before the cluster is asked") {
  mlk::Templates templates;
  templates.add("jobs/mine.yaml",
                {"roles: [{name: a, ends_run: true}]\n"
                 "objects: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}}]\n",
                 "mine.yaml"});
  const mlk::Experiment experiment =
      mlk::load_experiment("name: x\nmode: mine\nimage: i\nrun: a\n", "x.yaml", {}, templates.job_types());
  mlk::kube::Config nobody;
  nobody.server = "http://127.0.0.1:9";
  mlk::kube::Client client(nobody);
  const mlk::FileContents files;
  const mlk::SubmitRequest request{
      .experiment = experiment, .files = files, .templates = templates, .name_space = "n", .version = "0"};
  try {
    mlk::submit_run(client, request, {.note = [](const std::string&) {}, .check_interrupted = [] {}});
    FAIL("submitted");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(std::string(error.what()) ==
          "a template makes a PersistentVolumeClaim, which mlk cannot create yet");
  }
}
