// Tests submits of users who lack rights, and submits to a server that does not know the rights of users yet.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "cli/run/change/submission.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/change/refused_rights");

namespace {

using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::Submitted;
using mlk::test::Submitter;
using nlohmann::json;

}  // namespace

TEST_CASE("a submit creates no object if the user lacks a right") {
  Submitter submitter;
  submitter.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/selfsubjectaccessreviews")) return std::nullopt;
    json review = json::parse(request.body);
    review["status"]["allowed"] = review["spec"]["resourceAttributes"]["resource"] != "services";
    mlk::local::Answer answer;
    answer.status = 201;
    answer.body = review.dump();
    return answer;
  });
  CHECK(submitter.refused() ==
        std::pair(ExitCode::cluster, std::string("you may not create services in namespace 'default'")));
  CHECK(submitter.cluster.names("configmaps").empty());
}

TEST_CASE("one error names all rights that the user lacks") {
  Submitter submitter;
  submitter.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/selfsubjectaccessreviews")) return std::nullopt;
    json review = json::parse(request.body);
    review["status"]["allowed"] = false;
    mlk::local::Answer answer;
    answer.status = 201;
    answer.body = review.dump();
    return answer;
  });
  CHECK(
      submitter.refused().second ==
      "you may not create configmaps, create services, create jobs, list configmaps, list jobs, list pods in "
      "namespace 'default'");
}

TEST_CASE("a submit checks only those rights of the user that its objects need") {
  Submitter submitter;
  submitter.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/selfsubjectaccessreviews")) return std::nullopt;
    json review = json::parse(request.body);
    review["status"]["allowed"] = review["spec"]["resourceAttributes"]["resource"] != "secrets";
    mlk::local::Answer answer;
    answer.status = 201;
    answer.body = review.dump();
    return answer;
  });
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  // A template that makes a Secret needs this right.
  submitter.with_objects("{apiVersion: v1, kind: Secret, metadata: {name: \"${run}-a\"}}");
  CHECK(submitter.refused() ==
        std::pair(ExitCode::cluster, std::string("you may not create secrets in namespace 'default'")));
}

TEST_CASE("a submit retries a POST if the server does not know the user's role yet") {
  Submitter submitter;
  int posts = 0;
  std::string message = "User me cannot create resource jobs in API group batch";
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/jobs") || ++posts > 1) return std::nullopt;
    return mlk::test::refusal(403, "Forbidden", message);
  });
  CHECK(submitter.submit().outcome == SubmitOutcome::created);
  CHECK(posts == 2);
  Submitter other;
  other.refuse_creating("jobs", mlk::test::refusal(403, "Forbidden", "exceeded quota"));
  CHECK(other.refused().first == ExitCode::cannot_start);
  CHECK(std::none_of(other.notes.begin(), other.notes.end(),
                     [](const std::string& note) { return note.find("trying again") != std::string::npos; }));
}

TEST_CASE("a submit keeps its created objects if a server that has just started refuses the next object") {
  for (const char* message : {"User me cannot create resource jobs in API group batch",
                              "jobs.batch is forbidden: not yet ready to handle request"}) {
    Submitter submitter;
    submitter.refuse_creating("jobs", mlk::test::refusal(403, "Forbidden", message));
    CHECK(submitter.refused().first == ExitCode::cluster);
    CHECK(submitter.notes.size() == 5);  // five retries
    submitter.let_everything_in();
    const Submitted submitted = submitter.submit();
    CHECK(submitted.outcome == SubmitOutcome::completed);
    CHECK(submitter.cluster.has("jobs", submitted.run + "-worker"));
  }
}
