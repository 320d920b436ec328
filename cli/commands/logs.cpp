// mlk logs: prints the output of all ranks of a run, merged by time, each line with its role/rank.

#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/text.h"
#include "cli/views/log_lines.h"
#include "cli/wait/await_run.h"
#include "cli/wait/follow_sweep.h"
#include "sweeps/read/fetch.h"

namespace mlk {
namespace {

struct LogsOptions {
  std::string run;
  bool follow = false;
  long tail = -1;
  std::string since;
  std::string role;
  int rank = -1;
  std::string container;
};

// Throws Error{usage} for a role or a rank that the run does not have.
void require_rank(const nlohmann::json& owner, const LogFilter& filter) {
  const std::map<std::string, int> roles = roles_of(owner);
  if (roles.empty()) return;
  const std::string run = kube::name_of(owner);
  std::vector<std::string> names, ranks;
  bool role_is_known = false, rank_is_known = false;
  for (const auto& [role, count] : roles) {
    names.push_back(role);
    if (!filter.role.empty() && filter.role != role) continue;
    role_is_known = true;
    rank_is_known = rank_is_known || !filter.rank || *filter.rank < count;
    ranks.push_back(role + " has " + (count == 1 ? "0" : "0 to " + std::to_string(count - 1)));
  }
  if (!role_is_known) {
    throw Error(ExitCode::usage, "run " + run + " has no role '" + printable(filter.role) + "'",
                "its roles: " + join(names, ", "));
  }
  if (!rank_is_known) {
    throw Error(ExitCode::usage, "run " + run + " has no rank " + std::to_string(*filter.rank),
                "its ranks: " + join(ranks, ", "));
  }
}

void logs(const LogsOptions& options, Session& session) {
  LogFilter filter;
  if (options.tail >= 0) filter.tail = options.tail;
  filter.since = duration_option("--since", options.since);
  filter.role = options.role;
  if (options.rank >= 0) filter.rank = options.rank;
  filter.container = options.container;
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.run);
  std::string run = address.run;
  if (address.trial) {
    const std::string of_trial =
        sweeps::run_of_trial(*client, client->config().name_space, run, *address.trial);
    if (of_trial.empty()) filter.rank = address.trial;
    if (!of_trial.empty()) run = of_trial;
  }
  const bool of_driver = address.is_sweep && filter.role == labels::driver;
  if (!of_driver && (!filter.role.empty() || (filter.rank && !address.trial)))
    require_rank(client->get(kube::resources::config_maps, client->config().name_space, run), filter);
  if (options.follow && address.is_sweep && run == address.run) {
    session.exit_code = follow_sweep(session, *client, run, address.trial, filter);
    return;
  }
  if (options.follow) {
    if (!filter.container.empty())
      require_container(run, fetch_run(*client, client->config().name_space, run).pods, filter.container);
    AwaitOptions await;
    await.follow = true;
    await.logs_to_stdout = true;
    await.filter = filter;
    session.exit_code = await_runs(session, *client, {run}, await);
    return;
  }
  if (address.is_sweep && run == address.run) return print_sweep_logs(session, *client, run, filter);
  print_logs(session, *client, run, filter);
}

}  // namespace

void add_logs(CLI::App& root, Session& session) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = root.add_subcommand("logs", "Print the logs of all ranks of a run");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_flag("-f,--follow", options->follow, "Go on until the run ends; the exit code tells how");
  command->add_option("--tail", options->tail, "Only the last LINES lines of each rank")
      ->type_name("LINES")
      ->check(whole_number());
  command->add_option("--since", options->since, "Only lines newer than this, for example 10m")
      ->type_name("DURATION");
  command->add_option("--role", options->role, "Only this role, for example worker")->type_name("ROLE");
  command->add_option("--rank", options->rank, "Only this rank of each role")
      ->type_name("RANK")
      ->check(whole_number());
  command->add_option("--container", options->container, "Only this container of each pod")
      ->type_name("NAME");
  command->callback([options, &session] { logs(*options, session); });
}

}  // namespace mlk
