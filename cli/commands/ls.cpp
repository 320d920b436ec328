// mlk ls: the runs of the namespace.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/commands/views.h"
#include "cli/run/find.h"
#include "cli/run/status.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/observe.h"

namespace mlk {
namespace {

struct LsOptions {
  std::string name;
  std::string sweep;
  std::string tag;
  std::string output;
};

void ls(const LsOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const bool wide = options.output == "wide", as_json = options.output == "json";
  std::string sweep;
  if (!options.sweep.empty()) {
    const RunAddress address = session.find_run(*client, options.sweep);
    require_sweep(address, session);
    sweep = address.run;
  }
  const RunFilter filter{
      .sweep = sweep, .name = options.name, .tag = options.tag, .configured = wide || as_json};
  if (options.output == "name") {
    for (const std::string& run : list_names(*client, name_space, filter))
      session.out << printable(run) << '\n';
    return;
  }
  std::vector<RunStatus> runs =
      list_runs(*client, name_space, std::chrono::system_clock::now(), filter, sweeps::row_of_sweep);
  if (as_json) {
    nlohmann::json all = nlohmann::json::array();
    for (RunStatus& run : runs) {
      if (run.checkpoint) session.find_folder(*run.checkpoint, name_space);
      all.push_back(to_json(run));
    }
    session.out << json_text(all, 2) << '\n';
  } else if (runs.empty()) {
    session.note("no runs" + (options.name.empty() ? "" : " of '" + options.name + "'") +
                 (options.tag.empty() ? "" : " with the tag '" + options.tag + "'") + " in namespace '" +
                 name_space + "'");
  } else {
    print_runs(runs, session, wide ? Columns::all : Columns::usual);
  }
}

}  // namespace

void add_ls(CLI::App& root, Session& session) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command = root.add_subcommand("ls", "List the runs of the namespace, newest first");
  command->add_option("NAME", options->name, "Only the runs of this experiment");
  command->add_option("--sweep", options->sweep, "Only the trials of this sweep that are runs")
      ->type_name("SWEEP");
  command->add_option("--tag", options->tag, "Only runs with this tag; KEY also means every KEY=...")
      ->type_name("KEY[=VALUE]");
  command->add_option("-o,--output", options->output, "wide, name or json")
      ->check(CLI::IsMember({"wide", "name", "json"}));
  command->callback([options, &session] { ls(*options, session); });
}

}  // namespace mlk
