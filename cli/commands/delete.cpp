// mlk delete: removes runs with everything that belongs to them. Deleting a run that does not exist is not an
// error.

#include "cli/run/change/delete.h"

#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/kube/objects.h"
#include "cli/run/read/find.h"
#include "cli/run/state/checkpoints.h"
#include "cli/run/state/outputs.h"
#include "cli/run/state/record.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"
#include "cli/util/text.h"
#include "cli/wait/await_run.h"
#include "sweeps/change/change_sweep.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct DeleteOptions {
  Selection selection;
  bool no_wait = false;
  std::string timeout;
};

// The message about files of the run that stay; empty if there are none. `what`: "checkpoints" or "outputs".
// `is_known`: the run has said that it wrote some.
std::string what_stays(const std::string& what, VolumeFolder place, bool is_known, const Session& session,
                       const std::string& name_space) {
  session.find_folder(place, name_space);
  if (place.has_files == false) return "";
  return (is_known || place.has_files == true ? fmt::format("its {} stay in ", what)
                                              : fmt::format("{}, if it has written any, stay in ", what)) +
         describe(place);
}

void say_what_stays(const json& owner, Session& session, const std::string& name_space) {
  std::vector<std::string> lines;
  // Without a result, this is the folder of all checkpoints, and not the newest checkpoint.
  if (const std::optional<CheckpointPlace> place = checkpoint_place(owner, json())) {
    const std::optional<RunStatus> recorded = recorded_status(owner);
    const bool is_known = recorded && recorded->result.is_object() && recorded->result.contains("checkpoint");
    lines.push_back(what_stays("checkpoints", *place, is_known, session, name_space));
  }
  if (const std::optional<VolumeFolder> outputs = outputs_of(owner))
    lines.push_back(what_stays("outputs", *outputs, false, session, name_space));
  for (const std::string& line : lines) {
    if (!line.empty()) session.note(printable(line));
  }
}

// Looks up all names before deleting anything, so that one ambiguous name leaves every run unchanged.
std::vector<json> owners_to_delete(const DeleteOptions& options, Session& session, kube::Client& client) {
  const Selection& selection = options.selection;
  std::vector<RunAddress> targets;
  std::vector<json> owners;
  if (!selection.where.empty()) targets = agreed_targets(session, client, selection, "delete");
  for (const std::string& name : selection.where.empty() ? selection.names : std::vector<std::string>{}) {
    if (name.find('/') != std::string::npos) {
      targets.push_back(session.find_run(client, name));
    } else if (const std::optional<json> owner = find_owner_to_delete(client, name, session.me(client))) {
      owners.push_back(*owner);
    } else {
      session.note("there is no run '" + name + "' in namespace '" + client.config().name_space + "'");
    }
  }
  std::vector<Subject> subjects;
  for (const json& owner : owners) subjects.push_back({kube::name_of(owner), submitter_of(owner)});
  for (const RunAddress& target : targets) subjects.push_back({name_of(target), target.submitter});
  const bool agreed = selection.yes || !selection.where.empty();  // agreed_targets() has asked
  if (!may_change(session, client, subjects, "delete", agreed)) return {};
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    if (std::optional<json> owner =
            client.find(kube::resources::config_maps, client.config().name_space, target.run))
      owners.push_back(std::move(*owner));
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets)) {
    for (json& owner : give_up_trials(client, sweep, numbers, session.change_hooks()))
      owners.push_back(std::move(owner));
  }
  return owners;
}

void delete_runs(const DeleteOptions& options, Session& session) {
  const auto timeout = duration_option("--timeout", options.timeout).value_or(std::chrono::seconds(120));
  require_selection(options.selection, "delete", "phase==Failed && age>1d");
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<json> owners = owners_to_delete(options, session, *client);
  std::vector<Deletion> going;
  for (const json& owner : owners) {
    going.emplace_back(*client, owner);
    going.back().begin(options.no_wait ? Deletion::IsAwaited::no : Deletion::IsAwaited::yes);
    session.note("deleting " + kube::name_of(owner));
    say_what_stays(owner, session, client->config().name_space);
  }
  if (options.no_wait) return;
  const steady_clock::time_point deadline = steady_clock::now() + timeout;
  for (Deletion& deletion : going) {
    deletion.wait(deadline, session.change_hooks());
    session.note("deleted " + deletion.run());
  }
}

}  // namespace

void add_delete(CLI::App& root, Session& session) {
  auto options = std::make_shared<DeleteOptions>();
  CLI::App* command = root.add_subcommand("delete", "Delete runs and everything that belongs to them");
  command->add_option("RUN", options->selection.names, "Runs to delete");
  add_where_options(*command, options->selection);
  command->add_flag("--no-wait", options->no_wait, "Do not wait until everything is gone");
  command->add_option("--timeout", options->timeout, "How long to wait [2m]")->type_name("DURATION");
  command->callback([options, &session] { delete_runs(*options, session); });
}

}  // namespace mlk
