// mlk results: the trials of a sweep, the best first, in forms for people and programs.

#include "sweeps/results.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/run/find.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/json.h"
#include "sweeps/fetch.h"

namespace mlk {
namespace {

struct ResultsOptions {
  std::string sweep;
  std::string output;
  std::string sort;
  int top = 0;
};

void results(const ResultsOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.sweep);
  if (!address.is_sweep) {
    throw Error(ExitCode::usage, address.run + " is a run, not a sweep",
                "see its result with: " + session.command("status " + address.run));
  }
  sweeps::SweepStatus status =
      sweeps::read_sweep(*client, client->config().name_space, address.run, sweeps::Harvest::all);
  if (address.trial) sweeps::keep_trial(status, *address.trial);
  const sweeps::Objective objective = status.record.objective.value_or(sweeps::Objective{});
  const sweeps::Space& space = status.record.space;
  const std::vector<sweeps::Trial> trials = sweeps::in_order(
      status.trials, objective, space, {.sort = options.sort, .top = static_cast<std::size_t>(options.top)});
  if (options.output == "json") {
    session.out << json_text(sweeps::results_json(trials), 2) << '\n';
    return;
  }
  const bool for_programs = options.output == "csv" || options.output == "tsv";
  const sweeps::ResultTable table =
      sweeps::result_table(trials, objective, space, for_programs || options.output == "wide");
  if (options.output == "csv") {
    session.out << sweeps::to_csv(table);
  } else if (options.output == "tsv") {
    session.out << sweeps::to_tsv(table);
  } else if (options.output == "md") {
    session.out << sweeps::to_markdown(table);
  } else {
    ui::Table shown(sweeps::shown_headers(table));
    for (std::vector<std::string>& row : sweeps::shown_rows(table)) shown.add(std::move(row));
    shown.print(session.out, session.out_is_terminal);
  }
}

}  // namespace

void add_results(CLI::App& root, Session& session) {
  auto options = std::make_shared<ResultsOptions>();
  CLI::App* command = root.add_subcommand("results", "Show the trials of a sweep, the best first");
  command->add_option("SWEEP", options->sweep, "A sweep, or an experiment's name for its newest one")
      ->required();
  command->add_option("-o,--output", options->output, "wide, csv, tsv, md or json")
      ->check(CLI::IsMember({"wide", "csv", "tsv", "md", "json"}));
  command->add_option("--sort", options->sort, "A column, with - for the largest first [the objective]")
      ->type_name("[-]COLUMN");
  command->add_option("--top", options->top, "Only so many")->type_name("N")->check(CLI::PositiveNumber);
  command->callback([options, &session] { results(*options, session); });
}

}  // namespace mlk
