// mlk wait: until runs have ended; the exit code tells how.

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands/await_run.h"
#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/run/find.h"

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
  std::vector<std::string> runs;
  for (const std::string& typed : options.runs) {
    const std::string run = session.find_run(*client, typed);
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  session.exit_code = await_runs(session, *client, runs, await);
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
