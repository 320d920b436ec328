// The process of an allreduce rank: the sockets, the clock, the disk and the model around the RankMachine.
#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/collectives/rank_machine.h"
#include "runtime/collectives/step_sum.h"
#include "runtime/membership/peers.h"
#include "runtime/metrics/pace.h"
#include "runtime/train/last_checkpoint.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/handshake.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t transfer_floats = 1 << 18;
constexpr Milliseconds longest_look{50};  // between checks of the stop signal, while the rank waits

// The floats in front of the gradients in a sum: the loss, the number of samples, and for each rank the
// seconds that it computed in the previous step. The number of samples is the weight of the loss and the
// gradients.
constexpr std::size_t summed_loss = 0, summed_samples = 1, summed_seconds = 2;

class AllReduce {
 public:
  AllReduce(Job& job, Peers& peers);
  ExitCode run();

 private:
  template <typename Call>
  void act(Call call) {
    if (job_.stop.requested()) machine_.stop();
    RankTurn turn{steady_clock::now()};
    call(turn);
    for (auto& decision : turn.in_order) std::visit([this](auto& wanted) { execute(wanted); }, decision);
  }

  void execute(const Effects::Effect& effect) { peers_.execute(effect); }
  void execute(const MakeState&);
  void execute(const SendState& wanted);
  void execute(const StoreState& wanted);
  void execute(const ForgetFrames& wanted) { sum_.forget_from(wanted.rank); }
  void execute(const CountLate&) { peers_.transport().count_late(); }
  void execute(const BeginSteps&);
  void execute(const TakeStep& wanted);
  void execute(const AfterStep&);
  void execute(const SaveLast&);
  void execute(const ReportTrained&);
  void execute(const RunIsTrained&) { peers_.run_is_trained(); }
  void execute(const SaveNow&);
  void execute(const EndTrained& wanted);
  void execute(const EndWithFound&) { ended_ = end_with(*found_, job_, trainer_, reports_); }
  void execute(const EndTerminated&);
  void execute(const EndReported&) { ended_ = ExitCode::trained; }
  [[noreturn]] void execute(const Failure& failure) { throw failure; }

  bool pump(std::optional<Event>& event, Milliseconds time);
  bool compute_and_sum(const TakeStep& wanted);
  bool hangs();
  void update();
  void note_step();
  LiveState live() {
    const StatePoint& point = machine_.point();
    const RunHistory history{machine_.assembly().restarts(), state_.history.lost_samples};
    return {point.step, point.position, trainer_.model().parameters(), optimizer_state_, history};
  }

  Job& job_;
  Peers& peers_;
  Trainer trainer_;
  RunReports reports_;
  Checkpointer checkpointer_;
  LastCheckpoint last_;
  std::optional<TrainingState> found_;  // the last checkpoint, if this rank finds it while it waits
  StepSum sum_;
  // The restored state, without parameters and optimizer state: these are in the model and in
  // optimizer_state_. The machine has the current step, position and state_since.
  TrainingState state_;
  kernels::Buffer<float> optimizer_state_;
  std::uint64_t samples_ = 0;  // the samples of this rank in the step
  double own_seconds_ = 0;
  Pace pace_;
  std::uint64_t restored_step_ = 0;
  RankMachine machine_;
  std::optional<ExitCode> ended_;
};

RankSettings settings_of(const Job& job, Peers& peers, Trainer& trainer) {
  RankSettings settings;
  AssemblySettings& assembly = settings.assembly;
  assembly.self = {peers.self().rank, peers.transport().self().incarnation};
  assembly.address = peers.transport().address();
  assembly.workers = static_cast<std::uint32_t>(job.config.workers.count);
  assembly.minimum = static_cast<std::uint32_t>(job.config.workers.min);
  assembly.seeds = static_cast<std::uint32_t>(job.env.seeds_worker.size());
  assembly.patience = std::chrono::seconds(job.config.patience_seconds);
  assembly.new_lineage = [] { return PayloadReader(random_nonce()).get<std::uint64_t>() | 1; };
  settings.steps = job.config.steps;
  settings.step_samples = static_cast<std::uint64_t>(job.config.data.batch) * assembly.workers;
  settings.parameters = trainer.model().parameters().size();
  settings.optimizer_floats = trainer.state_size();
  settings.late = std::chrono::seconds(job.env.late_seconds);
  return settings;
}

// Whether the event is a frame of a sum. The ring handles such frames.
bool is_frame(const std::optional<Event>& event) {
  return event && event->kind == Event::Kind::message && event->header.type == MessageType::reduce;
}

