#include "sweeps/start/job_trials.h"

#include <algorithm>

#include "cli/render/own.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/mark.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "sweeps/objects/record.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

using nlohmann::json;

TrialIndexes::TrialIndexes(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks,
                           std::string owner_uid)
    : client_(client),
      request_(request),
      definition_(request.definition),
      template_names_(request.templates.names()),
      experiments_(definition_.base, definition_.spec.space, template_names_, request.file_context),
      creation_(client, request.name_space, hooks),
      options_(render_options(request)),
      owner_uid_(std::move(owner_uid)) {
  options_.files_of = definition_.files_of;
}

// The experiment and the objects come from the first trial of the Job. Only the configuration comes from the
// sweep.
TrialsObjects TrialIndexes::objects_of(TrialsJob job) const {
  const int most = definition_.spec.max_failures.value_or(
      usual_failures(static_cast<std::size_t>(planned_trials(definition_))));
  job.may_fail = std::min(most, static_cast<int>(job.trials.size()));
  const Experiment experiment = experiments_.of(job.trials.front().point);
  const Rendered rendered = render(experiment, definition_.files, request_.templates, options_);
  TrialsObjects out = render_trials(job, experiment, definition_.files, rendered, request_.templates);
  if (owner_uid_.empty()) return out;
  for (json* object : {&out.points, &out.job}) own(*object, rendered.run, owner_uid_);
  return out;
}

bool TrialIndexes::write_down(int number, const std::vector<TrialLine>& trials) {
  const json wanted = objects_of({number, trials, 1, 0}).points;
  Creation::Stored stored = creation_.create_owned(wanted, owner_uid_);
  const bool same =
      text_of(stored.object, {"data", "points.jsonl"}) == text_of(wanted, {"data", "points.jsonl"});
  if (stored.created) created_.push_back(std::move(stored.object));
  return same;
}

std::vector<const Batch*> TrialIndexes::start_missing(const std::vector<Batch>& batches) {
  std::vector<const Batch*> out;
  const std::map<int, int> shares = shares_of(batches, definition_.spec.parallel);
  for (const Batch& batch : batches) {
    const auto share = shares.find(batch.job);
    if (share == shares.end()) continue;
    const json wanted = objects_of({batch.job, batch.trials, share->second, 0}).job;
    Creation::Stored stored = creation_.create_owned(wanted, owner_uid_);
    if (stored.created) created_.push_back(std::move(stored.object));
    out.push_back(&batch);
  }
  return out;
}

void TrialIndexes::mark_made(const std::vector<Batch>& batches, const json& owner) {
  std::vector<std::string> names;
  for (const Batch& batch : batches) {
    if (batch.by_cluster && !batch.trials.empty())
      names.push_back(job_name(definition_.identity.run, batch.job));
  }
  if (!names.empty() && names != jobs_made(owner))
    mark_owner(client_, request_.name_space, owner, annotations::created, join(names, ",")).wait();
}

void TrialIndexes::undo() {
  std::for_each(created_.rbegin(), created_.rend(), [this](const json& each) { creation_.undo(each); });
  created_.clear();
}

}  // namespace mlk::sweeps
