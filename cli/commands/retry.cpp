// mlk retry: submits a run that has failed once more, with its code, and continues from its checkpoints.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/provide/submit_stored.h"
#include "cli/run/read/find.h"
#include "cli/run/state/status.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"

namespace mlk {
namespace {

struct RetryOptions {
  std::string run;
  bool dry_run = false, yes = false;
  std::string output = "name";
};

// Throws Error if the run has not failed.
void require_failed(const RunStatus& status, const Session& session) {
  if (status.phase == Phase::succeeded)
    throw Error(ExitCode::failure, status.run + " has succeeded: there is nothing to retry",
                "run its file once more with: " + session.command("submit --again FILE"));
  if (status.phase == Phase::stopped)
    throw Error(ExitCode::failure, status.run + " is stopped",
                "let it go on with: " + session.command("resume " + status.run));
  if (!is_over(status))
    throw Error(ExitCode::failure,
                status.run + " has not ended: it is " + std::string(to_string(status.phase)),
                "look at it with: " + session.command("status " + status.run));
}

void retry(const RetryOptions& options, Session& session) {
  const Provided provided{.client = session.connect()};
  kube::Client& client = *provided.client;
  const std::string& name_space = client.config().name_space;
  const RunAddress address = session.find_run(client, options.run);
  require_no_trial(address);
  const StoredRun stored =
      fetch_stored(client, name_space, address.run);  // throws Error for sweeps and trials
  const RunObjects objects = fetch_run(client, name_space, address.run);
  const RunStatus status = observe(objects, std::chrono::system_clock::now());
  require_failed(status, session);
  if (!may_change(session, client, {{address.run, address.submitter}}, "retry",
                  options.yes || options.dry_run))
    return;
  if (status.checkpoint)
    session.note("it continues the checkpoints of " + address.run + " in " + describe(*status.checkpoint));
  submit_stored(stored, provided, status.checkpoint ? checkpoint_folder_of(objects.owner) : "",
                options.dry_run, options.output, session);
}

}  // namespace

void add_retry(CLI::App& root, Session& session) {
  auto options = std::make_shared<RetryOptions>();
  CLI::App* command =
      root.add_subcommand("retry", "Submit a failed run once more; it continues from its checkpoints");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_flag("--dry-run", options->dry_run,
                    "Create nothing; the cluster only checks the objects of the run");
  command->add_flag("--yes", options->yes, "Do not ask if another user has submitted the run");
  command->add_option("-o,--output", options->output, "name or json")->check(one_of({"name", "json"}));
  command->callback([options, &session] { retry(*options, session); });
}

}  // namespace mlk
