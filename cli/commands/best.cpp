// mlk best: shows the best trial of a sweep, or prints an experiment file with the values of this trial.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/render/yaml.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/util/own_files.h"
#include "cli/util/text.h"
#include "cli/views/sweep_views.h"
#include "sweeps/read/fetch.h"
#include "sweeps/results/results.h"
#include "sweeps/space/trial_values.h"

namespace mlk {
namespace {

struct BestOptions {
  std::string sweep;
  std::string output;
};

void best(const BestOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.sweep, Prefer::sweeps);
  require_sweep(address, session);
  const sweeps::SweepStatus status =
      sweeps::read_sweep(*client, client->config().name_space, address.run, sweeps::Harvest::all);
  const sweeps::Trial* trial = sweeps::best_of(status);
  if (trial == nullptr) {
    const bool none = !status.record.objective;
    throw Error(ExitCode::failure,
                none ? "sweep " + address.run + " has no objective"
                     : "no trial of " + address.run + " has reported " + status.record.objective->metric,
                none ? "start it with: --objective 'maximize METRIC'"
                     : "look at its trials with: " + session.command("results " + address.run));
  }
  if (options.output == "experiment") {
    session.out << sign_of_best
                << to_yaml(sweeps::experiment_at(status.record.base, status.record.space, trial->point));
  } else if (options.output == "json") {
    session.out << json_text(sweeps::results_json({*trial}).front(), 2) << '\n';
  } else if (options.output == "name") {
    session.out << printable(address.run) << '/' << trial->number << '\n';
  } else {
    session.out << trial_line(status, *trial) << '\n';
  }
}

}  // namespace

void add_best(CLI::App& root, Session& session) {
  auto options = std::make_shared<BestOptions>();
  CLI::App* command = root.add_subcommand("best", "Show the best trial of a sweep, or its experiment file");
  command->add_option("SWEEP", options->sweep, "A sweep, or an experiment's name for its newest one")
      ->required();
  command->add_option("-o,--output", options->output, "name, json or experiment")
      ->check(one_of({"name", "json", "experiment"}));
  command->callback([options, &session] { best(*options, session); });
}

}  // namespace mlk
