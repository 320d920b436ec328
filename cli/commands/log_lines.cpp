#include "cli/commands/log_lines.h"

#include "cli/commands/session.h"
#include "cli/run/find.h"
#include "cli/run/log_reader.h"
#include "cli/run/status.h"
#include "cli/util/text.h"

namespace mlk {

void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style) {
  const std::string prefix = printable(line.role) + "/" + std::to_string(line.rank);
  out << style.paint(prefix, ui::color_of(prefix)) << ' ' << printable_line(line.text, style.colored())
      << '\n';
}

bool may_read_on(Session& session) {
  session.out.flush();
  return session.out.good() && session.interrupted == 0;
}

void require_all_printed(Session& session) {
  session.out.flush();
  if (!session.out) throw OutputFailed();
  if (session.interrupted != 0) throw Error(ExitCode::interrupted, "interrupted");
}

void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter) {
  const RunObjects objects = fetch_run(client, client.config().name_space, run);
  std::vector<std::string> problems;
  const ui::Style style = session.style_out();
  bool any = false;
  const LogTaker taker{.line =
                           [&](const RunLogLine& line) {
                             any = true;
                             print_log_line(line, session.out, style);
                             return session.out.good() && session.interrupted == 0;
                           },
                       .pause = [&] { return may_read_on(session); }};
  read_run_logs(client, client.config().name_space, objects.pods, filter, taker, &problems);
  require_all_printed(session);
  const RunStatus status = observe(objects, std::chrono::system_clock::now());
  for (const std::string& text : lost_logs(status, objects, filter)) session.warn(text);
  for (const std::string& problem : problems) session.warn(problem);
  if (!any && !problems.empty())
    session.note("what is known of run " + run + ": " + session.command("status " + run));
  if (objects.pods.empty()) {
    session.note("run " + run + " has no pods; what is known of it: " + session.command("status " + run));
  }
}

}  // namespace mlk
