// mlk results: prints the trials of a sweep, the best first, for people or programs.

#include "sweeps/results/results.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/run/read/find.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/util/json.h"
#include "cli/views/sweep_views.h"
#include "sweeps/read/fetch.h"
#include "sweeps/results/select.h"
#include "sweeps/trials/plain_runs.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk {
namespace {

struct ResultsOptions {
  std::string sweep;
  std::string objective;
  std::string output;
  std::string sort;
  std::string where;
  int top = 0;
  bool plot = false;
};

// What the command prints, in any form.
struct Shown {
  std::vector<sweeps::Trial> trials;
  sweeps::Objective objective;
  sweeps::Space space;
};

std::optional<sweeps::Objective> objective_option(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Problems problems;
  const auto source = std::make_shared<const Source>(Source{"--objective", text});
  std::optional<sweeps::Objective> objective;
  if (const std::optional<YamlNode> node = parse_yaml(text, source, problems))
    objective = sweeps::read_objective(*node, "--objective", problems);
  problems.throw_if_any();
  if (objective && (objective->of != sweeps::Objective::Of::last || !objective->regex.empty()))
    throw Error(ExitCode::usage, "--objective judges by the last value of a metric",
                "for example: --objective 'minimize loss'");
  return objective;
}

Shown trials_of_sweep(kube::Client& client, const RunAddress& address,
                      const std::optional<sweeps::Objective>& asked) {
  sweeps::SweepStatus status =
      sweeps::read_sweep(client, client.config().name_space, address.run, sweeps::Harvest::all);
  if (address.trial) sweeps::select_trial(status, *address.trial);
  if (asked) sweeps::use_objective(status, *asked);
  return {std::move(status.trials), status.record.objective.value_or(sweeps::Objective{}),
          status.record.space};
}

// Returns all runs of an experiment, or one run, as trials. `typed`: the name of the experiment or the run.
Shown trials_of_runs(kube::Client& client, const RunAddress& address, const std::string& typed,
                     const std::optional<sweeps::Objective>& asked) {
  const bool one = typed == address.run;
  RunFilter filter{.name = one ? "" : typed, .configured = true};
  std::vector<RunStatus> runs = list_runs(client, client.config().name_space,
                                          std::chrono::system_clock::now(), filter, sweeps::row_of_sweep);
  std::erase_if(runs,
                [&](const RunStatus& run) { return run.mode == "sweep" || (one && run.run != address.run); });
  const sweeps::Objective objective = asked ? *asked : sweeps::usual_objective(runs);
  return {sweeps::trials_of(std::move(runs), objective), objective, {}};
}

void results(const ResultsOptions& options, Session& session) {
  const std::optional<sweeps::Objective> asked = objective_option(options.objective);
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.sweep, Prefer::sweeps);
  const Shown shown = address.is_sweep ? trials_of_sweep(*client, address, asked)
                                       : trials_of_runs(*client, address, options.sweep, asked);
  const std::vector<sweeps::Trial> trials =
      sweeps::in_order(sweeps::select(shown.trials, shown.space, options.where), shown.objective, shown.space,
                       {.sort = options.sort, .top = static_cast<std::size_t>(options.top)});
  if (options.output == "json") {
    session.out << json_text(sweeps::results_json(trials), 2) << '\n';
    return;
  }
  const bool for_programs = options.output == "csv" || options.output == "tsv";
  const sweeps::ResultTable table =
      sweeps::result_table(trials, shown.objective, shown.space, for_programs || options.output == "wide");
  if (options.output == "csv") {
    session.out << sweeps::to_csv(table);
  } else if (options.output == "tsv") {
    session.out << sweeps::to_tsv(table);
  } else if (options.output == "md") {
    session.out << sweeps::to_markdown(table);
  } else {
    ui::Table rows(sweeps::shown_headers(table));
    for (std::vector<std::string>& row : sweeps::shown_rows(table)) rows.add(std::move(row));
    rows.print(session.out, session.out_is_terminal, session.style_out());
    if (options.plot) print_plots(trials, shown.objective, shown.space, session);
  }
}

}  // namespace

void add_results(CLI::App& root, Session& session) {
  auto options = std::make_shared<ResultsOptions>();
  CLI::App* command = root.add_subcommand("results", "Show the trials of a sweep, the best first");
  command->add_option("SWEEP", options->sweep, "A sweep, or an experiment's name for its newest one")
      ->required();
  command->add_option("-o,--output", options->output, "wide, csv, tsv, md or json")
      ->check(one_of({"wide", "csv", "tsv", "md", "json"}));
  command->add_option("--objective", options->objective, "What is best, instead of what the sweep says")
      ->type_name("GOAL METRIC");
  command->add_option("--sort", options->sort, "A column, with - for the largest first [the objective]")
      ->type_name("[-]COLUMN");
  add_where(*command, options->where, "Only trials for which this holds: 'lr<0.01 && state==Succeeded'");
  command->add_flag("--plot", options->plot,
                    "Also draw each parameter against the objective, and the best curves");
  command->add_option("--top", options->top, "Only so many")->type_name("N")->check(whole_number(1));
  command->callback([options, &session] { results(*options, session); });
}

}  // namespace mlk
