// Grants leases and takes them back.
#include "runtime/ps/machines/leases.h"

#include <algorithm>

#include "runtime/base/code_probe.h"

namespace mlk::rt {

Leases::Leases(const Config& config)
    : sync_(config.consistency.sync),
      staleness_(config.consistency.staleness),
      steps_(config.steps),
      batch_(static_cast<std::uint64_t>(config.data.batch)),
      slices_(sync_ ? static_cast<std::size_t>(config.workers.count) : 0, Slice::open) {}

void Leases::restart(std::uint64_t step, std::uint64_t position) {
  step_ = step;
  position_ = next_position_ = position;
  outstanding_ = 0;
  std::fill(slices_.begin(), slices_.end(), Slice::open);
  for (auto& [rank, worker] : workers_) worker = Worker();
}

void Leases::release(Worker& worker) {
  if (!worker.lease) return;
  code_probe("ps.lease-returned");
  if (!sync_) {
    --outstanding_;
    lost_samples_ += batch_;
  } else if (worker.lease->clock == step_ && slices_[worker.lease->slice] == Slice::leased) {
    slices_[worker.lease->slice] = Slice::open;
  }
  worker.lease.reset();
}

std::uint64_t Leases::slowest() const {
  std::uint64_t clock = ~std::uint64_t{0};
  for (const auto& [rank, worker] : workers_) clock = std::min(clock, worker.clock);
  return workers_.empty() ? 0 : clock;
}

std::uint64_t Leases::done_by_others(std::uint32_t rank) const {
  std::uint64_t clock = workers_.at(rank).clock + 1;
  for (const auto& [other, worker] : workers_) {
    if (other != rank) clock = std::min(clock, worker.clock);
  }
  return clock;
}

std::optional<Leases::Grant> Leases::grant(std::uint32_t rank) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || finished()) return {};
  Worker& worker = found->second;
  release(worker);
  if (sync_) {
    const auto open = std::find(slices_.begin(), slices_.end(), Slice::open);
    if (open == slices_.end()) return {};
    *open = Slice::leased;
    const auto slice = static_cast<std::uint32_t>(open - slices_.begin());
    worker.lease = Grant{step_, slice, position_ + slice * batch_, 0, 0};
    return worker.lease;
  }
  if (step_ + outstanding_ >= steps_) return {};
  if (staleness_ && worker.clock > slowest() + static_cast<std::uint64_t>(*staleness_)) {
    code_probe("ps.beyond-staleness");
    return {};
  }
  ++outstanding_;
  worker.lease = Grant{step_, 0, next_position_, worker.clock, done_by_others(rank)};
  next_position_ += batch_;
  return worker.lease;
}

bool Leases::done(std::uint32_t rank, std::uint64_t clock, std::uint32_t slice) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || !found->second.lease) {
    code_probe("ps.done-without-lease");
    return false;
  }
  Worker& worker = found->second;
  if (worker.lease->clock != clock || worker.lease->slice != slice) return false;
  worker.lease.reset();
  ++worker.clock;
  if (!sync_) {
    --outstanding_;
    ++step_;
    position_ += batch_;
    return true;
  }
  if (clock != step_) return false;
  slices_[slice] = Slice::done;
  if (std::ranges::any_of(slices_, [](Slice s) { return s != Slice::done; })) return false;
  ++step_;
  position_ += batch_ * slices_.size();
  std::fill(slices_.begin(), slices_.end(), Slice::open);
  return true;
}

void Leases::join(std::uint32_t rank) {
  if (workers_.contains(rank)) return;
  const std::uint64_t clock = slowest();
  workers_[rank].clock = clock;
}

void Leases::retain_only(const std::set<std::uint32_t>& workers) {
  for (auto& [rank, worker] : workers_) {
    if (!workers.contains(rank)) release(worker);
  }
  std::erase_if(workers_, [&](const auto& entry) { return !workers.contains(entry.first); });
}

void Leases::leave(std::uint32_t rank) {
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return;
  release(found->second);
  workers_.erase(found);
}

}  // namespace mlk::rt
