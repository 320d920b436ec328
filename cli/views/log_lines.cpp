#include "cli/views/log_lines.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/run/read/find.h"
#include "cli/run/read/log_sources.h"
#include "cli/run/read/log_warnings.h"
#include "cli/run/read/run_logs.h"
#include "cli/run/state/status.h"
#include "cli/session/session.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {

void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style) {
  std::string prefix = printable(line.role) + "/" + std::to_string(line.rank);
  if (!line.container.empty()) prefix += "/" + printable(line.container);
  const Colors colors = style.colored() ? Colors::kept : Colors::removed;
  out << style.paint(prefix, ui::color_of(prefix)) << ' ' << program_line(line.text, colors) << '\n';
}

void require_container(const std::string& run, const std::vector<nlohmann::json>& pods,
                       const std::string& container) {
  if (container.empty() || pods.empty()) return;
  const std::vector<std::string> names = container_names(pods);
  if (std::find(names.begin(), names.end(), container) != names.end()) return;
  throw Error(ExitCode::usage, "no pod of " + run + " has a container '" + printable(container) + "'",
              "their containers: " + printable(join(names, ", ")));
}

LogTaker printing_taker(Session& session, std::function<void(RunLogLine&)> name) {
  const auto goes_on = [&session] { return session.out.good() && session.interrupted == 0; };
  return {.line =
              [&session, goes_on, name = std::move(name), style = session.style_out()](RunLogLine line) {
                name(line);
                print_log_line(line, session.out, style);
                return goes_on();
              },
          .pause =
              [&session, goes_on] {
                session.out.flush();
                return goes_on();
              }};
}

void require_all_printed(Session& session) {
  session.out.flush();
  if (!session.out) throw OutputFailed();
  if (session.interrupted != 0) throw Error(ExitCode::interrupted, "interrupted");
}

void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter) {
  const RunObjects objects = fetch_run(client, client.config().name_space, run);
  require_container(run, objects.pods, filter.container);
  std::vector<std::string> problems;
  bool any = false;
  const LogTaker printer = printing_taker(session, [&](RunLogLine&) { any = true; });
  read_run_logs(client, client.config().name_space, objects.pods, filter, printer, &problems);
  require_all_printed(session);
  const RunStatus status = observe(objects, std::chrono::system_clock::now());
  const std::vector<std::string> lost = lost_logs(status, objects.pods, filter);
  problems.insert(problems.end(), lost.begin(), lost.end());
  for (const std::string& problem : problems) session.warn(problem);
  const std::string known = "what is known of ", at = ": " + session.command("status " + run);
  if (objects.pods.empty() && problems.empty())
    session.note("run " + run + " has no pods; " + known + "it" + at);
  else if (!any && !problems.empty())
    session.note(known + "run " + run + at);
}

}  // namespace mlk
