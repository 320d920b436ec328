#include "cli/provide/submit_stored.h"

#include <nlohmann/json.hpp>

#include "cli/experiment/load.h"
#include "cli/provide/load.h"
#include "cli/run/inputs/prepare.h"
#include "cli/session/session.h"
#include "cli/util/json.h"

namespace mlk {

Submitted submit_stored(const StoredRun& stored, const Provided& provided, const std::string& checkpoints,
                        bool dry_run, const std::string& output, Session& session) {
  kube::Client& client = *provided.client;
  const Templates templates = load_templates();
  const Experiment experiment =
      load_experiment(json_text(stored.experiment), "the record of run " + stored.run, {}, templates.names());
  FileContents files = fetch_stored_files(client, client.config().name_space, stored);
  files.user.on_machine = session.local();
  files.outputs_claim = usual_outputs_claim(session);
  if (!session.local()) provide_user(experiment, files, nullptr, client, session, false);
  if (!identify(experiment, digests_of(experiment, files), templates, 1).hash.starts_with(stored.hash))
    session.warn("with the mlk and the templates of this machine, the experiment becomes another run than " +
                 stored.run);
  return submit({.experiment = experiment,
                 .files = files,
                 .templates = templates,
                 .provided = provided,
                 .dry_run = dry_run ? DryRun::server : DryRun::no,
                 .again = true,
                 .checkpoints = checkpoints,
                 .output = output},
                session);
}

}  // namespace mlk
