// Gathering and seeding: the phases before training starts, or continues after a loss.
#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/ps/machines/coordinator.h"

namespace mlk::rt {

// joined: a worker that has just joined. This worker need not join again.
void Coordinator::start_gathering(Turn& turn, std::optional<std::uint32_t> joined) {
  code_probe("ps.gathering");
  if (phase_ != Phase::gathering) patience_.restart(turn.now);  // before this call, no process was missing
  phase_ = Phase::gathering;
  offers_.clear();  // every worker has to join again when it is connected with all servers
  parked_.clear();
  loading_ = false;
  for (const std::uint32_t server : seeding_.give_up(turn)) {
    if (server == 0) has_weights_ = false;
    if (servers_.contains(server)) servers_[server] = false;
  }
  enough_since_.reset();
  for (const std::uint32_t worker : connected_) {
    if (worker != joined) send(turn, {Role::worker, worker}, MessageType::wait, 0, 0, flag_rejoin);
  }
}

std::vector<std::string> Coordinator::missing() const {
  std::vector<std::string> names;
  for (int rank = 0; rank < settings_.config.workers.count; ++rank) {
    if (!offers_.contains(static_cast<std::uint32_t>(rank)))
      names.push_back("worker " + std::to_string(rank));
  }
  for (int rank = 1; rank < settings_.config.servers.count; ++rank) {
    if (!servers_.contains(static_cast<std::uint32_t>(rank)))
      names.push_back("server " + std::to_string(rank));
  }
  return names;
}

void Coordinator::gather(Turn& turn) {
  if (loading_) return;
  const std::uint64_t newest = offers_.empty() ? 0 : best_offer()->second.clock;
  const bool under_way = newest > 0 || (has_weights_ && leases_.step() > 0);
  // Only the start of a run needs the minimum. Later, one worker is enough.
  const int minimum = under_way || settings_.trained ? 1 : settings_.config.workers.min;
  // A server that has its weights knows the current workers, and waits for only these. A new process waits
  // for all workers of the run.
  const int wanted =
      has_weights_ ? std::max<int>(1, static_cast<int>(connected_.size())) : settings_.config.workers.count;
  const int present = static_cast<int>(offers_.size());
  if (present < minimum) enough_since_.reset();
  if (present >= minimum && !enough_since_) enough_since_ = turn.now;
  const double waited = enough_since_ ? std::chrono::duration<double>(turn.now - *enough_since_).count() : 0;
  const bool servers_there = static_cast<int>(servers_.size()) + 1 >= settings_.config.servers.count;
  if (servers_there && may_start(present, wanted, minimum, waited)) {
    if (present < wanted) code_probe("ps.gathered-without-some");
    patience_.restart(turn.now);
    decide(turn);
    return;
  }
  // If there is no worker, ServerMachine::end_if_over() ends the process.
  if (connected_.empty()) {
    patience_.restart(turn.now);
    return;
  }
  const auto given_up =
      patience_.missing(missing(), std::chrono::seconds(settings_.config.patience_seconds), turn.now, turn);
  if (given_up) code_probe("ps.server-gives-up");
  if (given_up) turn.decide(*given_up);
}

std::map<std::uint32_t, Coordinator::Offer>::const_iterator Coordinator::best_offer() const {
  return std::ranges::max_element(offers_, {}, [](const auto& offer) { return offer.second.clock; });
}

void Coordinator::forget(Turn& turn) {
  has_weights_ = false;
  turn.decide(OpenSeeding{0});
}

void Coordinator::decide(Turn& turn) {
  // If another server has lost its weights and no worker has a copy, this server forgets its own weights.
  const bool all_seeded = std::ranges::all_of(servers_, [](const auto& server) { return server.second; });
  if (has_weights_ && !all_seeded && best_offer()->second.clock == 0 && leases_.step() > 0) {
    turn.log("the weights of step " + std::to_string(leases_.step()) +
             " are lost in part, and no worker has any");
    code_probe("ps.lost-in-part");
    forget(turn);
  }
  if (has_weights_ || !settings_.saves) return go_on_from({}, turn);
  code_probe("ps.loading");
  loading_ = true;
  turn.decide(LoadCheckpoint{});
}

void Coordinator::loaded(const std::optional<Saved>& saved, Turn& turn) {
  if (!std::exchange(loading_, false) || offers_.empty()) return;  // gathering has begun again
  if (saved) checkpoints_.loaded(saved->step);
  go_on_from(saved, turn);
}

// If a worker has trained weights, the run continues with them. Otherwise the run fails.
void Coordinator::unusable(const Failure& why, Turn& turn) {
  if (!std::exchange(loading_, false) || offers_.empty()) return;
  if (best_offer()->second.clock == 0) return turn.decide(why);
  turn.log("warning: goes on with the weights of a worker: " + std::string(why.what()));
  go_on_from({}, turn);
}

void Coordinator::go_on_from(const std::optional<Saved>& saved, Turn& turn) {
  const auto best = best_offer();
  const bool was_empty = !has_weights_;
  const bool from_checkpoint = saved && saved->step > best->second.clock;
  if (const auto unwritable = std::exchange(unwritable_, {})) {
    const bool steps_left = !saved || saved->step < settings_.config.steps;
    if (was_empty && best->second.clock == 0 && steps_left) {
      code_probe("ps.unwritable");
      return turn.decide(*unwritable);
    }
    turn.log("warning: " + std::string(unwritable->what()));
  }
  // Only the worker that made offline steps has the weights of those steps. Server 0 uses these weights only
  // if a server has lost its own weights. Then all servers are seeded, since all chunks of a model must be of
  // the same step.
  const bool from_offline = !to_be_seeded(false).empty() && best->second.offline > 0;
  const auto servers =
      to_be_seeded(from_checkpoint || from_offline || (was_empty && best->second.clock == 0));
  phase_ = Phase::seeding;
  if (servers.empty()) {
    code_probe("ps.nothing-to-seed");
    return maybe_run(turn);
  }

  if (from_checkpoint && saved->misfit) return turn.decide(*saved->misfit);
  if (const std::string why = from_checkpoint ? refuse_other_data(saved->data, data_, saved->step) : "";
      !why.empty())
    return turn.decide(Failure(ExitCode::bad_data, why));
  seeding_.open(servers, turn);
  if (servers.contains(0)) has_weights_ = false;
  for (auto& [server, has_weights] : servers_) {
    if (servers.contains(server)) has_weights = false;
  }
  if (from_checkpoint) {
    code_probe("ps.seeds-from-checkpoint");
    turn.log("goes on from the checkpoint of step " + std::to_string(saved->step));
    leases_.restart(saved->step, saved->position);
    restored_step_ = saved->step;
    go_on_counting(saved->history);
    seeding_.from_checkpoint(turn);
    if (servers.contains(0)) has_weights_ = true;
  } else {
    if (best->second.clock == 0) code_probe("ps.seeds-initial");
    if (best->second.clock > 0) code_probe("ps.seeds-from-worker");
    if (from_offline) code_probe("ps.seeds-offline-steps");
    log_seeders(best->first, best->second, servers, turn);
    seeding_.from_worker(best->first, turn);
    // With async, this server keeps its count of steps if it still has its weights. With sync, it goes back
    // to the step of the seeds.
    if (was_empty || from_offline || settings_.config.consistency.sync)
      leases_.restart(best->second.clock, best->second.position);
  }
  if (was_empty && best->second.clock > 0) take_over();
  maybe_run(turn);
}

// This process replaces a lost server 0, and takes the counts of that server from the workers. With async, no
// process knows which leases were done, so one batch of each worker counts as lost.
void Coordinator::take_over() {
  code_probe("ps.takes-over");
  for (const auto& [rank, offer] : offers_) go_on_counting({offer.restarts, offer.lost_samples});
  ++restarts_;
  if (settings_.config.consistency.sync) return;
  leases_.count_lost(offers_.size() * static_cast<std::uint64_t>(settings_.config.data.batch));
}

void Coordinator::go_on_counting(const RunHistory& history) {
  restarts_ = std::max(restarts_, history.restarts);
  if (history.lost_samples > leases_.lost_samples())
    leases_.count_lost(history.lost_samples - leases_.lost_samples());
}

// Returns the servers without weights. With `all`, returns all servers that hold chunks: a small model may
// have fewer chunks than there are servers.
std::set<std::uint32_t> Coordinator::to_be_seeded(bool all) const {
  std::set<std::uint32_t> servers;
  if (!has_weights_) servers.insert(0);
  for (const auto& [server, has_weights] : servers_) {
    if (!has_weights) servers.insert(server);
  }
  if (all) servers.insert(holders_.begin(), holders_.end());
  return servers;
}

void Coordinator::log_seeders(std::uint32_t worker, const Offer& offer,
                              const std::set<std::uint32_t>& servers, Turn& turn) const {
  if (offer.clock == 0) return;
  for (const std::uint32_t server : servers) {
    turn.log(to_string(PeerId{Role::server, server}) + " is seeded by worker/" + std::to_string(worker) +
             " at step " + std::to_string(offer.clock) + "; its optimizer state starts at zero" +
             (offer.offline == 0 ? "" : "; it made " + std::to_string(offer.offline) + " steps offline"));
  }
}

void Coordinator::server_seeded(std::uint32_t server, std::uint64_t round, Turn& turn) {
  if (!seeding_.seeded(server, round)) return;
  servers_[server] = true;
  if (phase_ == Phase::seeding) maybe_run(turn);
}

void Coordinator::own_seeded(Turn& turn) {
  has_weights_ = true;
  seeding_.own_seeded();
  if (phase_ == Phase::seeding) maybe_run(turn);
}

void Coordinator::maybe_run(Turn& turn) {
  if (!seeding_.done()) return;
  code_probe("ps.training");
  phase_ = Phase::running;
  // A worker that has not joined again gets no work. So its record of leases is removed: otherwise, in
  // a run with a bound on staleness, the other workers would wait for this worker.
  std::set<std::uint32_t> joined;
  for (const auto& [rank, offer] : offers_) joined.insert(rank);
  leases_.retain_only(joined);
  turn.log("training with " + std::to_string(offers_.size()) + " of " +
           std::to_string(settings_.config.workers.count) + " workers from step " +
           std::to_string(leases_.step()));
  if (leases_.finished()) return save(turn);
  serve_parked(turn);
}

}  // namespace mlk::rt
