#include "tests/sim/rank.h"

#include <utility>

#include "runtime/membership/peers.h"

namespace mlk::sim {
namespace {

using rt::Assembly, rt::Event, rt::MessageType, rt::PayloadReader, rt::PayloadWriter;

constexpr Duration transfer_patience = 60s, look_interval = 1s, next_try = 1s, shortest_pause = 1us;

}  // namespace

SteadyTime SimulatedRank::local(SteadyTime time) const {
  const auto elapsed = time.time_since_epoch();
  return time + elapsed / 1'000'000 * drift_ppm_;
}

SteadyTime SimulatedRank::global(SteadyTime time) const {
  const auto elapsed = time.time_since_epoch();
  return time - elapsed / 1'000'000 * drift_ppm_;
}

void SimulatedRank::start(std::uint64_t incarnation) {
  stop();
  incarnation_ = incarnation;
  trace("starts");
  rt::AssemblySettings settings;
  settings.self = {rank_, incarnation};
  settings.address = "rank-" + std::to_string(rank_) + ":1";
  settings.workers = s_.settings.ranks;
  settings.minimum = s_.settings.minimum;
  settings.seeds = s_.settings.seeds;
  settings.patience = s_.settings.patience;
  settings.new_lineage = [this] { return s_.random.next() | 1; };
  assembly_.emplace(std::move(settings));
  s_.network.start(rank_, incarnation);
  for (std::uint32_t peer = 0; peer < std::min(rank_, s_.settings.seeds); ++peer)
    s_.network.dial(rank_, peer);
  assemble();
}

void SimulatedRank::stop() {
  incarnation_ = 0;
  frozen_ = busy_ = due_ = writing_ = made_ = false;
  postponed_.clear();
  inbox_.clear();
  assembly_.reset();
  effects_ = {};
  tick_planned_.reset();
  state_.reset();
  lagging_.clear();
  early_parts_.clear();
  newest_step_ = 0;
  receiving_ = false;
  parts_.clear();
}

void SimulatedRank::thaw() {
  frozen_ = false;
  const std::uint64_t self = incarnation_;
  for (auto& action : std::exchange(postponed_, {})) {
    if (incarnation_ == self) action();
  }
}

void SimulatedRank::plan(Duration time, Clock::Action action) {
  s_.clock.after(time, [this, self = incarnation_, action = std::move(action)]() mutable {
    if (incarnation_ != self) return;
    if (frozen_) return postponed_.push_back(std::move(action));
    action();
  });
}

// What comes meanwhile has to wait.
void SimulatedRank::work(Duration time, Clock::Action then) {
  busy_ = true;
  plan(time, [this, then = std::move(then)] {
    busy_ = false;
    then();
    drain();
  });
}

void SimulatedRank::drain() {
  while (running() && !busy_ && !inbox_.empty()) {
    Event event = std::move(inbox_.front());
    inbox_.pop_front();
    take_in(std::move(event));
  }
}

void SimulatedRank::deliver(Event&& event) {
  if (!running()) return;
  inbox_.push_back(std::move(event));
  drain();
}

void SimulatedRank::take_in(Event&& event) {
  if (event.kind == Event::Kind::replaced) {
    if (doing_ != Doing::staying) return exit(rt::ExitCode::peers_lost);
  } else if (event.kind == Event::Kind::message && event.header.type == MessageType::feed) {
    receive_state(event);
  } else if (event.kind == Event::Kind::message && event.header.type == MessageType::reduce) {
    keep_part(event);
  } else {
    if (s_.settings.network.plants.silence_is_death && event.kind == Event::Kind::silent) {
      event.kind = Event::Kind::down;
      event.proven = true;
    }
    assembly_->handle(event, local_now(), effects_);
    carry_out();
  }
  progress();
}

void SimulatedRank::carry_out() {
  for (auto& effect : std::exchange(effects_.in_order, {})) {
    if (auto* message = std::get_if<rt::Effects::Message>(&effect)) {
      if (s_.settings.network.plants.always_accepts && message->header.type == MessageType::refuse)
        message->header = encode(rt::AcceptMessage{decode_refuse(message->header).refused, {}}).header;
      s_.network.send(rank_, message->to.rank, message->header, std::move(message->payload));
    } else if (const auto* dial = std::get_if<rt::Effects::Dial>(&effect)) {
      s_.network.dial(rank_, dial->peer.rank);
    } else {
      trace(std::get<rt::Effects::Line>(effect).text);
    }
  }
}

void SimulatedRank::progress() {
  if (!running() || busy_) return;
  if (assembly_->phase() == Assembly::Phase::failed) {
    trace(assembly_->failure().what());
    return exit(rt::ExitCode::peers_lost);
  }
  switch (doing_) {
    case Doing::assembling:
      if (assembly_->phase() == Assembly::Phase::trained) return exit(rt::ExitCode::trained);
      if (assembly_->wants_state()) return make_state();
      return goes_on() ? begun() : plan_tick();
    case Doing::receiving:
      if (!receiving_) return next_step();
      if (!goes_on()) {
        receiving_ = false;
        assembly_->tell_trouble(effects_);
        carry_out();
        give_up();
      }
      return;
    case Doing::summing:
      if (!goes_on()) {
        assembly_->tell_trouble(effects_);
        carry_out();
        return give_up();
      }
      if (has_all_parts()) commit();
      return;
    case Doing::saving_last:
      if (!goes_on()) give_up();
      return;
    case Doing::staying:
      return stay();
    case Doing::computing:
      return;
  }
}

// ---- membership

void SimulatedRank::assemble() {
  doing_ = Doing::assembling;
  tick_planned_.reset();
  assembly_->assemble(local_now(), effects_);
  carry_out();
  look_at_disk(++waits_);
  if (running() && doing_ == Doing::assembling) plan_tick();
}

void SimulatedRank::look_at_disk(std::uint64_t wait) {
  if (waits_ != wait || doing_ != Doing::assembling) return;
  if (!busy_ && s_.disk.there && s_.disk.newest && s_.disk.newest->version.step >= s_.settings.steps) {
    trace("finds the last checkpoint");
    return exit(rt::ExitCode::trained);
  }
  plan(look_interval, [this, wait] { look_at_disk(wait); });
}

void SimulatedRank::plan_tick() {
  const SteadyTime at = std::max(global(assembly_->next_tick()), s_.clock.now() + shortest_pause);
  if (tick_planned_ && *tick_planned_ <= at && *tick_planned_ > s_.clock.now()) return;
  tick_planned_ = at;
  plan(at - s_.clock.now(), [this, at] {
    if (tick_planned_ != at) return;
    tick_planned_.reset();
    if (busy_ || doing_ != Doing::assembling) return;
    assembly_->tick(local_now(), effects_);
    carry_out();
    progress();
  });
}

void SimulatedRank::make_state() {
  work(s_.disk.there ? slowed(s_.settings.write) : 0ns, [this] {
    state_ = s_.disk.there && s_.disk.newest ? *s_.disk.newest : State{};
    state_->version.summed_in = 0;
    made_ = true;
    trace("makes a state of step " + std::to_string(state_->version.step));
    newest_step_ = state_->version.step;
    assembly_->state_made(state_->version, state_->restarts, local_now(), effects_);
    carry_out();
    progress();
  });
}

void SimulatedRank::begun() {
  ++waits_;
  s_.invariants.begun(
      {assembly_->lineage(), assembly_->generation().number, newest_step_, std::exchange(made_, false)},
      s_.clock.now());
  lagging_ = assembly_->beginning().lagging;
  if (assembly_->beginning().source == rank_) {
    Duration extra{0};
    for (const std::uint32_t rank : lagging_) send_state(rank, extra += s_.settings.transfer);
  }
  const bool keeps_own = s_.settings.network.plants.keeps_own_state && state_;
  if (!lagging_.contains(rank_) || keeps_own) return next_step();
  doing_ = Doing::receiving;
  receiving_ = true;
  if (s_.settings.network.plants.drops_state) {
    state_.reset();
    state_changed();
  }
  plan(transfer_patience * std::max<std::size_t>(lagging_.size(), 1), [this, wait = waits_] {
    if (waits_ != wait || doing_ != Doing::receiving) return;
    receiving_ = false;
    assembly_->tell_trouble(effects_);
    carry_out();
    give_up();
  });
  for (const Event& part : std::exchange(early_parts_, {})) receive_state(part);
  progress();
}

void SimulatedRank::give_up() {
  if (assembly_->phase() == Assembly::Phase::trained) return exit(rt::ExitCode::trained);
  assemble();
}

// ---- the state

void SimulatedRank::state_changed() {
  if (state_) newest_step_ = state_->version.step;
  assembly_->set_state(state_ ? std::optional(state_->version) : std::nullopt);
}

// In two parts: after the first the receiver's own state is spoilt.
void SimulatedRank::send_state(std::uint32_t to, Duration extra) {
  rt::Header header;
  header.type = MessageType::feed;
  header.generation = assembly_->generation().number;
  header.clock = state_->version.step;
  for (const std::uint32_t part : {0u, 1u}) {
    header.key = part;
    s_.network.send(
        rank_, to, header,
        PayloadWriter().put(state_->version.summed_in).put(state_->hash).put(state_->restarts).bytes(),
        part == 0 ? extra - s_.settings.transfer / 2 : s_.settings.transfer / 2);
  }
}

void SimulatedRank::receive_state(const Event& event) {
  if (event.header.generation > assembly_->generation().number) {
    std::erase_if(early_parts_,
                  [&](const Event& e) { return e.header.generation < event.header.generation; });
    early_parts_.push_back(event);
    return;
  }
  if (event.header.generation != assembly_->generation().number || !receiving_) return;
  PayloadReader reader(event.payload);
  State state;
  state.version = {event.header.clock, reader.get<std::uint64_t>()};
  state.hash = reader.get<std::uint64_t>();
  state.restarts = reader.get<std::uint64_t>();
  if (event.header.key == 0) {
    state_.reset();
    newest_step_ = 0;
  } else {
    state_ = state;
    receiving_ = false;
  }
  state_changed();
}

// ---- steps

Part SimulatedRank::own_part() const {
  const std::uint64_t members = assembly_->generation().members.size();
  const std::uint64_t index = *assembly_->generation().index_of(rank_), all = s_.settings.step_samples;
  return {state_->hash, all * index / members, all * (index + 1) / members};
}

void SimulatedRank::next_step() {
  if (state_->version.step >= s_.settings.steps) {
    doing_ = Doing::saving_last;
    return save();
  }
  if (assembly_->wants_newcomers(local_now())) return assemble();
  doing_ = Doing::computing;
  work(s_.random.between(s_.settings.compute / 2, s_.settings.compute), [this] {
    doing_ = Doing::summing;
    add_part();
    progress();
  });
}

void SimulatedRank::add_part() {
  const Part part = own_part();
  const rt::Generation& generation = assembly_->generation();
  rt::Header header;
  header.type = MessageType::reduce;
  header.generation = generation.number;
  header.clock = state_->version.step;
  for (const rt::Member& member : generation.members) {
    if (member.rank == rank_) continue;
    s_.network.send(rank_, member.rank, header,
                    PayloadWriter().put(part.state).put(part.begin).put(part.end).bytes());
  }
}

void SimulatedRank::keep_part(const Event& event) {
  PayloadReader reader(event.payload);
  Part part;
  part.state = reader.get<std::uint64_t>();
  part.begin = reader.get<std::uint64_t>();
  part.end = reader.get<std::uint64_t>();
  parts_[{event.header.generation, event.header.clock, event.peer.rank}] = part;
}

bool SimulatedRank::has_all_parts() const {
  const rt::Generation& generation = assembly_->generation();
  const std::uint64_t step = state_->version.step;
  return std::ranges::all_of(generation.members, [&](const rt::Member& member) {
    return member.rank == rank_ || parts_.contains({generation.number, step, member.rank});
  });
}

void SimulatedRank::commit() {
  const rt::Generation& generation = assembly_->generation();
  const std::uint64_t step = state_->version.step;
  Invariants::Commit commit{assembly_->lineage(),
                            generation,
                            assembly_->beginning().step,
                            step,
                            {},
                            mix(state_->hash, generation.number)};
  for (const rt::Member& member : generation.members) {
    const Part part = member.rank == rank_ ? own_part() : parts_.at({generation.number, step, member.rank});
    commit.result = mix(commit.result, mix(part.state, mix(part.begin, part.end)));
    commit.parts.push_back(part);
  }
  parts_.erase(parts_.begin(), parts_.upper_bound({generation.number, step, ~0u}));
  trace("commits step " + std::to_string(step) + " in generation " + std::to_string(generation.number));
  s_.invariants.committed(commit);
  *state_ = {{step + 1, generation.number}, commit.result, assembly_->restarts()};
  state_changed();
  lagging_.clear();
  if (reports() && (step + 1) % s_.settings.checkpoint_every == 0) due_ = true;
  if (due_ && step + 1 < s_.settings.steps) save();
  next_step();
}

// ---- the disk, and the end

void SimulatedRank::save() {
  if (writing_ || !reports()) return;
  if (!s_.disk.there) return saved(*state_);
  due_ = false;
  writing_ = true;
  plan(slowed(s_.random.between(s_.settings.write / 2, s_.settings.write)), [this, snapshot = *state_] {
    writing_ = false;
    if (!s_.disk.full) return saved(snapshot);
    if (doing_ == Doing::saving_last)
      plan(next_try, [this] {
        if (doing_ == Doing::saving_last) save();
      });
  });
}

void SimulatedRank::saved(const State& snapshot) {
  if (s_.disk.there && (!s_.disk.newest || s_.disk.newest->version.step <= snapshot.version.step))
    s_.disk.newest = snapshot;
  if (doing_ != Doing::saving_last || busy_) return;
  if (snapshot.version.step >= s_.settings.steps) {
    finish();
  } else {
    save();
  }
}

void SimulatedRank::finish() {
  trace("the run is trained");
  s_.invariants.trained(s_.clock.now());
  assembly_->tell_trained("result", effects_);
  carry_out();
  doing_ = Doing::staying;
  trained_at_ = local_now();
  stay();
}

void SimulatedRank::stay() {
  if (assembly_->all_have_left()) return exit(rt::ExitCode::trained);
  const SteadyTime until = rt::late_deadline(trained_at_, assembly_->last_loss(),
                                             assembly_->somebody_is_there(), s_.settings.late);
  if (local_now() > until) return exit(rt::ExitCode::trained);
  const SteadyTime at = global(until) + 1ms;
  if (tick_planned_ == at) return;
  tick_planned_ = at;
  plan(at - s_.clock.now(), [this, at] {
    if (tick_planned_ != at) return;
    tick_planned_.reset();
    stay();
  });
}

void SimulatedRank::exit(rt::ExitCode code) {
  trace("ends with exit code " + std::to_string(static_cast<int>(code)));
  s_.network.end(rank_, static_cast<int>(code));
  stop();
  s_.ended(rank_, code);
}

std::string SimulatedRank::describe() const {
  if (!running()) return "is not running";
  static constexpr const char* names[] = {"assembling",           "receiving", "computing", "summing",
                                          "saving the last step", "staying"};
  return std::string(frozen_ ? "frozen, " : "") + names[static_cast<int>(doing_)] + ", generation " +
         std::to_string(assembly_->generation().number) +
         (state_ ? ", step " + std::to_string(state_->version.step) : ", without a state");
}

}  // namespace mlk::sim
