#include "tests/sim/rank.h"

#include <cstring>
#include <utility>

#include "tests/sim/codec.h"
#include "tests/sim/probes.h"

namespace mlk::sim {
namespace {

using rt::Event, rt::MessageType, rt::PayloadReader, rt::PayloadWriter, rt::RankTurn;

constexpr Duration look_interval = 1s, next_try_after = 1s, signal_seen_within = 50ms;
constexpr Duration shortest_pause = 1us, save_poll = 100ms;
constexpr Duration preemption = 10ms;
constexpr std::uint64_t state_floats = 2;  // of the parameters, and of the optimizer's state

}  // namespace

SteadyTime SimulatedRank::local(SteadyTime time) const {
  return time + time.time_since_epoch() / 1'000'000 * drift_ppm_;
}

SteadyTime SimulatedRank::global(SteadyTime time) const {
  return time - time.time_since_epoch() / 1'000'000 * drift_ppm_;
}

// ---- the process

void SimulatedRank::start(std::uint64_t incarnation) {
  trace("starts");
  rt::RankSettings settings;
  settings.assembly.self = {rank_, incarnation};
  settings.assembly.address = "rank-" + std::to_string(rank_) + ":1";
  settings.assembly.workers = s_.settings.ranks;
  settings.assembly.minimum = s_.settings.minimum;
  settings.assembly.seeds = s_.settings.seeds;
  settings.assembly.patience = s_.settings.patience;
  settings.assembly.new_lineage = [this] { return s_.random.next() | 1; };
  settings.steps = s_.settings.steps;
  settings.step_samples = s_.settings.step_samples;
  settings.parameters = settings.optimizer_floats = state_floats;
  settings.late = s_.settings.late;
  process_ = std::make_unique<Process>(incarnation, std::move(settings));
  s_.network.start(process_number_, incarnation);
  for (std::uint32_t peer = 0; peer < std::min(rank_, s_.settings.seeds); ++peer)
    s_.network.dial(process_number_, peer);
  act([this](RankTurn& turn) { process_->machine.start(turn); });
}

// The machine sees the signal at its next call.
void SimulatedRank::terminate() {
  process_->stopping = true;
  plan(s_.random.between(Duration(0), signal_seen_within), [this] { tick(); });
}

void SimulatedRank::stop() { process_.reset(); }

void SimulatedRank::thaw() {
  process_->frozen = false;
  const std::uint64_t self = process_->incarnation;
  for (auto& action : std::exchange(process_->postponed, {})) {
    if (running() && process_->incarnation == self) action();
  }
}

void SimulatedRank::plan(Duration time, Clock::Action action) {
  s_.clock.after(time, [this, self = process_->incarnation, action = std::move(action)]() mutable {
    if (!running() || process_->incarnation != self) return;
    if (process_->frozen) return process_->postponed.push_back(std::move(action));
    action();
  });
}

// The process works for this time. Events that come meanwhile have to wait.
void SimulatedRank::work(Duration time, Clock::Action then) {
  process_->busy = true;
  plan(time, [this, then = std::move(then)] {
    process_->busy = false;
    then();
    drain();
  });
}

void SimulatedRank::drain() {
  while (running() && !process_->busy && !process_->inbox.empty()) {
    Event event = std::move(process_->inbox.front());
    process_->inbox.pop_front();
    take_in(std::move(event));
  }
}

void SimulatedRank::deliver(Event&& event) {
  if (!running()) return;
  process_->inbox.push_back(std::move(event));
  drain();
}

void SimulatedRank::act(const std::function<void(RankTurn&)>& call) {
  if (process_->stopping) process_->machine.stop();
  RankTurn turn{local_now()};
  call(turn);
  for (const std::string_view probe : take_passed_probes()) s_.passed(process_number_, probe);
  note_state();
  const std::uint64_t self = process_->incarnation;
  for (auto& decision : turn.in_order) {
    std::visit([this](auto& wanted) { execute(wanted); }, decision);
    if (!running() || process_->incarnation != self) return;
  }
  plan_tick();
}

// Reports a generation that has begun to the invariants, before this rank replaces its state.
void SimulatedRank::note_state() {
  const rt::RankMachine& machine = process_->machine;
  const std::pair now(machine.assembly().lineage(), machine.assembly().generation().number);
  if (machine.goes_on() && now != process_->begun) {
    process_->begun = now;
    s_.invariants.begun({{rank_, process_->incarnation},
                         now.first,
                         now.second,
                         process_->newest_step,
                         std::exchange(process_->made, false)},
                        s_.clock.now());
  }
  if (machine.has_state()) process_->newest_step = machine.point().step;
}

void SimulatedRank::plan_tick() {
  SteadyTime next = process_->machine.next_tick();
  if (process_->machine.checks_for_last()) next = std::min(next, process_->next_look);
  if (next == SteadyTime::max() || process_->busy) return;
  const bool at_once = next == SteadyTime();
  // Events may also come before a process begins its next step.
  const Duration pause = at_once && s_.random.one_in(8) ? s_.random.between(Duration(0), preemption) : 0ns;
  const Duration least = at_once ? pause : process_->first_try ? save_poll : shortest_pause;
  const SteadyTime at = std::max(global(next), s_.clock.now() + least);
  auto& planned = process_->tick_planned;
  if (planned && *planned <= at && *planned > s_.clock.now()) return;
  planned = at;
  plan(at - s_.clock.now(), [this, at] {
    if (process_->tick_planned != at) return;
    process_->tick_planned.reset();
    tick();
  });
}

void SimulatedRank::tick() {
  if (process_->busy) return;
  if (process_->machine.checks_for_last() && local_now() >= process_->next_look) {
    process_->next_look = local_now() + look_interval;
    if (s_.disk.there && s_.disk.newest && s_.disk.newest->point.step >= s_.settings.steps) {
      trace("finds the last checkpoint");
      return act([this](RankTurn& turn) { process_->machine.found_last(turn); });
    }
  }
  act([this](RankTurn& turn) { process_->machine.tick(turn); });
}

void SimulatedRank::take_in(Event&& event) {
  if (event.kind == Event::Kind::replaced) {
    if (!process_->trained) exit(rt::ExitCode::peers_lost);
  } else if (event.kind == Event::Kind::message && event.header.type == MessageType::reduce) {
    keep_part(event);
    go_on_summing();
  } else {
    act([&](RankTurn& turn) { process_->machine.handle(std::move(event), turn); });
    if (running()) go_on_summing();
  }
}

// ---- messages

void SimulatedRank::send(std::uint32_t to, const rt::Header& header, rt::Bytes&& payload, Duration extra) {
  const rt::Header read = through_codecs({rt::Role::worker, rank_}, header, payload);
  s_.network.send(process_number_, to, read, std::move(payload), extra);
}

void SimulatedRank::execute(rt::Effects::Effect& effect) {
  if (auto* message = std::get_if<rt::Effects::Message>(&effect)) {
    send(message->to.rank, message->header, std::move(message->payload));
  } else if (const auto* dial = std::get_if<rt::Effects::Dial>(&effect)) {
    s_.network.dial(process_number_, dial->peer.rank);
  } else {
    trace(std::get<rt::Effects::Line>(effect).text);
  }
}

// ---- the state

void SimulatedRank::execute(const rt::MakeState&) {
  work(s_.disk.there ? write_time() : 0ns, [this] {
    SavedState state;
    if (s_.disk.there && s_.disk.newest) state = *s_.disk.newest;
    if (s_.disk.there && s_.disk.full && state.point.step < s_.settings.steps) {
      trace("cannot save anything");
      return exit(rt::ExitCode::checkpoint_unusable);
    }
    process_->weights = state.weights;
    process_->made = true;
    trace("makes a state of step " + std::to_string(state.point.step));
    state.point.summed_in = 0;
    act([&](RankTurn& turn) { process_->machine.state_made(state.point, state.restarts, turn); });
  });
}

// Sends two parts: after the first part the receiver's own state is spoilt.
void SimulatedRank::execute(const rt::SendState& wanted) {
  const rt::StatePoint& point = process_->machine.point();
  const auto& lagging = process_->machine.assembly().beginning().lagging;
  const auto before = std::distance(lagging.begin(), lagging.find(wanted.rank));
  const Duration transfer = s_.settings.transfer * s_.transfer_slowness;
  for (const std::uint64_t part : {0u, 1u}) {
    rt::EncodedMessage message = encode(rt::StateMessage{
        process_->machine.assembly().generation().number, point.step, point.position, point.state_since,
        point.summed_in, part * state_floats, std::as_bytes(std::span(&process_->weights[part], 1))});
    const Duration extra = part == 0 ? transfer * before + transfer / 2 : transfer / 2;
    send(wanted.rank, message.header, std::move(message.payload), extra);
  }
  // The process handles no event until the last state is sent.
  if (wanted.rank == *lagging.rbegin())
    work(transfer * (before + 1), [this] { plan(0ns, [this] { tick(); }); });
}

void SimulatedRank::execute(const rt::StoreState& wanted) {
  const auto part = rt::decode_state(wanted.part.header, wanted.part.payload);
  std::memcpy(&process_->weights.at(part->offset / state_floats), part->floats.data(), part->floats.size());
  process_->newest_step = process_->machine.has_state() ? process_->machine.point().step : 0;
}

// ---- the disk, and the end

SavedState SimulatedRank::snapshot() const {
  return {process_->machine.point(), process_->weights, process_->machine.assembly().restarts()};
}

Duration SimulatedRank::write_time() const {
  return std::min<Duration>(s_.random.between(s_.settings.write / 2, s_.settings.write) * s_.disk.slowness,
                            30s);
}

void SimulatedRank::write() {
  process_->due = false;
  process_->writing = true;
  plan(write_time(), [this, snapshot = snapshot()] {
    process_->writing = false;
    if (!s_.disk.full) return saved(snapshot);
    process_->next_try = local_now() + next_try_after;
  });
}

void SimulatedRank::saved(const SavedState& snapshot) {
  process_->committed = snapshot.point.step;
  if (!s_.disk.newest || s_.disk.newest->point.step <= snapshot.point.step) s_.disk.newest = snapshot;
}

void SimulatedRank::execute(const rt::AfterStep&) {
  const std::uint64_t step = process_->machine.point().step;
  if (step % s_.settings.checkpoint_every == 0) process_->due = true;
  if (process_->due && !process_->writing && s_.disk.there && step < s_.settings.steps) write();
}

void SimulatedRank::execute(const rt::SaveLast&) {
  if (!s_.disk.there || process_->committed >= s_.settings.steps)
    return act([this](RankTurn& turn) { process_->machine.last_saved(turn); });
  if (!process_->first_try) process_->first_try = local_now();
  if (process_->writing || local_now() < process_->next_try) return;
  if (local_now() - *process_->first_try > s_.settings.patience) {
    trace("cannot save the last step");
    return exit(rt::ExitCode::checkpoint_unusable);
  }
  write();
}

void SimulatedRank::execute(const rt::ReportTrained&) {
  work(s_.settings.compute, [this] {
    const bool done = !process_->stopping;
    if (done) {
      trace("the run is trained");
      s_.invariants.trained(process_->machine.assembly().lineage(), s_.clock.now());
    }
    act([&](RankTurn& turn) { process_->machine.reported(done, "result", turn); });
  });
}

void SimulatedRank::execute(const rt::EndWithFound&) {
  s_.invariants.trained(0, s_.clock.now());
  work(s_.settings.compute, [this] { exit(rt::ExitCode::trained); });
}

void SimulatedRank::execute(const rt::EndTerminated&) {
  const bool saves = process_->save_at_end && s_.disk.there;
  work(saves ? write_time() : 0ns, [this, saves] {
    if (saves && !s_.disk.full) saved(snapshot());
    exit(rt::ExitCode::terminated);
  });
}

void SimulatedRank::execute(const rt::Failure& failure) {
  trace(failure.what());
  exit(failure.code);
}

void SimulatedRank::exit(rt::ExitCode code) {
  trace("ends with exit code " + std::to_string(static_cast<int>(code)));
  s_.network.end(process_number_, static_cast<int>(code));
  stop();
  s_.ended(process_number_, code);
}

std::string SimulatedRank::describe() const {
  if (!running()) return "is not running";
  const rt::RankMachine& machine = process_->machine;
  return std::string(process_->frozen ? "is frozen, " : "") + machine.doing() + ", generation " +
         std::to_string(machine.assembly().generation().number) +
         (machine.has_state() ? ", step " + std::to_string(machine.point().step) : ", without a state");
}

}  // namespace mlk::sim
