// Tests what a dry run on a simulated server stores, reports and finds.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/run/change/submission.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/change/dry_run");

namespace {

using mlk::ExitCode;
using mlk::SubmitOutcome;
using mlk::Submitted;
using mlk::test::Submitter;
using nlohmann::json;

const auto invalid_job = mlk::test::refusal(422, "Invalid", "the Job is invalid");

}  // namespace

TEST_CASE("a dry run on the server stores nothing") {
  Submitter submitter;
  submitter.dry_run = true;
  submitter.submit();
  CHECK(submitter.notes.size() == 3);
  CHECK(submitter.cluster.names("configmaps").empty());
}

TEST_CASE("a dry run reports the same outcome as a real submit") {
  Submitter submitter;
  const auto tried = [&submitter] {
    submitter.dry_run = true;
    const Submitted found = submitter.submit();
    submitter.dry_run = false;
    return found;
  };
  CHECK(tried().outcome == SubmitOutcome::created);
  const std::string run = submitter.submit().run;
  CHECK(tried().outcome == SubmitOutcome::running);
  CHECK(tried().run == run);
  // The run itself has used up the quota.
  submitter.refuse_creating("jobs",
                            mlk::test::refusal(403, "Forbidden", "it is forbidden: exceeded quota: q"));
  CHECK(tried().outcome == SubmitOutcome::running);
  submitter.let_everything_in();
  submitter.cluster.store.remove("services", "default", run);
  CHECK(tried().outcome == SubmitOutcome::completed);
  CHECK(submitter.submit().outcome == SubmitOutcome::completed);
  submitter.cluster.store.modify("jobs", "default", run + "-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  CHECK(tried().outcome == SubmitOutcome::ended);
  submitter.again = true;
  CHECK(tried().outcome == SubmitOutcome::created);
  CHECK(tried().run == run + "-2");
}

TEST_CASE("a dry run on the server reports each object that the server accepts") {
  Submitter submitter;
  submitter.dry_run = true;
  const std::string run = submitter.submit().run;
  CHECK(submitter.notes == std::vector<std::string>{"configmap/" + run + " is accepted (server dry run)",
                                                    "service/" + run + " is accepted (server dry run)",
                                                    "job/" + run + "-worker is accepted (server dry run)"});
  submitter.refuse_creating("jobs", invalid_job);
  CHECK(submitter.refused().first == ExitCode::cannot_start);
  submitter.refuse_creating("services", mlk::test::refusal(409, "AlreadyExists", "it is there"));
  submitter.notes.clear();
  CHECK(submitter.submit().run == run);
  CHECK(submitter.notes.size() == 2);
}

TEST_CASE("a dry run says why an object is refused even if the user may not read such objects") {
  Submitter submitter;
  submitter.dry_run = true;
  const std::string service = "service/" + submitter.submit().run;
  submitter.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.path.find("/services") == std::string::npos) return std::nullopt;
    return mlk::test::refusal(403, "Forbidden",
                              request.method == "POST" ? "exceeded quota: q" : "you may not get services");
  });
  const std::string said = submitter.refused().second;
  CHECK_MESSAGE(said.find(service + " was refused: ") != std::string::npos, said);
  CHECK_MESSAGE(said.find("exceeded quota: q") != std::string::npos, said);
}

TEST_CASE("a dry run fails if the server refuses a pod, unless the reason is a quota or a missing right") {
  Submitter submitter;
  submitter.dry_run = true;
  std::vector<json> pods;
  std::optional<mlk::local::Answer> answer;
  submitter.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/pods")) return std::nullopt;
    pods.push_back(json::parse(request.body));
    return answer;
  });
  const std::string run = submitter.submit().run;
  REQUIRE(pods.size() == 1);
  CHECK(pods[0]["kind"] == "Pod");
  CHECK(pods[0]["apiVersion"] == "v1");
  CHECK(pods[0]["metadata"]["name"] == run + "-worker-0");
  CHECK(pods[0]["metadata"]["namespace"] == "default");
  CHECK(submitter.cluster.names("pods").empty());
  const std::string job = "job/" + run + "-worker";
  const auto told = [&](int status, const std::string& reason, const std::string& message) {
    answer = mlk::test::refusal(status, reason, message);
    submitter.notes.clear();
    submitter.submit();
    CHECK(submitter.notes.back() == job + " is accepted (server dry run)");
    return submitter.notes.at(submitter.notes.size() - 2);
  };
  CHECK(told(403, "Forbidden", "pods is forbidden: exceeded quota: small")
            .starts_with(job + ": its pods wait until the quota allows them: "));
  CHECK(told(403, "Forbidden", "User me cannot create resource pods")
            .starts_with(job + ": mlk could not check whether the cluster accepts its pods: "));
  CHECK(told(409, "AlreadyExists", "it is there") == "service/" + run + " is accepted (server dry run)");
  for (const auto& [status, message] : {std::pair(403, "violates PodSecurity restricted"),
                                        {422, "no such field"},
                                        {422, "exceeded quota: in words alone"}}) {
    answer = mlk::test::refusal(status, "Whatever", message);
    const auto [code, what] = submitter.refused();
    CHECK(code == ExitCode::cannot_start);
    CHECK_MESSAGE(what.starts_with("pod/" + run + "-worker-0 was refused: "), what);
  }
}
