// mlk wait: waits until runs have ended. The exit code shows how the runs ended.

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/wait/await_run.h"
#include "cli/wait/await_sweep.h"
#include "sweeps/read/fetch.h"

namespace mlk {
namespace {

struct WaitOptions {
  std::vector<std::string> runs;
  std::string timeout;
  std::string start_timeout;
};

void wait(const WaitOptions& options, Session& session) {
  AwaitOptions await;
  await.timeout = duration_option("--timeout", options.timeout);
  await.start_timeout = duration_option("--start-timeout", options.start_timeout);
  const std::unique_ptr<kube::Client> client = session.connect();
  std::vector<std::string> runs, whole_sweeps;
  for (const std::string& typed : options.runs) {
    const RunAddress address = session.find_run(*client, typed);
    std::string name = address.run;
    if (address.trial)
      name = sweeps::run_of_trial(*client, client->config().name_space, address.run, *address.trial);
    if (name.empty()) require_no_trial(address);
    std::vector<std::string>& names = address.is_sweep && !address.trial ? whole_sweeps : runs;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (!runs.empty()) session.exit_code = await_runs(session, *client, runs, await);
  for (const std::string& sweep : whole_sweeps) {
    const ExitCode code = await_sweep(session, *client, sweep, await.timeout, await.start_timeout);
    if (session.exit_code == ExitCode::ok) session.exit_code = code;
  }
}

}  // namespace

void add_wait(CLI::App& root, Session& session) {
  auto options = std::make_shared<WaitOptions>();
  CLI::App* command = root.add_subcommand("wait", "Wait for the end of runs");
  command->add_option("RUN", options->runs, "Runs, or experiments' names for their newest runs")->required();
  command->add_option("--timeout", options->timeout, "Give up waiting after this time; the run goes on")
      ->type_name("DURATION");
  command
      ->add_option("--start-timeout", options->start_timeout,
                   "Exit 6 when it has not started after this time")
      ->type_name("DURATION");
  command->callback([options, &session] { wait(*options, session); });
}

}  // namespace mlk
