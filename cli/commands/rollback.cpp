// mlk rollback: submits an earlier version of an experiment again, with the code of that version. This is the
// version before the newest run, or before a given run.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/kube/objects.h"
#include "cli/provide/submit_stored.h"
#include "cli/run/change/versions.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/find.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"

namespace mlk {
namespace {

struct RollbackOptions {
  std::string run;
  bool dry_run = false, yes = false;
  std::string output = "name";
};

std::string find_version_before(kube::Client& client, const std::string& run) {
  const std::string& name_space = client.config().name_space;
  const nlohmann::json owner = client.get(kube::resources::config_maps, name_space, run);
  const std::string name = kube::label_of(owner, labels::name);
  const kube::ListOptions of_name{
      .label_selector = std::string(labels::name) + "=" + name + "," + labels::run, .metadata_only = true};
  const std::vector<nlohmann::json> owners =
      client.list(kube::resources::config_maps, name_space, of_name).items;
  const std::optional<std::string> before = version_before(owners, run);
  if (!before)
    throw Error(ExitCode::not_found, "there is no version of " + name + " before " + run,
                "list its runs with: mlk ls " + name);
  return *before;
}

void rollback(const RollbackOptions& options, Session& session) {
  const Provided provided{.client = session.connect()};
  kube::Client& client = *provided.client;
  const std::string& name_space = client.config().name_space;
  const RunAddress address = session.find_run(client, options.run);
  require_no_trial(address);
  if (!may_change(session, client, {{address.run, address.submitter}}, "roll back",
                  options.yes || options.dry_run))
    return;
  (void)fetch_stored(client, name_space, address.run);  // throws Error for sweeps and trials
  const StoredRun stored = fetch_stored(client, name_space, find_version_before(client, address.run));
  session.note("the version before " + address.run + " is " + stored.run);
  submit_stored(stored, provided, "", options.dry_run, options.output, session);
}

}  // namespace

void add_rollback(CLI::App& root, Session& session) {
  auto options = std::make_shared<RollbackOptions>();
  CLI::App* command = root.add_subcommand("rollback", "Submit the previous version of an experiment again");
  command->add_option("RUN", options->run, "An experiment's name, or a run: the version before that one")
      ->required();
  command->add_flag("--dry-run", options->dry_run,
                    "Create nothing; the cluster only checks the objects of the run");
  command->add_flag("--yes", options->yes, "Do not ask if another user has submitted the run");
  command->add_option("-o,--output", options->output, "name or json")->check(one_of({"name", "json"}));
  command->callback([options, &session] { rollback(*options, session); });
}

}  // namespace mlk
