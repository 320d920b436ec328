// mlk status: what a run is doing, and why it is not doing more.

#include "cli/run/status.h"

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/commands/views.h"
#include "cli/run/find.h"

namespace mlk {
namespace {

struct StatusOptions {
  std::string run;
  std::string output;
};

void status(const StatusOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const std::string run = session.find_run(*client, options.run);
  const RunStatus observed = observe(fetch_run(*client, name_space, run), std::chrono::system_clock::now());
  if (options.output == "json") {
    session.out << to_json(observed).dump(2) << '\n';
    return;
  }
  print_status(observed, session);
}

}  // namespace

void add_status(CLI::App& root, Session& session) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = root.add_subcommand("status", "Show one run: phase, reason, ranks, results");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_option("-o,--output", options->output, "json")->check(CLI::IsMember({"json"}));
  command->callback([options, &session] { status(*options, session); });
}

}  // namespace mlk