AllReduce::AllReduce(Job& job, Peers& peers)
    : job_(job),
      peers_(peers),
      trainer_(job),
      reports_(job, trainer_),
      checkpointer_(job, trainer_.tensors(), trainer_.ops(), trainer_.data_summary()),
      last_(job),
      sum_(peers.transport(), trainer_.ops(), trainer_.tensors(),
           summed_seconds + static_cast<std::size_t>(job.config.workers.count), job.log),
      machine_(settings_of(job, peers, trainer_)) {
  optimizer_state_ = trainer_.make_state();
}

ExitCode AllReduce::run() {
  act([this](RankTurn& turn) { machine_.start(turn); });
  while (!ended_) {
    if (machine_.checks_for_last()) {
      found_ = last_.find(trainer_.tensors());
      if (found_) act([this](RankTurn& turn) { machine_.found_last(turn); });
      if (ended_) break;
    }
    const auto wait = std::chrono::ceil<Milliseconds>(machine_.next_tick() - steady_clock::now());
    auto event = peers_.next(std::clamp(wait, Milliseconds(0), longest_look));
    if (is_frame(event)) {
      sum_.store_early(std::move(*event));
    } else {
      act([&](RankTurn& turn) { event ? machine_.handle(std::move(*event), turn) : machine_.tick(turn); });
    }
  }
  return *ended_;
}

void AllReduce::execute(const MakeState&) {
  trainer_.ops().scale(0, optimizer_state_, optimizer_state_);
  auto saved = checkpointer_.restore();
  checkpointer_.require_writable(saved ? saved->step : 0);
  if (saved) {
    trainer_.restore(*saved, optimizer_state_);
    state_ = std::move(*saved);
    state_.parameters = state_.optimizer_state = kernels::Floats();
    restored_step_ = state_.step;
    job_.log.line("goes on from the checkpoint of step " + std::to_string(state_.step));
  } else {  // initialises again, since an incomplete transfer may have changed the model
    trainer_.initialise();
    state_ = TrainingState();
    restored_step_ = 0;
  }
  act([this](RankTurn& turn) {
    machine_.state_made({state_.step, state_.position, state_.state_since, 0}, state_.history.restarts, turn);
  });
}

void AllReduce::execute(const SendState& wanted) {
  const std::size_t size = trainer_.model().parameters().size();
  const StatePoint& point = machine_.point();
  StateMessage message{.generation = machine_.assembly().generation().number,
                       .step = point.step,
                       .position = point.position,
                       .state_since = point.state_since,
                       .summed_in = point.summed_in};
  const auto send_all = [&](std::span<const float> values, std::size_t base) {
    for (std::size_t at = 0; at < values.size(); at += transfer_floats) {
      message.offset = base + at;
      message.floats = std::as_bytes(values.subspan(at, std::min(transfer_floats, values.size() - at)));
      const EncodedMessage encoded = encode(message);
      if (!peers_.transport().send({Role::worker, wanted.rank}, encoded.header, encoded.payload)) return;
    }
  };
  send_all(trainer_.ops().read(trainer_.model().parameters()), 0);
  send_all(trainer_.ops().read(optimizer_state_), size);
}

void AllReduce::execute(const StoreState& wanted) {
  const auto part = decode_state(wanted.part.header, wanted.part.payload);
  const std::size_t size = trainer_.model().parameters().size(), count = part->floats.size() / sizeof(float);
  const auto into = part->offset < size
                        ? trainer_.model().parameters().subspan(part->offset, count)
                        : std::span<float>(optimizer_state_).subspan(part->offset - size, count);
  const auto place = trainer_.ops().place(into);
  std::memcpy(place.data(), part->floats.data(), part->floats.size());
  trainer_.ops().write(place, into);
}

void AllReduce::execute(const BeginSteps&) {
  pace_ = Pace();
  own_seconds_ = 0;
  trainer_.clock().take();  // drops times that belong to no completed step
  const Generation& generation = machine_.assembly().generation();
  sum_.begin(generation.members.size(), *generation.index_of(peers_.self().rank));
}

// Receives at most one event. Leaves a frame of a sum in `event`, and passes any other event to the machine.
// Returns false if the generation is over.
bool AllReduce::pump(std::optional<Event>& event, Milliseconds time) {
  event = peers_.next(time);
  if (event && !is_frame(event)) {
    act([&](RankTurn& turn) { machine_.handle(std::move(*event), turn); });
    event.reset();
  }
  return machine_.goes_on();
}

void AllReduce::execute(const TakeStep& wanted) {
  if (!compute_and_sum(wanted)) return act([this](RankTurn& turn) { machine_.step_given_up(turn); });
  update();
  note_step();
  act([this](RankTurn& turn) { machine_.step_taken(turn); });
}

