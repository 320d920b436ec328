#include "cli/views/submitted.h"

#include <doctest/doctest.h>

#include "cli/run/state/status.h"

TEST_SUITE_BEGIN("app/submitted");

namespace mlk {
namespace {

TEST_CASE("if the submitted run has already ended, mlk submit says when and why it ended") {
  const Time now = Time() + std::chrono::hours(1000);
  struct Row {
    Phase phase;
    std::optional<std::chrono::seconds> ago;
    std::string why;
    Absence absence;
    std::string said;
  };
  using std::chrono::seconds;
  for (const Row& row : std::vector<Row>{
           {Phase::succeeded, seconds(300), "", Absence::none, "has ended already: it succeeded 5m ago"},
           {Phase::failed, seconds(300), "worker/0: exit code 3", Absence::none,
            "has ended already: it failed 5m ago: worker/0: exit code 3"},
           {Phase::failed, seconds(300), "", Absence::none, "has ended already: it failed 5m ago"},
           {Phase::failed, std::nullopt, "x", Absence::none, "has ended already: it failed: x"},
           {Phase::failed, seconds(-1), "x", Absence::none, "has ended already: it failed: x"},
           {Phase::failed, seconds(300), "its Job is gone", Absence::gone, "has ended: its Job is gone"}}) {
    RunStatus status;
    status.phase = row.phase;
    status.why = row.why;
    status.absence = row.absence;
    if (row.ago) status.ended = now - *row.ago;
    CHECK(how_it_ended(status, now) == row.said);
  }
}

}  // namespace
}  // namespace mlk
