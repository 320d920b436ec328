// mlk status: shows the state of runs and sweeps, and why they do not progress.

#include "cli/run/state/status.h"

#include <optional>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/views/sweep_views.h"
#include "cli/views/views.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/sweep_json.h"

namespace mlk {
namespace {

struct StatusOptions {
  std::vector<std::string> runs;
  std::string output;
};

using Observed = std::variant<RunStatus, sweeps::SweepStatus>;

Observed read_state(kube::Client& client, const RunAddress& address) {
  const std::string& name_space = client.config().name_space;
  if (address.is_sweep) {
    sweeps::SweepStatus status =
        sweeps::read_sweep(client, name_space, address.run, sweeps::Harvest::running);
    if (address.trial) sweeps::select_trial(status, *address.trial);
    return status;
  }
  return observe(fetch_run_with_lines(client, name_space, address.run), std::chrono::system_clock::now());
}

nlohmann::json as_json(const Observed& observed) {
  return std::visit([](const auto& each) { return to_json(each); }, observed);
}

void print(const std::vector<Observed>& observed, const StatusOptions& options, const Me& me,
           Session& session) {
  if (options.output == "json") {
    nlohmann::json all = nlohmann::json::array();
    for (const Observed& each : observed) all.push_back(as_json(each));
    session.out << json_text(options.runs.size() == 1 ? all.front() : all, 2) << '\n';
    return;
  }
  for (const Observed& each : observed) {
    if (&each != &observed.front()) session.out << '\n';
    if (const auto* run = std::get_if<RunStatus>(&each)) {
      print_status(*run, session, me);
    } else {
      print_sweep(std::get<sweeps::SweepStatus>(each), session);
    }
  }
}

void status(const StatusOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  std::vector<Observed> observed;
  std::optional<Error> missing;  // names all missing runs; the other runs are shown anyway
  for (const std::string& typed : options.runs) {
    try {
      const RunAddress address = session.find_run(*client, typed);
      observed.push_back(read_state(*client, address));
    } catch (const kube::ApiError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ExitCode::not_found) throw;
      missing.emplace(error.code(), (missing ? missing->what() + std::string("\n") : "") + error.what(),
                      error.hint());
      continue;
    }
    auto* run = std::get_if<RunStatus>(&observed.back());
    if (run != nullptr) session.find_folders(*run, client->config().name_space);
  }
  if (!observed.empty()) print(observed, options, session.me(*client), session);
  if (missing) throw Error(*missing);
}

}  // namespace

void add_status(CLI::App& root, Session& session) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = root.add_subcommand("status", "Show runs: phase, reason, ranks, results");
  command->add_option("RUN", options->runs, "Runs, or experiments' names for their newest runs")->required();
  command->add_option("-o,--output", options->output, "json")->check(one_of({"json"}));
  command->callback([options, &session] { status(*options, session); });
}

}  // namespace mlk
