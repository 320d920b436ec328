// The connections of a server, and how it ends.
#include "runtime/ps/machines/server_machine.h"

#include <algorithm>

#include "runtime/base/code_probe.h"
#include "runtime/membership/peers.h"
#include "runtime/ps/machines/timers.h"

namespace mlk::rt {
namespace {

void send_finished(PeerId to, const Bytes& result, Turn& turn) {
  turn.send(to, {.type = MessageType::finish}, result);
}

}  // namespace

ServerMachine::ServerMachine(const Settings& settings, kernels::Ops& ops, SteadyTime now)
    : settings_(settings), ops_(ops), heard_(now), stuck_since_(now) {
  if (settings.rank == 0) coordinator_.emplace(settings.run, now);
}

void ServerMachine::handle(const Event& event, Turn& turn) {
  switch (event.kind) {
    case Event::Kind::up:
      on_up(event, turn);
      break;
    case Event::Kind::goodbye:
      if (event.header.clock != static_cast<std::uint64_t>(ExitCode::trained)) break;
      if (event.peer.role == Role::worker) left_.insert(event.peer.rank);
      if (event.peer == server_0) server_0_left_ = true;
      break;
    case Event::Kind::down:
    case Event::Kind::silent:
      on_lost(event, turn);
      break;
    case Event::Kind::audible:
      on_audible(event, turn);
      break;
    case Event::Kind::message:
      on_message(event, turn);
      break;
    case Event::Kind::room:
      if (event.peer.role == Role::worker) turn.decide(FlushWeights{event.peer});
      break;
    default:
      break;
  }
  if (!linked_.empty()) heard_ = turn.now;
}

void ServerMachine::on_up(const Event& event, Turn& turn) {
  const PeerId peer = event.peer;
  if (peer.role == Role::worker) {
    linked_[peer.rank] = event.incarnation;
    met_ = true;
    if (coordinator_) coordinator_->worker_up(peer);
  } else {
    servers_.insert(peer.rank);
    if (peer == server_0) server_0_left_ = false;
    introduce(turn);
  }
  if (finished_) send_finished(peer, result_, turn);
}

void ServerMachine::on_lost(const Event& event, Turn& turn) {
  const PeerId peer = event.peer;
  const bool down = event.kind == Event::Kind::down;
  // Other workers get the slice of a silent worker. If the silent worker sends its gradients later, each
  // slice still counts only once.
  if (peer.role == Role::worker) {
    if (down) {
      const auto linked = linked_.find(peer.rank);
      if (linked == linked_.end() || linked->second != event.incarnation) return;
      linked_.erase(linked);
      queued_.erase(peer.rank);
      if (!left_.contains(peer.rank)) last_loss_ = turn.now;
    }
    workers_.erase(peer.rank);
  }
  if (coordinator_ && (peer.role == Role::worker || down)) coordinator_->peer_down(peer, turn);
  if (peer.role == Role::server && down) servers_.erase(peer.rank);
}

// While the worker was silent, this server counted it as lost. The worker does not know that: without this
// message, it would wait for work for ever.
void ServerMachine::on_audible(const Event& event, Turn& turn) {
  const PeerId peer = event.peer;
  const auto linked = linked_.find(peer.rank);
  if (peer.role != Role::worker || linked == linked_.end() || linked->second != event.incarnation) return;
  code_probe("ps.heard-again");
  if (coordinator_) {
    coordinator_->worker_up(peer);
    turn.send(peer, {.type = MessageType::wait, .flags = flag_rejoin});
  }
  if (finished_) send_finished(peer, result_, turn);
}

void ServerMachine::on_message(const Event& event, Turn& turn) {
  const Header& header = event.header;
  const std::uint32_t rank = event.peer.rank;
  const bool from_worker = event.peer.role == Role::worker;
  // The sender did not know yet that the run is trained. This server sends `finish` again, because the queue
  // may have had no room for the first `finish`.
  if (finished_ && (header.type == MessageType::join || header.type == MessageType::ready)) {
    code_probe("ps.told-too-late");
    return send_finished(event.peer, result_, turn);
  }
  if (from_worker && header.generation != 0) workers_[rank] = header.generation;
  switch (header.type) {
    case MessageType::join:
      return on_join(event, turn);
    case MessageType::seed_wanted:
      return on_seed_wanted(event, turn);
    case MessageType::seed:
      return on_seed(event, turn);
    case MessageType::push:
      return on_push(event, turn);
    case MessageType::pull:
      return on_pull(event, turn);
    case MessageType::capture:
      return on_capture(event, turn);
    case MessageType::finish:
      if (!from_worker) finish(event.payload, turn);
      break;
    case MessageType::cut_off:
      if (!from_worker) break;
      workers_.erase(rank);
      if (coordinator_) coordinator_->worker_cut_off(event.peer, turn);
      break;
    default:
      if (coordinator_) dispatch_to_coordinator(event, turn);
      break;
  }
}

// Messages that only server 0 handles.
void ServerMachine::dispatch_to_coordinator(const Event& event, Turn& turn) {
  const Header& header = event.header;
  const std::uint32_t rank = event.peer.rank;
  const bool from_worker = event.peer.role == Role::worker;
  switch (header.type) {
    case MessageType::captured:
      if (!from_worker) coordinator_->captured(rank, header.clock, turn);
      break;
    case MessageType::written:
      if (const auto written = decode_written(header, event.payload); written && !from_worker)
        coordinator_->written(rank, *written, turn);
      break;
    case MessageType::seeded:
      if (!from_worker) coordinator_->server_seeded(rank, header.clock, turn);
      break;
    case MessageType::ready:
      if (const auto ready = decode_ready(event.payload))
        coordinator_->worker_ready(event.peer, *ready, turn);
      break;
    case MessageType::reported:
      return coordinator_->worker_reported(event.payload);
    default:
      break;
  }
}

void ServerMachine::tick(Turn& turn) {
  if (coordinator_ && !finished_) coordinator_->tick(turn);
  if (!turn.failed()) end_if_over(turn);
}

// The run is trained. Connected peers get the message `finish` now, and later peers get it when they connect.
void ServerMachine::finish(const Bytes& result, Turn& turn) {
  if (finished_) return;
  code_probe("ps.finish-told");
  finished_ = turn.now;
  turn.decide(RunIsTrained{});
  result_ = result;
  for (const auto& [worker, incarnation] : linked_) send_finished({Role::worker, worker}, result_, turn);
  for (const std::uint32_t server : servers_) send_finished({Role::server, server}, result_, turn);
}

// The server waits longer for its first workers, since their pods may be pending while the cluster is full.
// In three cases it waits only as long as the patience of the run: workers were connected and are gone (the
// run is over, or starts again with new servers); this server replaces a lost server (workers wait for it
// already); or server 0 has ended with 0 (the run does not continue). If the run was already trained when
// this server started (its final checkpoint was on the disk), the server waits for trained_patience at most.
std::chrono::seconds ServerMachine::patience() const {
  const std::chrono::seconds patience(settings_.run.config.patience_seconds);
  if (settings_.run.trained) return std::min<std::chrono::seconds>(patience, ps_timers::trained_patience);
  if (met_ || settings_.failures > 0 || server_0_left_) return patience;
  return std::max<std::chrono::seconds>(patience, ps_timers::first_worker_patience);
}

bool ServerMachine::everyone_has_ended(SteadyTime now) const {
  const bool somebody_is_there = std::any_of(
      linked_.begin(), linked_.end(), [this](const auto& worker) { return !left_.contains(worker.first); });
  return left_.size() >= static_cast<std::size_t>(settings_.run.config.workers.count) || server_0_left_ ||
         now > late_deadline(*finished_, last_loss_, somebody_is_there, settings_.late);
}

void ServerMachine::end_if_over(Turn& turn) {
  const bool trained = settings_.run.trained;
  if (!linked_.empty()) heard_ = turn.now;
  if (coordinator_ && coordinator_->finished()) finish(coordinator_->result(), turn);
  // Gathering needs all servers, but servers that have ended with 0 do not come back. So this server tells
  // the waiting workers that the run is trained.
  const bool stuck = trained && coordinator_ && coordinator_->gathering() && !linked_.empty();
  if (!stuck) stuck_since_ = turn.now;
  if (turn.now - stuck_since_ > patience()) finish({}, turn);
  if (finished_) {
    if (everyone_has_ended(turn.now) || stop_requested_) turn.decide(End{ExitCode::trained, true});
    return;
  }
  if (stop_requested_) {
    if (!stopped_) stopped_ = turn.now;
    if (coordinator_) coordinator_->stop(turn.now);
    // Server 0 must commit the parts of the other servers. So these servers stay until server 0 is gone, for
    // leave_patience at most.
    const bool saved = coordinator_
                           ? coordinator_->terminated()
                           : !servers_.contains(0) || turn.now - *stopped_ > ps_timers::leave_patience;
    if (saved) {
      if (!coordinator_ && servers_.contains(0)) code_probe("ps.server-0-overdue");
      code_probe("ps.server-terminated");
      End end{ExitCode::terminated, false, "terminated"};
      if (coordinator_) end.checkpoint = coordinator_->committed();
      return turn.decide(end);
    }
  }
  if (turn.now - heard_ <= patience()) return;
  code_probe("ps.no-worker-heard");
  if (patience() == ps_timers::first_worker_patience) code_probe("ps.first-worker-overdue");
  turn.log(trained ? "the run is trained: its last checkpoint is there"
                   : "no worker was heard of for " + std::to_string(patience().count()) + " s");
  // A server to which no worker has ever connected cannot know whether the run still needs it. So it ends
  // with peers_lost.
  turn.decide(End{trained || met_ ? ExitCode::trained : ExitCode::peers_lost, trained,
                  trained ? "" : "no worker was heard of"});
}

}  // namespace mlk::rt
