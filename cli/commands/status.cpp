// mlk status: what a run is doing, and why it is not doing more.

#include "cli/run/status.h"

#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/commands/views.h"
#include "cli/run/find.h"
#include "cli/util/json.h"

namespace mlk {
namespace {

struct StatusOptions {
  std::vector<std::string> runs;
  std::string output;
};

void print(const std::vector<RunStatus>& observed, const StatusOptions& options, Session& session) {
  if (options.output == "json") {
    nlohmann::json all = nlohmann::json::array();
    for (const RunStatus& each : observed) all.push_back(to_json(each));
    session.out << json_text(options.runs.size() == 1 ? all.front() : all, 2) << '\n';
    return;
  }
  for (const RunStatus& each : observed) {
    if (&each != &observed.front()) session.out << '\n';
    print_status(each, session);
  }
}

void status(const StatusOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  std::vector<RunStatus> observed;
  std::optional<Error> missing;  // the others are shown all the same
  for (const std::string& typed : options.runs) {
    try {
      const std::string run = session.find_run(*client, typed);
      observed.push_back(observe(fetch_run_with_lines(*client, client->config().name_space, run),
                                 std::chrono::system_clock::now()));
    } catch (const kube::ApiError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ExitCode::not_found) throw;
      missing.emplace(error.code(), (missing ? missing->what() + std::string("\n") : "") + error.what(),
                      error.hint());
      continue;
    }
    if (observed.back().checkpoint)
      session.find_folder(*observed.back().checkpoint, client->config().name_space);
  }
  if (!observed.empty()) print(observed, options, session);
  if (missing) throw Error(*missing);
}

}  // namespace

void add_status(CLI::App& root, Session& session) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = root.add_subcommand("status", "Show runs: phase, reason, ranks, results");
  command->add_option("RUN", options->runs, "Runs, or experiments' names for their newest runs")->required();
  command->add_option("-o,--output", options->output, "json")->check(CLI::IsMember({"json"}));
  command->callback([options, &session] { status(*options, session); });
}

}  // namespace mlk
