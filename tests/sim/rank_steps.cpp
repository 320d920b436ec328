// Steps of a simulated rank: its part, and the sum of all parts.
#include <algorithm>

#include "tests/sim/codec.h"
#include "tests/sim/rank.h"

namespace mlk::sim {

using rt::Event, rt::MessageType, rt::PayloadReader, rt::PayloadWriter, rt::RankTurn;

namespace {

// The times at which a sum by devices is polled: see runtime/collectives.
constexpr Duration still_after{500ms}, looked_at_every{250ms};

}  // namespace

void SimulatedRank::execute(const rt::ForgetFrames& wanted) {
  std::erase_if(process_->parts, [&](const auto& part) { return std::get<2>(part.first) == wanted.rank; });
}

void SimulatedRank::execute(const rt::TakeStep& wanted) {
  process_->step = wanted;
  process_->computed = false;
  const auto time = s_.random.between(s_.settings.compute / 2, s_.settings.compute);
  work(time, [this] {
    process_->computed = true;
    process_->part_is_sent = process_->machine.goes_on() && add_part();
    if (s_.settings.devices) look_later(still_after, ++process_->attempt);
    go_on_summing();
  });
  if (!s_.settings.overlaps) return;
  process_->busy = false;
  plan(0ns, [this] { drain(); });
}

Part SimulatedRank::own_part() const {
  return {mix(process_->weights[0], process_->weights[1]), process_->step->begin, process_->step->end};
}

// Returns false if a member is not connected. The real transport reports this to the ring.
bool SimulatedRank::add_part() {
  const Part part = own_part();
  const rt::Generation& generation = process_->machine.assembly().generation();
  rt::Header header;
  header.type = MessageType::reduce;
  header.generation = generation.number;
  header.clock = process_->machine.point().step;
  for (const rt::Member& member : generation.members) {
    if (member.rank == rank_) continue;
    if (s_.network.connected(process_number_, member.rank) == 0) return false;
    send(member.rank, header,
         rt::Bytes(PayloadWriter().put(part.state).put(part.begin).put(part.end).bytes()));
  }
  return true;
}

void SimulatedRank::keep_part(const Event& event) {
  PayloadReader reader(event.payload);
  Part part;
  part.state = reader.get<std::uint64_t>();
  part.begin = reader.get<std::uint64_t>();
  part.end = reader.get<std::uint64_t>();
  process_->parts[{event.header.generation, event.header.clock, event.peer.rank}] = part;
}

bool SimulatedRank::has_all_parts() const {
  const rt::Generation& generation = process_->machine.assembly().generation();
  const std::uint64_t step = process_->machine.point().step;
  return std::ranges::all_of(generation.members, [&](const rt::Member& member) {
    return member.rank == rank_ || process_->parts.contains({generation.number, step, member.rank});
  });
}

void SimulatedRank::go_on_summing() {
  if (!process_->step) return;
  // The thread that sums has ended, and handles no more events until the other thread has computed.
  if (!process_->computed) {
    process_->busy = process_->busy || !process_->machine.goes_on();
    return;
  }
  if (!process_->machine.goes_on() || !process_->part_is_sent) return give_step_up();
  if (has_all_parts() && !process_->sum_hangs) commit();
}

void SimulatedRank::give_step_up() {
  process_->step.reset();
  process_->sum_hangs = false;
  act([this](RankTurn& turn) { process_->machine.step_given_up(turn); });
}

// When a sum by devices stands still, the members report to each other that they wait.
void SimulatedRank::look_later(Duration time, std::uint64_t attempt) {
  plan(time, [this, attempt] {
    if (!process_->step || !process_->computed || process_->attempt != attempt) return;
    bool all_wait = false;
    act([&](RankTurn& turn) { all_wait = process_->machine.waits_for_sum(turn); });
    if (!all_wait) return look_later(looked_at_every, attempt);
    trace("gives up a sum that hangs");
    give_step_up();
  });
}

void SimulatedRank::commit() {
  const rt::Assembly& assembly = process_->machine.assembly();
  const rt::Generation& generation = assembly.generation();
  const std::uint64_t step = process_->machine.point().step, samples = s_.settings.step_samples;
  Invariants::Commit commit{assembly.lineage(),
                            generation,
                            assembly.beginning().step,
                            step,
                            {},
                            mix(own_part().state, generation.number)};
  for (const rt::Member& member : generation.members) {
    Part part =
        member.rank == rank_ ? own_part() : process_->parts.at({generation.number, step, member.rank});
    part.begin -= step * samples;
    part.end -= step * samples;
    commit.result = mix(commit.result, mix(part.state, mix(part.begin, part.end)));
    commit.parts.push_back(part);
  }
  process_->parts.erase(process_->parts.begin(), process_->parts.upper_bound({generation.number, step, ~0u}));
  trace("commits step " + std::to_string(step) + " in generation " + std::to_string(generation.number));
  s_.invariants.committed(commit);
  process_->weights = {commit.result, mix(commit.result, 1)};
  process_->step.reset();
  act([this](RankTurn& turn) { process_->machine.step_taken(turn); });
}

}  // namespace mlk::sim
