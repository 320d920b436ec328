// mlk report: writes a sweep as one HTML file that needs no other file.

#include "sweeps/results/report.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/output_file.h"
#include "sweeps/read/fetch.h"

namespace mlk {
namespace {

struct ReportOptions {
  std::string sweep;
  std::string file;
};

void report(const ReportOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.sweep, Prefer::sweeps);
  require_sweep(address, session);
  const std::string& name_space = client->config().name_space;
  sweeps::SweepStatus status = sweeps::read_sweep(*client, name_space, address.run, sweeps::Harvest::all);
  const std::string text =
      sweeps::report_html({.title = address.run,
                           .name_space = name_space,
                           .description = fmt::format("{}, search {}, {} at a time", status.mode,
                                                      status.record.search, status.record.parallel),
                           .objective = status.record.objective.value_or(sweeps::Objective{}),
                           .space = status.record.space,
                           .trials = std::move(status.trials),
                           .made = std::chrono::system_clock::now(),
                           .version = session.version});
  if (options.file == "-") {
    session.out << text;
    return;
  }
  const std::string file = options.file.empty() ? address.run + ".html" : options.file;
  write_user_file(file, text);
  session.out << file << '\n';
}

}  // namespace

void add_report(CLI::App& root, Session& session) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = root.add_subcommand("report", "Write a sweep as one HTML file");
  command->add_option("SWEEP", options->sweep, "A sweep, or an experiment's name for its newest one")
      ->required();
  command->add_option("-o,--output", options->file, "The file; - for standard output [SWEEP.html]")
      ->type_name("FILE");
  command->callback([options, &session] { report(*options, session); });
}

}  // namespace mlk
