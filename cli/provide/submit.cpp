#include "cli/provide/submit.h"

#include <fmt/format.h>

#include "cli/local/local.h"
#include "cli/render/outputs.h"
#include "cli/session/session.h"
#include "cli/views/submitted.h"

namespace mlk {

Submitted submit(const ToSubmit& what, Session& session) {
  kube::Client* const client = what.provided.client.get();
  const SubmitRequest request{.experiment = what.experiment,
                              .files = what.files,
                              .templates = what.templates,
                              .name_space = client ? client->config().name_space : "",
                              .version = session.version,
                              .local = session.local(),
                              .local_gpus = local::gpu_count(),
                              .again = what.again,
                              .dry_run = what.dry_run == DryRun::server,
                              .checkpoints = what.checkpoints};
  Rendered rendered = render_run(request);
  for (const std::string& warning : rendered.warnings) session.warn(warning);
  for (const std::string& warning : what.files.warnings) session.warn(warning);
  if (const std::string advice = outputs_advice(what.experiment.effective, what.files.outputs_claim);
      !advice.empty())
    session.note(advice);
  if (client == nullptr) {
    session.note(
        fmt::format("configmap/{} and {} more objects would be created; --dry-run=server also asks "
                    "whether run {} is there already",
                    rendered.run, rendered.objects.size(), rendered.run));
    print_handle(rendered.run, what.output, "", session);
    return {.run = rendered.run};
  }
  SubmitHooks hooks = session.submit_hooks(*client);
  hooks.owner_is_there = what.provided.keep_image;
  Submitted submitted = submit_run(*client, request, std::move(rendered), hooks);
  if (submitted.status && is_of_another(submitted.status->submitter, session.me(*client)))
    submitted.submitter = called(submitted.status->submitter, session.me(*client));
  print_handle(submitted.run, what.output, request.name_space, session);
  print_outcome(submitted, session, request);
  session.exit_code = code_of(submitted);
  return submitted;
}

}  // namespace mlk
