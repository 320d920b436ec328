// The decisions that the shell of a worker executes: the model, and the time that its work takes.
#include <algorithm>
#include <utility>

#include "runtime/base/payload.h"
#include "tests/sim/ps_process.h"

namespace mlk::sim {
namespace {

std::span<const float> floats_in(const rt::Bytes& payload) {
  return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
}

}  // namespace

template <typename Call>
void PsProcess::act_worker(Call call) {
  rt::WorkerTurn turn{s_.clock.now()};
  call(*worker_, turn);
  tell_passed();
  for (const auto& decision : turn.in_order) {
    std::visit([this](const auto& wanted) { execute(wanted); }, decision);
    if (!worker_) return;
  }
}

void PsProcess::start_worker() {
  chunks_ = rt::cut_chunks(model_tensors(), s_.scenario.servers);
  model_.assign(model_floats, 0);
  next_ = model_;
  worker_ = std::make_unique<rt::WorkerMachine>(s_.scenario.config(), model_tensors(), s_.clock.now());
  act_worker([](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.start(turn); });
}

bool PsProcess::goes_on_offline() const {
  return worker_ && !busy_ && worker_->wait(s_.clock.now()) == rt::Milliseconds(0);
}

bool PsProcess::sees_last() const {
  const auto last = s_.disk.made.find(s_.scenario.steps);
  return last != s_.disk.made.end() && s_.clock.now() >= last->second.made + s_.scenario.seen;
}

void PsProcess::tick_worker() {
  if (worker_->checks_for_last(s_.clock.now()) && sees_last())
    return act_worker([](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.found_last(turn); });
  act_worker([](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.tick(turn); });
}

Duration PsProcess::unheard() const {
  if (!worker_ || worker_->knows_of_end() || busy_ || up_.size() < s_.scenario.servers) return Duration(0);
  return s_.clock.now() - heard_;
}

void PsProcess::take_in() {
  while (worker_ && !busy_ && !inbox_.empty()) {
    const rt::Event event = std::move(inbox_.front());
    inbox_.pop_front();
    if (!ends_with(event)) handle_worker(event);
  }
  if (goes_on_offline()) plan_tick(1ms);
}

void PsProcess::handle_worker(const rt::Event& event) {
  const rt::PeerId peer = event.peer;
  if (event.kind == rt::Event::Kind::up) up_.insert(peer.rank);
  if (event.kind == rt::Event::Kind::down) up_.erase(peer.rank);
  const bool message = event.kind == rt::Event::Kind::message;
  if (event.kind == rt::Event::Kind::up || (message && peer.rank == 0)) heard_ = s_.clock.now();
  handled_ = &event;
  act_worker([&](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.handle(event, turn); });
  handled_ = nullptr;
}

// Expected weights go to their place as they arrive, whatever the worker does at the time.
void PsProcess::receive_in_place(rt::Event& event) {
  const rt::Header& header = event.header;
  if (header.type != rt::MessageType::weights || header.key >= chunks_.size() ||
      chunks_[header.key].server != event.peer.rank ||
      expected_.erase({header.generation, header.clock, header.key}) == 0)
    return;
  auto& target = sync() ? next_ : model_;
  std::ranges::copy(floats_in(event.payload),
                    target.begin() + static_cast<std::ptrdiff_t>(chunks_[header.key].offset));
  event.payload.clear();
  event.in_posted_buffer = true;
}

void PsProcess::execute(const rt::ExpectWeights& wanted) {
  for (const rt::Chunk& chunk : chunks_) expected_.insert({wanted.generation, wanted.tag, chunk.id});
}

void PsProcess::execute(const rt::SendChunk& wanted) {
  const rt::Chunk& chunk = chunks_[wanted.header.key];
  const bool push = wanted.header.type == rt::MessageType::push;
  std::vector<float> values(chunk.size);
  for (std::size_t i = 0; i < chunk.size; ++i)
    values[i] = push ? gradient_at(position_, chunk.offset + i) : model_[chunk.offset + i];
  if (!push) s_.invariants.weights(values, wanted.header.clock, chunk.offset, "seeds of " + to_string(id_));
  send(wanted.to, wanted.header, rt::PayloadWriter().raw(std::as_bytes(std::span(values))).bytes());
}

void PsProcess::execute(const rt::StoreWeights& wanted) {
  auto& target = sync() ? next_ : model_;
  std::ranges::copy(floats_in(handled_->payload),
                    target.begin() + static_cast<std::ptrdiff_t>(chunks_[wanted.chunk].offset));
}

void PsProcess::execute(const rt::UseNextWeights&) {
  expected_.clear();
  model_ = next_;
}

// With sync there is an answer after each slice of a step; the last slice completes the step.
void PsProcess::execute(const rt::OfflineSlice& wanted) {
  const auto batch = static_cast<std::uint64_t>(s_.scenario.batch);
  const std::uint64_t slices = sync() ? s_.scenario.workers : 1;
  work([this, wanted, batch, slices](rt::WorkerMachine& machine, rt::WorkerTurn& turn) {
    if (++offline_slice_ < slices) return machine.offline_advanced(false, wanted.step, wanted.position, turn);
    offline_slice_ = 0;
    if (sync() && wanted.position != wanted.step * slices * batch)
      throw Violation("an offline step is of samples of another");
    const auto rate = static_cast<float>(s_.scenario.config().optimizer.lr);
    if (sync()) {
      s_.invariants.weights(model_, wanted.step, 0, "weights that go on offline");
      model_ = s_.invariants.exact_weights(wanted.step + 1);
    } else {
      for (std::size_t i = 0; i < model_floats; ++i)
        model_[i] -= rate / static_cast<float>(s_.scenario.workers) * gradient_at(wanted.position, i);
    }
    machine.offline_advanced(true, wanted.step + 1, wanted.position + slices * batch, turn);
  });
}

void PsProcess::execute(const rt::ReportStep& wanted) {
  s_.invariants.weights(model_, wanted.step, 0, "weights that are reported");
}

void PsProcess::execute(const rt::Evaluate& wanted) {
  s_.invariants.weights(model_, wanted.step, 0, "the last weights");
  work([this, step = wanted.step](rt::WorkerMachine& machine, rt::WorkerTurn& turn) {
    if (!stopping_) s_.invariants.evaluated(step);
    machine.evaluated(!stopping_, "result", turn);
  });
}

void PsProcess::execute(const rt::ComputeSlice& wanted) {
  position_ = wanted.position;
  if (sync()) {
    const std::uint64_t samples = static_cast<std::uint64_t>(s_.scenario.batch) * s_.scenario.workers;
    s_.invariants.weights(model_, wanted.position / samples, 0, "weights that are computed with");
  }
  work([](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.computed(1, turn); });
}

void PsProcess::execute(const rt::CountStep&) {
  act_worker([](rt::WorkerMachine& machine, rt::WorkerTurn& turn) { machine.step_counted(0.05, turn); });
}

void PsProcess::execute(const rt::EndTrained& wanted) {
  s_.invariants.worker_ends(s_.disk.had_last, !wanted.result.empty() || sees_last());
  end(rt::ExitCode::trained, "trained");
}

void PsProcess::execute(const rt::EndWithFound&) {
  s_.invariants.evaluated(s_.disk.made.rbegin()->first);
  s_.invariants.worker_ends(true, true);
  end(rt::ExitCode::trained, "trained, as the disk says");
}

void PsProcess::work(std::function<void(rt::WorkerMachine&, rt::WorkerTurn&)> answer) {
  busy_ = true;
  plan(s_.random.between(s_.scenario.compute / 2, s_.scenario.compute), [this, answer = std::move(answer)] {
    busy_ = false;
    heard_ = s_.clock.now();
    act_worker(answer);
    take_in();
  });
}

}  // namespace mlk::sim
