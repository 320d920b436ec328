#include "sweeps/watch.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>

#include "cli/kube/client.h"
#include "cli/kube/reflector.h"
#include "cli/run/find.h"
#include "cli/run/labels.h"

namespace mlk::sweeps {
namespace {

constexpr std::chrono::milliseconds patience{60'000};  // of silence before it is worth a word

}  // namespace

struct SweepWatch::State {
  std::string sweep;
  std::mutex mutex;
  std::condition_variable changed;
  bool dirty = true;
  // Last, so that they stop before what their callbacks use is gone.
  std::unique_ptr<kube::Reflector> config_maps, jobs, pods, events;

  void mark() {
    {
      const std::lock_guard lock(mutex);
      dirty = true;
    }
    changed.notify_all();
  }
  // Those without which a sweep cannot be read.
  std::array<const kube::Reflector*, 3> all() const { return {config_maps.get(), jobs.get(), pods.get()}; }
};

SweepWatch::SweepWatch(kube::Client& client, const std::string& name_space, const std::string& sweep)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.sweep = sweep;
  kube::ListOptions of_sweep;
  of_sweep.label_selector = std::string(labels::sweep) + "=" + sweep;
  const auto watch = [&](const kube::Resource& resource) {
    return std::make_unique<kube::Reflector>(client, resource, name_space, of_sweep,
                                             [&state] { state.mark(); });
  };
  state.config_maps = watch(kube::resources::config_maps);
  state.jobs = watch(kube::resources::jobs);
  state.pods = watch(kube::resources::pods);
  // Of the whole namespace, and it may be forbidden: what it says is looked at with the next change.
  kube::ListOptions warnings;
  warnings.field_selector = "type!=Normal";
  state.events =
      std::make_unique<kube::Reflector>(client, kube::resources::events, name_space, warnings, [] {});
}

SweepWatch::~SweepWatch() = default;

bool SweepWatch::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  const bool changed = state_->changed.wait_for(lock, timeout, [this] { return state_->dirty; });
  state_->dirty = false;
  return changed;
}

std::optional<SweepObjects> SweepWatch::objects() const {
  bool synced = true;
  for (const kube::Reflector* each : state_->all()) {
    synced = synced && each->synced();
    const std::exception_ptr failure = each->failure();
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const kube::ApiError& error) {
      if (error.status() == 401 || error.status() == 403) throw;
    }
  }
  if (!synced) return std::nullopt;
  SweepObjects out;
  out.config_maps = state_->config_maps->objects();
  out.jobs = state_->jobs->objects();
  out.pods = state_->pods->objects();
  out.events = warnings_of(state_->sweep, state_->events->objects());
  if (!take_owner(out))
    throw Error(ExitCode::not_found, "sweep " + state_->sweep + " is there no more: it was deleted");
  return out;
}

std::string SweepWatch::trouble() const {
  for (const kube::Reflector* each : state_->all()) {
    const std::exception_ptr failure = each->failure();
    if (!failure || each->failing_for() < patience) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return "";
}

}  // namespace mlk::sweeps
