// mlk ls: lists the runs of the namespace, or the trials of a sweep.

#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/run/read/find.h"
#include "cli/run/state/status.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/views/views.h"
#include "sweeps/read/fetch.h"
#include "sweeps/results/result_cells.h"
#include "sweeps/results/results.h"
#include "sweeps/results/rows.h"
#include "sweeps/results/select.h"

namespace mlk {
namespace {

struct LsOptions {
  std::string name;
  std::string sweep;
  std::string tag;
  std::string where;
  std::string output;
  std::vector<std::string> columns;
  bool mine = false;
};

// Prints the trials of a sweep that has no driver. Each trial is an index of a Job, and its name is
// SWEEP/NUMBER.
void print_trials(const sweeps::SweepStatus& status, const std::vector<sweeps::Trial>& trials,
                  const std::string& output, Session& session) {
  if (output == "json") {
    session.out << json_text(sweeps::results_json(trials), 2) << '\n';
  } else if (output == "name") {
    for (const sweeps::Trial& trial : trials)
      session.out << printable(status.sweep) << '/' << trial.number << '\n';
  } else {
    const sweeps::Objective objective = status.record.objective.value_or(sweeps::Objective{});
    const sweeps::ResultTable table =
        sweeps::result_table(trials, objective, status.record.space, output == "wide");
    ui::Table rows(sweeps::shown_headers(table));
    for (std::vector<std::string>& row : sweeps::shown_rows(table)) rows.add(std::move(row));
    rows.print(session.out, session.out_is_terminal, session.style_out());
  }
}

// For a sweep with a driver, `runs` has the newest run of each trial that matches --where; nullopt means all
// runs of the sweep. For a sweep without a driver, trials_to_list() prints the trials itself and
// sets `printed`.
struct TrialsToList {
  bool printed = false;
  std::optional<std::set<std::string>> runs;
};

TrialsToList trials_to_list(kube::Client& client, const std::string& sweep, const LsOptions& options,
                            Session& session) {
  const nlohmann::json owner = client.get(kube::resources::config_maps, client.config().name_space, sweep);
  const bool asks_logs = !options.where.empty();
  if (!asks_logs && sweeps::read_record(owner).driven) return {};
  const sweeps::SweepStatus status = sweeps::read_sweep(
      client, client.config().name_space, sweep, asks_logs ? sweeps::Harvest::all : sweeps::Harvest::running);
  const std::vector<sweeps::Trial> trials = sweeps::select(status.trials, status.record.space, options.where);
  if (!status.record.driven) {
    print_trials(status, trials, options.output, session);
    return {.printed = true, .runs = {}};
  }
  TrialsToList out;
  out.runs.emplace();
  for (const sweeps::Trial& trial : trials) {
    if (const auto run = status.newest_runs.find(trial.number); run != status.newest_runs.end())
      out.runs->insert(run->second);
  }
  return out;
}

std::vector<ChosenColumn> chosen_columns(const std::vector<RunStatus>& runs,
                                         const std::vector<std::string>& names, const Me& me) {
  std::vector<ChosenColumn> out;
  if (names.empty()) return out;
  for (const std::string& name : names) out.push_back({upper_case(name), {}});
  for (const auto& row : sweeps::values_of_runs(runs, names, std::chrono::system_clock::now(), me)) {
    for (std::size_t i = 0; i < names.size(); ++i)
      out[i].cells.push_back(row[i].is_number_float() ? fmt::format("{:.6g}", row[i].get<double>())
                                                      : sweeps::plain_cell(row[i]));
  }
  return out;
}

void ls(const LsOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const bool wide = options.output == "wide", as_json = options.output == "json";
  const bool any_run = options.where.empty() && !options.mine;
  std::string sweep;
  TrialsToList trials;
  if (!options.sweep.empty()) {
    const RunAddress address = session.find_run(*client, options.sweep, Prefer::sweeps);
    require_sweep(address, session);
    sweep = address.run;
    trials = trials_to_list(*client, sweep, options, session);
    if (trials.printed) return;
  }
  const RunFilter filter{.sweep = sweep,
                         .name = options.name,
                         .tag = options.tag,
                         .configured = wide || as_json || !any_run || !options.columns.empty()};
  if (options.output == "name" && any_run) {
    for (const std::string& run : list_names(*client, name_space, filter))
      session.out << printable(run) << '\n';
    return;
  }
  const Time now = std::chrono::system_clock::now();
  std::vector<RunStatus> runs = sweeps::list_runs_and_sweeps(*client, name_space, now, filter);
  if (trials.runs) {
    std::erase_if(runs, [&](const RunStatus& run) { return trials.runs->count(run.run) == 0; });
  } else {
    if (!any_run) runs = sweeps::select_runs(runs, now, options.where, session.me(*client));
    if (options.mine)
      std::erase_if(runs, [&](const RunStatus& run) { return !is_mine(run.submitter, session.me(*client)); });
  }
  if (options.output == "name") {
    for (const RunStatus& run : runs) session.out << printable(run.run) << '\n';
  } else if (as_json) {
    nlohmann::json all = nlohmann::json::array();
    for (RunStatus& run : runs) {
      session.find_folders(run, name_space);
      all.push_back(to_json(run));
    }
    session.out << json_text(all, 2) << '\n';
  } else if (runs.empty()) {
    session.note("no runs" + (options.name.empty() ? "" : " of '" + options.name + "'") +
                 (options.tag.empty() ? "" : " with the tag '" + options.tag + "'") +
                 (options.where.empty() ? "" : " for which " + options.where + " holds") +
                 (options.mine ? " that is yours" : "") + " in namespace '" + name_space + "'");
  } else {
    print_runs(runs, session, wide ? Columns::all : Columns::usual,
               chosen_columns(runs, options.columns, session.me(*client)));
  }
}

}  // namespace

void add_ls(CLI::App& root, Session& session) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command = root.add_subcommand("ls", "List the runs of the namespace, newest first");
  command->add_option("NAME", options->name, "Only the runs of this experiment");
  command->add_option("--sweep", options->sweep, "The trials of this sweep instead")->type_name("SWEEP");
  add_where(*command, options->where, "Only those for which this holds: 'lr<0.01 && phase==Running'");
  command->add_flag("--mine", options->mine, "Only runs that you submitted");
  command->add_option("--tag", options->tag, "Only runs with this tag; KEY also means every KEY=...")
      ->type_name("KEY[=VALUE]");
  command
      ->add_option("--columns", options->columns,
                   "Show these metrics or values in place of the loss: acc,args.lr")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("-o,--output", options->output, "wide, name or json")
      ->check(one_of({"wide", "name", "json"}));
  command->callback([options, &session] { ls(*options, session); });
}

}  // namespace mlk
