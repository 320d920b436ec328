// mlk local: controls the cluster on this machine, which --local uses.

#include "cli/local/local.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/session/session.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t kubeconfig_limit = 1 << 20;

void up(Session& session) {
  const local::Info info = local::up(local_up_options(session));
  session.note("the local cluster is up: " + info.server_url);
  session.note("use it with --local, or with: export KUBECONFIG=" + shell_word(info.kubeconfig.string()));
}

void down(Session& session) {
  const local::Stopped stopped = local::down();
  for (const std::string& pod : stopped.pods) session.note("stopped pod " + pod);
  session.note(stopped.server ? "the local cluster is down; its objects are kept, in " +
                                    local::default_paths().root.string()
                              : "the local cluster is not up");
  if (!stopped.elsewhere.empty()) {
    throw Error(ExitCode::failure,
                "pods of another machine or container were not stopped: " + join(stopped.elsewhere, ", "),
                "run mlk local down there");
  }
  if (!stopped.left_over.empty()) {
    throw Error(ExitCode::failure, "pods did not end: " + join(stopped.left_over, ", "),
                "run mlk local down again");
  }
}

void status(const std::string& output, Session& session) {
  const std::optional<local::Info> info = local::running();
  if (output == "json") {
    nlohmann::json json{{"up", info.has_value()}, {"elsewhere", local::is_elsewhere()}};
    if (info)
      json.update({{"server", info->server_url},
                   {"pid", info->pid},
                   {"kubeconfig", info->kubeconfig.string()},
                   {"state", info->state.string()}});
    session.out << json_text(json, 2) << '\n';
  } else if (info) {
    session.out << "up          " << info->server_url << " (process " << info->pid << ")\n"
                << "kubeconfig  " << info->kubeconfig.string() << '\n'
                << "state       " << info->state.string() << '\n';
  } else if (local::is_elsewhere()) {
    session.out << "elsewhere: a process of another machine or container holds "
                << local::default_paths().root.string() << '\n';
  } else {
    session.out << "down\n";
  }
  if (!info) session.exit_code = ExitCode::not_found;
}

void kubeconfig(Session& session) {
  if (!local::running())
    throw Error(ExitCode::not_found, "the local cluster is not up", "start it with: mlk local up");
  session.out << read_file(local::kubeconfig_path(), kubeconfig_limit);
}

}  // namespace

void add_local(CLI::App& root, Session& session) {
  CLI::App* command = root.add_subcommand("local", "The cluster on this machine");
  command->require_subcommand(1);
  command->add_subcommand("up", "Start it")->callback([&session] { up(session); });
  command->add_subcommand("down", "Stop the server, then its pods; objects stay")->callback([&session] {
    down(session);
  });
  CLI::App* status_command = command->add_subcommand("status", "Is it up? Exit code 3 when it is not");
  auto output = std::make_shared<std::string>();
  status_command->add_option("-o,--output", *output, "json")->check(one_of({"json"}));
  status_command->callback([output, &session] { status(*output, session); });
  command->add_subcommand("kubeconfig", "Print its kubeconfig, for kubectl and others")->callback([&session] {
    kubeconfig(session);
  });

  // `up` starts `serve` in the background, and the server starts `supervise`. Users do not type these
  // commands.
  command->add_subcommand("serve", "")->group("")->callback([&session] {
    session.exit_code = static_cast<ExitCode>(local::serve(local::own_program()));
  });
  CLI::App* supervise = command->add_subcommand("supervise", "")->group("");
  auto folder = std::make_shared<std::string>();
  supervise->add_option("DIR", *folder, "")->required();
  supervise->callback(
      [folder, &session] { session.exit_code = static_cast<ExitCode>(local::supervise(*folder)); });
}

}  // namespace mlk
