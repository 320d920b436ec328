// Tests a second submit of a run whose Job has vanished. Without --again, the submit never trains the run
// twice.
#include <map>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "tests/unit/run/submitter.h"

TEST_SUITE_BEGIN("run/state/vanished");

namespace {

using mlk::SubmitOutcome;
using mlk::test::Submitter;
using nlohmann::json;

struct Vanishing : Submitter {
  std::string run;
  int jobs_sent = 0;

  Vanishing() {
    run = submit().run;
    cluster.before([this](const mlk::local::Request& request) {
      jobs_sent += request.method == "POST" && request.path.ends_with("/jobs") ? 1 : 0;
      return std::nullopt;
    });
  }
  void annotate(const char* annotation, const json& value) {
    cluster.ask("PATCH", "/api/v1/namespaces/default/configmaps/" + run,
                {{"metadata", {{"annotations", {{annotation, value}}}}}}, "application/merge-patch+json");
  }
  std::string annotation(const char* name) {
    const json owner = *cluster.store.get("configmaps", "default", run);
    return owner["metadata"]["annotations"].value(name, "");
  }
  void lose(const std::string& plural, const std::string& name) {
    const std::string group = plural == "jobs" ? "/apis/batch/v1" : "/api/v1";
    cluster.ask("DELETE", group + "/namespaces/default/" + plural + "/" + name);
    REQUIRE(!cluster.has(plural, name));
  }
};

}  // namespace

TEST_CASE("when all objects of a run are made, an annotation of the owner says so") {
  Vanishing test;
  CHECK(test.annotation(mlk::annotations::created) == test.run + "-worker");
  CHECK(test.annotation(mlk::annotations::submitted).size() == 19);
}

TEST_CASE("a run whose Job is gone counts as ended") {
  Vanishing test;
  test.lose("jobs", test.run + "-worker");
  mlk::Submitted second = test.submit();
  CHECK(second.outcome == SubmitOutcome::ended);
  REQUIRE(second.status);
  CHECK(second.status->absence == mlk::Absence::gone);
  CHECK(test.annotation(mlk::annotations::gone) == test.run + "-worker");
  CHECK(test.submit().outcome == SubmitOutcome::ended);
  CHECK(test.jobs_sent == 0);
  test.again = true;
  const mlk::Submitted third = test.submit();
  CHECK(third.run == test.run + "-2");
  CHECK(third.outcome == SubmitOutcome::created);
  CHECK(test.jobs_sent == 1);
}

TEST_CASE("a Job does not count as gone if the next list has it") {
  Vanishing test;
  bool first = true;
  test.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "GET" || !request.path.ends_with("/jobs") || !first) return std::nullopt;
    first = false;
    mlk::local::Answer empty;
    empty.status = 200;
    empty.body =
        R"({"kind":"JobList","apiVersion":"batch/v1","metadata":{"resourceVersion":"1"},"items":[]})";
    return empty;
  });
  CHECK(test.submit().outcome == SubmitOutcome::running);
  CHECK(test.annotation(mlk::annotations::gone).empty());
  CHECK(!first);
}

TEST_CASE("a submit makes the missing Service of an existing run, but no second Job") {
  Vanishing test;
  test.lose("services", test.run);
  CHECK(test.submit().outcome == SubmitOutcome::completed);
  CHECK(test.cluster.has("services", test.run));
  CHECK(test.jobs_sent == 0);
}

TEST_CASE("if a Job is deleted during a submit of an existing run, it is not made again") {
  Vanishing test;
  test.cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    test.jobs_sent += request.method == "POST" && request.path.ends_with("/jobs") ? 1 : 0;
    if (request.method == "GET" && request.path.ends_with("/jobs/" + test.run + "-worker"))
      return mlk::test::refusal(404, "NotFound", "no such Job");
    return std::nullopt;
  });
  (void)test.submit();
  CHECK(test.jobs_sent == 0);
}

TEST_CASE("a submit sets annotations::created if an earlier submit was killed before it could do so") {
  Vanishing test;
  test.annotate(mlk::annotations::created, nullptr);
  CHECK(test.submit().outcome == SubmitOutcome::running);
  CHECK(test.annotation(mlk::annotations::created) == test.run + "-worker");
  // Without the mark annotations::created, a submit makes the missing objects.
  test.annotate(mlk::annotations::created, nullptr);
  test.lose("jobs", test.run + "-worker");
  CHECK(test.submit().outcome == SubmitOutcome::completed);
  CHECK(test.jobs_sent == 1);
  CHECK(test.annotation(mlk::annotations::created) == test.run + "-worker");
}

TEST_CASE("a submit works even if the user may not change the owner") {
  Submitter test;
  test.cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "PATCH") return mlk::test::refusal(403, "Forbidden", "no");
    return std::nullopt;
  });
  CHECK(test.submit().outcome == SubmitOutcome::created);
}