bool AllReduce::compute_and_sum(const TakeStep& wanted) {
  const Generation& generation = machine_.assembly().generation();
  samples_ = wanted.end - wanted.begin;
  const auto weight = static_cast<float>(samples_);
  Ring::Group group{generation.number, machine_.point().step, {}, *generation.index_of(peers_.self().rank)};
  for (const Member& member : generation.members) group.ranks.push_back(member.rank);

  const auto compute = [&](const Model::Final& final) {
    const double loss = samples_ > 0 ? trainer_.compute(wanted.begin, samples_, final) : 0;
    const auto front = sum_.front();
    front[summed_loss] = static_cast<float>(loss) * weight;
    front[summed_samples] = weight;
    std::ranges::fill(front.subspan(summed_seconds), 0.0f);
    if (const std::size_t own = summed_seconds + peers_.self().rank; own < front.size())
      front[own] = static_cast<float>(own_seconds_);
    trainer_.clock().turn_to(StepClock::Activity::communication);  // the rest of the step belongs to the sum
  };
  return sum_.run(group,
                  {.weight = weight,
                   .gradients = trainer_.model().gradients(),
                   .compute = compute,
                   .pump = [&](std::optional<Event>& event, Milliseconds time) { return pump(event, time); },
                   .hangs = [&] { return hangs(); }});
}

// Reports to the other members that this rank waits for the sum of its step. Returns true if the sum will
// never finish (RankMachine::waits_for_sum()).
bool AllReduce::hangs() {
  bool all_wait = false;
  act([&](RankTurn& turn) { all_wait = machine_.waits_for_sum(turn); });
  return all_wait;
}

void AllReduce::update() {
  trainer_.clock().turn_to(StepClock::Activity::compute);
  const auto front = sum_.front();
  const float samples = front[summed_samples];
  sum_.scale_into(1 / samples, trainer_.model().gradients());
  const StatePoint& point = machine_.point();
  trainer_.apply(optimizer_state_, {point.step, point.step - point.state_since});
  if (machine_.reports()) reports_.add_loss(static_cast<double>(front[summed_loss] / samples), 1);
}

// Records the times of the step by activity. On the rank that reports, also records which rank is the
// slowest.
void AllReduce::note_step() {
  trainer_.clock().turn_to(StepClock::Activity::other);
  const StepTimes times = trainer_.clock().take();
  own_seconds_ = times.own();
  const Generation& generation = machine_.assembly().generation();
  const auto members = static_cast<std::uint32_t>(generation.members.size());
  RunView run{members, generation.number, machine_.assembly().restarts(), 0, {}};
  if (machine_.reports()) {
    const auto front = sum_.front();
    for (std::size_t at = summed_seconds; at < front.size(); ++at)
      pace_.add(static_cast<std::uint32_t>(at - summed_seconds), static_cast<double>(front[at]));
    run.slowest = pace_.slowest();
  }
  job_.reporter.telemetry().step(machine_.point().step + 1, samples_, times);
  job_.reporter.telemetry().run(run);
  job_.reporter.telemetry().bus(sum_.take_traffic());
}

void AllReduce::execute(const AfterStep&) {
  checkpointer_.after_step(live());
  job_.reporter.checkpoint(checkpointer_.committed());
  reports_.at_step(machine_.point().step, machine_.point().position, restored_step_, false);
}

void AllReduce::execute(const SaveLast&) {
  using enum Checkpointer::Last;
  const auto last = checkpointer_.last(live(), std::chrono::seconds(job_.config.patience_seconds));
  if (last == committed) act([this](RankTurn& turn) { machine_.last_saved(turn); });
  if (last == failed) throw unsaved(checkpointer_.why_unsaved());
}

// Repeats a failed save only if the model is trained.
void AllReduce::execute(const SaveNow&) {
  const bool trained = machine_.point().step >= job_.config.steps;
  checkpointer_.save_now(live(), trained ? Checkpointer::leave_patience : std::chrono::seconds(0));
}

void AllReduce::execute(const ReportTrained&) {
  job_.reporter.checkpoint(checkpointer_.committed());
  const StatePoint& point = machine_.point();
  const bool done = reports_.at_step(point.step, point.position, restored_step_, true);
  if (done) job_.reporter.finish(true, "");
  const std::string result = done ? job_.reporter.trained_result() : "";
  act([&](RankTurn& turn) { machine_.reported(done, result, turn); });
}

void AllReduce::execute(const EndTrained& wanted) {
  job_.reporter.finish_with(wanted.result);
  ended_ = ExitCode::trained;
}

void AllReduce::execute(const EndTerminated&) {
  job_.reporter.checkpoint(checkpointer_.committed());
  job_.reporter.finish(false, "terminated after step " + std::to_string(machine_.point().step));
  ended_ = ExitCode::terminated;
}

}  // namespace

ExitCode run_allreduce(Job& job) {
  return run_among_peers(job, [&job](Peers& peers) {
    // Of two ranks, the higher dials the lower.
    for (std::uint32_t rank = 0; rank < peers.self().rank; ++rank) peers.dial(Role::worker, rank);
    return AllReduce(job, peers).run();
  });
}

}  // namespace mlk::rt
