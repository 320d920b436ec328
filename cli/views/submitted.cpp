#include "cli/views/submitted.h"

#include <nlohmann/json.hpp>

#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/time.h"

namespace mlk {

void print_handle(const std::string& run, const std::string& output, const std::string& name_space,
                  Session& session) {
  if (output == "json") {
    nlohmann::json handle{{"run", run}};
    if (!name_space.empty()) handle["namespace"] = name_space;  // it is unknown with --dry-run=client
    session.out << json_text(handle) << '\n';
  } else {
    session.out << run << '\n';
  }
  session.out.flush();
}

std::string how_it_ended(const RunStatus& status, Time now) {
  std::string ago;
  if (status.ended && *status.ended <= now)
    ago = " " + format_duration(std::chrono::floor<std::chrono::seconds>(now - *status.ended)) + " ago";
  if (status.absence == Absence::gone) return "has ended: " + status.why;
  if (status.phase == Phase::succeeded) return "has ended already: it succeeded" + ago;
  return "has ended already: it failed" + ago + (status.why.empty() ? "" : ": " + status.why);
}

ExitCode code_of(const Submitted& submitted) {
  if (submitted.outcome != SubmitOutcome::ended || !submitted.status) return ExitCode::ok;
  return submitted.status->absence == Absence::gone ? ExitCode::failure : exit_code(*submitted.status);
}

void print_outcome(const Submitted& submitted, Session& session, const SubmitRequest& request) {
  const std::string& run = submitted.run;
  const std::string& name_space = request.name_space;
  const std::string by =
      submitted.submitter.empty() ? "" : "was submitted by " + submitted.submitter + ", and ";
  switch (submitted.outcome) {
    case SubmitOutcome::created:
      if (request.dry_run) return session.note("run " + run + " would be created in namespace " + name_space);
      session.note("created run " + run + " in namespace " + name_space);
      session.note("follow it with: " + session.command("logs -f " + run));
      return;
    case SubmitOutcome::completed:
      if (request.dry_run) return session.note("run " + run + " is there in part, and would be completed");
      session.note("completed run " + run + ", whose submit had been cut off");
      return;
    case SubmitOutcome::running:
      session.note("run " + run + " is there already: " +
                   (submitted.submitter.empty()
                        ? "the same experiment was submitted before"
                        : submitted.submitter + " has submitted the same experiment"));
      session.note("look at it with: " + session.command("status " + run));
      return;
    case SubmitOutcome::stopped:
      session.note("run " + run + " of this experiment " + by +
                   "is stopped; let it go on with: " + session.command("resume " + run));
      return;
    case SubmitOutcome::ended:
      session.note("run " + run + " of this experiment " + by +
                   (submitted.status
                        ? printable(how_it_ended(*submitted.status, std::chrono::system_clock::now()))
                        : "has ended already"));
      session.note("see: " + session.command("status " + run));
      session.note(submitted.status && submitted.status->pods_left > 0
                       ? "run it once more with --again, which ends its pods first"
                       : "run it once more with --again");
      return;
  }
}

}  // namespace mlk
