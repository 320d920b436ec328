#include "sweeps/read/harvest.h"

#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"

namespace mlk::sweeps {
namespace {

constexpr std::chrono::seconds harvest_every{5};

}  // namespace

bool Harvester::is_due() const {
  return has_more_ && std::chrono::steady_clock::now() - last_ >= harvest_every;
}

void Harvester::collect(const SweepObjects& objects, SweepStatus& status) {
  const Counts& counts = status.counts;
  const int ended = counts.succeeded + counts.failed + counts.stopped;
  has_more_ = has_more_ || ended != ended_;
  ended_ = ended;
  if (!is_due()) return;
  last_ = std::chrono::steady_clock::now();
  harvest_ended(client_, name_space_, status, told_);
  has_more_ =
      !write_ledger(client_, name_space_, objects.owner, objects.config_maps, status.trials, status.ledger);
}

}  // namespace mlk::sweeps
