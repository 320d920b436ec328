#include "sweeps/objects/watch.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cli/kube/client.h"
#include "cli/kube/reflector.h"

namespace mlk::sweeps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds patience{60'000};  // a longer silence is reported
constexpr int rests = 4;  // the pause after a reading, as a multiple of the duration of the reading
constexpr std::chrono::seconds longest_rest{3};

}  // namespace

struct SweepWatch::State {
  std::string sweep;
  std::mutex mutex;
  std::condition_variable changed;
  bool dirty = true;
  std::optional<Clock::time_point> looking_since;  // needs no mutex: only the thread that waits uses it
  Clock::time_point rest_until{};
  // Declared last, so that the reflectors are destroyed first: their callbacks use the other members.
  std::unique_ptr<kube::Reflector> config_maps, jobs, pods, events;

  void mark() {
    {
      const std::lock_guard lock(mutex);
      dirty = true;
    }
    changed.notify_all();
  }
  // The reflectors whose objects a sweep needs.
  std::array<const kube::Reflector*, 3> all() const { return {config_maps.get(), jobs.get(), pods.get()}; }
};

SweepWatch::SweepWatch(kube::Client& client, const std::string& name_space, const std::string& sweep)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.sweep = sweep;
  const auto watch = [&](const kube::Resource& resource) {
    return std::make_unique<kube::Reflector>(client, resource, name_space, of_sweep(sweep, resource),
                                             [&state] { state.mark(); });
  };
  state.config_maps = watch(kube::resources::config_maps);
  state.jobs = watch(kube::resources::jobs);
  state.pods = watch(kube::resources::pods);
  // These are the events of the whole namespace, so they do not wake wait(). The user may have no right to
  // watch them.
  const kube::ListOptions warnings{.field_selector = "type!=Normal"};
  state.events =
      std::make_unique<kube::Reflector>(client, kube::resources::events, name_space, warnings, [] {});
}

SweepWatch::~SweepWatch() = default;

bool SweepWatch::wait(std::chrono::milliseconds timeout) {
  observed();
  const Clock::time_point end = Clock::now() + timeout;
  std::this_thread::sleep_until(std::min(state_->rest_until, end));
  if (state_->rest_until > end) return false;
  std::unique_lock lock(state_->mutex);
  const bool changed = state_->changed.wait_until(lock, end, [this] { return state_->dirty; });
  state_->dirty = false;
  return changed;
}

void SweepWatch::observed() {
  if (!state_->looking_since) return;
  const Clock::time_point now = Clock::now();
  state_->rest_until = now + std::min<Clock::duration>(rests * (now - *state_->looking_since), longest_rest);
  state_->looking_since.reset();
}

std::optional<SweepObjects> SweepWatch::objects() {
  state_->looking_since = Clock::now();
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
  if (!extract_owner(out)) throw Error(ExitCode::not_found, "sweep " + state_->sweep + " was deleted");
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
