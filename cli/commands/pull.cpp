// mlk pull: brings the outputs and the checkpoints of a run home.

#include "cli/pull/pull.h"

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/session/session.h"

namespace mlk {

void add_pull(CLI::App& root, Session& session) {
  auto options = std::make_shared<PullOptions>();
  CLI::App* command = root.add_subcommand("pull", "Bring the outputs and checkpoints of a run home");
  command->add_option("RUN", options->run, "A run, a trial, or an experiment's name for its newest run")
      ->required();
  command->add_option("PATH", options->paths,
                      "Only these files and folders; checkpoints for the checkpoints");
  command->add_option("--to", options->to, "The folder to write to; a new one with the run's name by default")
      ->type_name("DIR");
  command->add_flag("--list", options->list, "Only list the files");
  command->callback([options, &session] { pull(*options, session); });
}

}  // namespace mlk
