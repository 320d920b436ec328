// mlk ls: the runs of the namespace.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/commands/views.h"
#include "cli/run/find.h"
#include "cli/run/status.h"

namespace mlk {
namespace {

struct LsOptions {
  std::string name;
  std::string output;
};

void ls(const LsOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  std::vector<RunStatus> runs =
      list_runs(*client, client->config().name_space, std::chrono::system_clock::now());
  if (!options.name.empty()) {
    std::erase_if(runs, [&](const RunStatus& run) { return run.name != options.name; });
  }
  if (options.output == "json") {
    nlohmann::json all = nlohmann::json::array();
    for (const RunStatus& run : runs) all.push_back(to_json(run));
    session.out << all.dump(2) << '\n';
  } else if (options.output == "name") {
    for (const RunStatus& run : runs) session.out << run.run << '\n';
  } else if (runs.empty()) {
    session.note("no runs" + (options.name.empty() ? "" : " of '" + options.name + "'") + " in namespace '" +
                 client->config().name_space + "'");
  } else {
    print_runs(runs, session);
  }
}

}  // namespace

void add_ls(CLI::App& root, Session& session) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command = root.add_subcommand("ls", "List the runs of the namespace, newest first");
  command->add_option("NAME", options->name, "Only the runs of this experiment");
  command->add_option("-o,--output", options->output, "name or json")->check(CLI::IsMember({"name", "json"}));
  command->callback([options, &session] { ls(*options, session); });
}

}  // namespace mlk
