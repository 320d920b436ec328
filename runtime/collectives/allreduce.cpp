// The loop of a rank: assemble, get the state if it is behind, then step after step until a member is lost.
#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/collectives/buckets.h"
#include "runtime/collectives/ring.h"
#include "runtime/membership/assembly.h"
#include "runtime/membership/peers.h"
#include "runtime/metrics/pace.h"
#include "runtime/train/last_checkpoint.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/handshake.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds transfer_patience{60};
constexpr std::size_t transfer_floats = 1 << 18, most_early_parts = 1024;
constexpr Milliseconds longest_look{50};  // between two looks at the stop signal while it waits for others

// What is added up over the members: the loss and the samples, for each rank the seconds of its own part of
// the step before, then the gradients; loss and gradients are weighted by the samples.
constexpr std::size_t summed_loss = 0, summed_samples = 1, summed_seconds = 2;

class AllReduce {
 public:
  AllReduce(Job& job, Peers& peers);
  ExitCode run();

 private:
  bool assemble();
  void take_in(Event&& event);
  void carry_out() { peers_.carry_out(std::move(effects_)); }
  std::optional<StateVersion> state_version() const;
  void state_changed() { assembly_.set_state(state_version()); }
  void make_state();
  bool catch_up();
  bool wait_for_state(std::size_t lagging);
  void send_state(std::uint32_t rank);
  void receive_state(const Event& event);
  bool step();
  void tell_trouble();
  bool compute_and_sum();
  bool in_two_threads(const std::function<void()>& compute, const std::function<bool()>& sum);
  void update();
  void note_step();
  void after_step();
  ExitCode end();
  ExitCode end_elsewhere();
  ExitCode terminate();
  LiveState live() {
    return {state_.step,
            state_.position,
            trainer_.ops().read(trainer_.model().parameters()),
            trainer_.ops().read(optimizer_state_),
            {assembly_.restarts(), state_.history.lost_samples}};
  }
  bool pump(std::optional<Event>& event, Milliseconds time = Milliseconds(100));
  bool look_around();
  bool reports() const { return assembly_.is_lowest_live(); }
  std::uint64_t step_samples() const {
    return static_cast<std::uint64_t>(job_.config.data.batch) *
           static_cast<std::uint64_t>(job_.config.workers.count);
  }

  Job& job_;
  Peers& peers_;
  Trainer trainer_;
  RunReports reports_;
  Checkpointer checkpointer_;
  LastCheckpoint last_;
  std::optional<TrainingState> found_;  // of the last step, on disk, by a rank that waits for others
  const std::size_t front_;             // of summed_: floats before the gradients
  Ring ring_;
  bool has_state_ = false, receiving_ = false;
  std::uint64_t summed_in_ = 0;      // see StateVersion
  std::set<std::uint32_t> lagging_;  // of this generation, until its first step is done
  TrainingState state_;  // less the parameters and the optimizer's state, which are where it trains
  kernels::Buffer<float> optimizer_state_, sum_;
  std::span<float> summed_;    // the place of sum_
  std::uint64_t samples_ = 0;  // own, of the step
  double own_seconds_ = 0;
  Pace pace_;
  std::vector<Bucket> buckets_;  // of summed_
  kernels::ThreadPool overlap_{2};
  std::uint64_t restored_step_ = 0;
  std::uint64_t floats_to_come_ = 0;  // of a state
  std::vector<Event> early_parts_;    // of the state of a generation whose beginning has not come yet
  Assembly assembly_;
  Effects effects_;
};

std::uint64_t random_lineage() {
  const Nonce nonce = random_nonce();
  std::uint64_t lineage = 0;
  std::copy_n(nonce.begin(), sizeof lineage, reinterpret_cast<std::byte*>(&lineage));
  return lineage | 1;
}

AssemblySettings settings_of(const Job& job, Peers& peers) {
  AssemblySettings settings;
  settings.self = {peers.self().rank, peers.transport().self().incarnation};
  settings.address = peers.transport().address();
  settings.workers = static_cast<std::uint32_t>(job.config.workers.count);
  settings.minimum = static_cast<std::uint32_t>(job.config.workers.min);
  settings.seeds = static_cast<std::uint32_t>(job.env.seeds_worker.size());
  settings.patience = std::chrono::seconds(job.config.patience_seconds);
  settings.new_lineage = random_lineage;
  return settings;
}

AllReduce::AllReduce(Job& job, Peers& peers)
    : job_(job),
      peers_(peers),
      trainer_(job),
      reports_(job, trainer_),
      checkpointer_(job, trainer_.tensors()),
      last_(job),
      front_(summed_seconds + static_cast<std::size_t>(job.config.workers.count)),
      ring_(peers.transport(), trainer_.model().parameters().size() + front_),
      assembly_(settings_of(job, peers)) {
  optimizer_state_ = trainer_.make_state();
  sum_ = trainer_.ops().allocate<float>(trainer_.model().parameters().size() + front_);
  summed_ = trainer_.ops().place(sum_);
  buckets_ = plan_buckets(trainer_.tensors(), front_);
}

ExitCode AllReduce::run() {
  const std::chrono::seconds patience(job_.config.patience_seconds);
  while (true) {
    const bool begun = assemble();
    if (assembly_.phase() == Assembly::Phase::trained) return end_elsewhere();
    if (job_.stop.requested()) return terminate();
    if (found_) return end_with(*found_, job_, trainer_, reports_);
    if (!begun || !catch_up()) continue;
    pace_ = Pace();
    own_seconds_ = 0;
    trainer_.clock().take();  // what there is of a step that has to be done again
    while (true) {
      if (job_.stop.requested()) return terminate();
      if (state_.step >= job_.config.steps) {
        using enum Checkpointer::Last;
        const auto last = reports() ? checkpointer_.last(live(), patience) : under_way;
        if (last == committed) return end();
        if (last == failed) fail_unsaved();
        std::optional<Event> event;
        if (!pump(event, Milliseconds(reports() ? 5 : 100))) break;
        continue;
      }
      if (!look_around() || !step()) break;
      after_step();
    }
    if (assembly_.phase() == Assembly::Phase::trained) return end_elsewhere();
  }
}

// Waits until a generation with this process has begun. False: the run is trained, also by what lies on disk,
// or it is time to stop. Throws Failure{peers_lost} beyond the patience.
bool AllReduce::assemble() {
  assembly_.assemble(steady_clock::now(), effects_);
  carry_out();
  while (assembly_.phase() == Assembly::Phase::assembling) {
    if (job_.stop.requested()) return false;
    found_ = last_.find(trainer_.tensors());
    if (found_) return false;
    const auto look = std::chrono::ceil<Milliseconds>(assembly_.next_tick() - steady_clock::now());
    if (auto event = peers_.next(std::clamp(look, Milliseconds(0), longest_look))) take_in(std::move(*event));
    assembly_.tick(steady_clock::now(), effects_);
    if (assembly_.wants_state()) {
      make_state();
      assembly_.state_made(*state_version(), state_.history.restarts, steady_clock::now(), effects_);
    }
    carry_out();
  }
  if (assembly_.phase() == Assembly::Phase::failed) throw assembly_.failure();
  if (assembly_.phase() != Assembly::Phase::begun) return false;
  lagging_ = assembly_.beginning().lagging;
  return true;
}

// Everything but the frames of a sum.
void AllReduce::take_in(Event&& event) {
  if (event.kind == Event::Kind::message && event.header.type == MessageType::feed)
    return receive_state(event);
  if (event.kind == Event::Kind::message && event.header.type == MessageType::reduce)
    return ring_.keep(std::move(event));
  if (job_.stop.requested()) assembly_.ends();
  assembly_.handle(event, steady_clock::now(), effects_);
  carry_out();
  if (assembly_.phase() == Assembly::Phase::failed) throw assembly_.failure();
}

// Takes in events, but leaves those that are frames of a sum to the caller. False: the generation is over.
bool AllReduce::pump(std::optional<Event>& event, Milliseconds time) {
  event = peers_.next(time);
  if (!event) return true;
  const bool frame = event->kind == Event::Kind::message && event->header.type == MessageType::reduce;
  if (!frame) {
    take_in(std::move(*event));
    event.reset();
  }
  return assembly_.phase() == Assembly::Phase::begun;
}

std::optional<StateVersion> AllReduce::state_version() const {
  if (!has_state_) return {};
  return StateVersion{state_.step, summed_in_};
}

// What has come meanwhile, without waiting. False: the generation is over, or should be, since others want to
// join.
bool AllReduce::look_around() {
  while (true) {
    std::optional<Event> event;
    const bool go_on = pump(event, Milliseconds(0));
    const bool nothing = !event;
    if (event) ring_.keep(std::move(*event));
    if (!go_on) return false;
    if (nothing) return !assembly_.wants_newcomers(steady_clock::now());
  }
}

// Nobody has a state: the newest checkpoint, or the start.
void AllReduce::make_state() {
  if (auto saved = checkpointer_.restore()) {
    trainer_.ops().scale(0, optimizer_state_, optimizer_state_);
    trainer_.restore(*saved, optimizer_state_);
    state_ = std::move(*saved);
    state_.parameters = state_.optimizer_state = kernels::Floats();
    summed_in_ = 0;
    restored_step_ = state_.step;
    job_.log.line("goes on from the checkpoint of step " + std::to_string(state_.step));
  }
  has_state_ = true;
}

// Sends the state to the members that lag, or waits for it. False: the generation is over before that.
bool AllReduce::catch_up() {
  const std::uint32_t self = peers_.self().rank;
  if (assembly_.beginning().source == self) {
    for (const std::uint32_t rank : lagging_) send_state(rank);
  }
  if (!lagging_.contains(self)) return true;
  receiving_ = true;
  floats_to_come_ = trainer_.model().parameters().size() + trainer_.state_size();
  for (const Event& event : std::exchange(early_parts_, {})) receive_state(event);
  if (wait_for_state(lagging_.size())) return true;
  receiving_ = false;
  tell_trouble();
  return false;
}

// lagging: ranks that are sent the state one after the other. False: no state has come.
bool AllReduce::wait_for_state(std::size_t lagging) {
  auto deadline = steady_clock::now() + transfer_patience * std::max<std::size_t>(lagging, 1);
  while (receiving_) {
    const std::uint64_t before = floats_to_come_;
    std::optional<Event> event;
    const bool go_on = pump(event);
    if (event) ring_.keep(std::move(*event));
    if (floats_to_come_ != before) deadline = steady_clock::now() + transfer_patience;
    if ((!go_on && receiving_) || steady_clock::now() > deadline || job_.stop.requested()) return false;
  }
  return true;
}

// feed: header.clock: the step, header.offset: of these floats in parameters, then the optimizer's state;
// the payload begins with the position, state_since and summed_in.
void AllReduce::send_state(std::uint32_t rank) {
  const std::size_t size = trainer_.model().parameters().size();
  const auto send_all = [&](std::span<const float> values, std::size_t base) {
    for (std::size_t at = 0; at < values.size(); at += transfer_floats) {
      const auto part = values.subspan(at, std::min(transfer_floats, values.size() - at));
      Header header;
      header.type = MessageType::feed;
      header.generation = assembly_.generation().number;
      header.clock = state_.step;
      header.offset = base + at;
      const Bytes payload = PayloadWriter()
                                .put(state_.position)
                                .put(state_.state_since)
                                .put(summed_in_)
                                .raw(std::as_bytes(part))
                                .bytes();
      if (!peers_.transport().send({Role::worker, rank}, header, payload)) return;
    }
  };
  send_all(trainer_.ops().read(trainer_.model().parameters()), 0);
  send_all(trainer_.ops().read(optimizer_state_), size);
}

void AllReduce::receive_state(const Event& event) {
  if (event.header.generation > assembly_.generation().number) {
    std::erase_if(early_parts_,
                  [&](const Event& e) { return e.header.generation < event.header.generation; });
    if (early_parts_.size() < most_early_parts) early_parts_.push_back(event);
    return;
  }
  const std::size_t size = trainer_.model().parameters().size(), all = size + trainer_.state_size();
  PayloadReader reader(event.payload);
  const auto position = reader.get<std::uint64_t>(), state_since = reader.get<std::uint64_t>(),
             summed_in = reader.get<std::uint64_t>();
  const std::size_t count = reader.left() / sizeof(float);
  const auto values = reader.raw(count * sizeof(float));
  const std::uint64_t offset = event.header.offset;
  if (event.header.generation != assembly_.generation().number || !receiving_)
    return peers_.transport().count_late();
  if (!reader.complete() || state_since > event.header.clock) return;
  if (offset > all || offset + count > all || (offset < size && offset + count > size)) return;
  const auto into = offset < size ? trainer_.model().parameters().subspan(offset, count)
                                  : std::span<float>(optimizer_state_).subspan(offset - size, count);
  // Until here the own state is whole: should the source be lost before it has sent anything, it counts.
  if (std::exchange(has_state_, false)) state_changed();
  const auto place = trainer_.ops().place(into);
  std::memcpy(place.data(), values.data(), values.size());
  trainer_.ops().write(place, into);
  floats_to_come_ -= std::min<std::uint64_t>(floats_to_come_, count);
  if (floats_to_come_ > 0) return;
  state_.step = event.header.clock;
  state_.position = position;
  state_.state_since = state_since;
  summed_in_ = summed_in;
  has_state_ = true;
  receiving_ = false;
  state_changed();
}

// One step of the run: false if it has to be done again, in another generation.
bool AllReduce::step() {
  if (!compute_and_sum()) {
    tell_trouble();
    return false;
  }
  update();
  note_step();
  lagging_.clear();
  return true;
}

// Someone may still wait for this rank in the sum of a step: the lowest rank is to call everyone together.
void AllReduce::tell_trouble() {
  assembly_.tell_trouble(effects_);
  carry_out();
}

// Each bucket is added up as soon as its gradients are final, while those of the layers before are computed.
bool AllReduce::compute_and_sum() {
  const Generation& generation = assembly_.generation();
  const std::uint64_t members = generation.members.size();
  const std::uint64_t index = *generation.index_of(peers_.self().rank);
  const std::uint64_t begin = step_samples() * index / members, end = step_samples() * (index + 1) / members;
  samples_ = end - begin;
  const auto weight = static_cast<float>(samples_);
  Ring::Group group{generation.number, state_.step, {}, index};
  for (const Member& member : generation.members) group.ranks.push_back(member.rank);

  std::atomic<std::size_t> ready{0};
  std::atomic<bool> failed{false};
  const auto gradients = trainer_.model().gradients();
  const auto weigh = [&](const Bucket& bucket) {
    const std::size_t from = std::max(bucket.offset, front_), size = bucket.offset + bucket.size - from;
    const auto summand = std::span<float>(sum_).subspan(from, size);
    trainer_.ops().scale(weight, gradients.subspan(from - front_, size), summand);
    trainer_.ops().read(summand);
    ++ready;
    if (buckets_.size() > 1) peers_.transport().nudge();
  };
  const auto compute = [&] {
    double loss = 0;
    const auto final = [&](std::size_t from) {
      while (ready + 1 < buckets_.size() && buckets_[ready].offset >= front_ + from) weigh(buckets_[ready]);
    };
    try {
      if (begin < end) loss = trainer_.compute(state_.position + begin, end - begin, final);
    } catch (...) {
      failed = true;
      peers_.transport().nudge();
      throw;
    }
    summed_[summed_loss] = static_cast<float>(loss) * weight;
    summed_[summed_samples] = weight;
    std::fill_n(summed_.begin() + summed_seconds, front_ - summed_seconds, 0.0f);
    if (const std::size_t own = summed_seconds + peers_.self().rank; own < front_)
      summed_[own] = static_cast<float>(own_seconds_);
    while (ready < buckets_.size()) weigh(buckets_[ready]);
    trainer_.clock().turn_to(StepClock::Activity::communication);  // what is still to be waited for
  };
  const auto sum = [&] {
    return ring_.sum(
        summed_, buckets_, [&] { return ready.load(); }, group,
        [&](std::optional<Event>& event, Milliseconds time) { return pump(event, time) && !failed; });
  };
  if (buckets_.size() > 1 && members > 1) return in_two_threads(compute, sum);
  compute();
  return sum();
}

// The other thread has the peers, and all that hears of them, to itself until both are done.
bool AllReduce::in_two_threads(const std::function<void()>& compute, const std::function<bool()>& sum) {
  bool summed = false;
  overlap_.run(2, [&](int part) {
    if (part == 0) {
      compute();
    } else {
      summed = sum();
    }
  });
  return summed;
}

void AllReduce::update() {
  trainer_.clock().turn_to(StepClock::Activity::compute);
  const float samples = summed_[summed_samples];
  const auto sum = std::span<float>(sum_).subspan(front_);
  trainer_.ops().write(summed_.subspan(front_), sum);
  trainer_.ops().scale(1 / samples, sum, trainer_.model().gradients());
  trainer_.apply(optimizer_state_, {state_.step, state_.step - state_.state_since});
  ++state_.step;
  state_.position += step_samples();
  summed_in_ = assembly_.generation().number;
  state_changed();
  if (reports()) reports_.add_loss(static_cast<double>(summed_[summed_loss] / samples), 1);
}

// Where the time went, and how the ranks compare.
void AllReduce::note_step() {
  trainer_.clock().turn_to(StepClock::Activity::other);
  const StepTimes times = trainer_.clock().take();
  own_seconds_ = times.own();
  const Generation& generation = assembly_.generation();
  RunView run{
      static_cast<std::uint32_t>(generation.members.size()), generation.number, assembly_.restarts(), 0, {}};
  if (reports()) {
    for (std::size_t at = summed_seconds; at < front_; ++at)
      pace_.add(static_cast<std::uint32_t>(at - summed_seconds), static_cast<double>(summed_[at]));
    run.slowest = pace_.slowest();
  }
  job_.reporter.telemetry().step(state_.step, samples_, times);
  job_.reporter.telemetry().run(run);
}

void AllReduce::after_step() {
  if (!reports()) return;
  checkpointer_.after_step(live());
  job_.reporter.checkpoint(checkpointer_.committed());
  reports_.at_step(state_.step, state_.position, restored_step_, false);
}

// The lowest rank ends the run for all, and stays until all know: one that is missing may be on its way, and
// one that was told may be lost before it has ended.
ExitCode AllReduce::end() {
  job_.reporter.checkpoint(checkpointer_.committed());
  if (!reports_.at_step(state_.step, state_.position, restored_step_, true)) return terminate();
  job_.reporter.finish(true, "");
  peers_.run_is_trained();
  assembly_.tell_trained(job_.reporter.trained_result(), effects_);
  carry_out();
  const auto trained = steady_clock::now();
  const auto is_late = [&] {
    return steady_clock::now() > late_deadline(trained, assembly_.last_loss(), assembly_.somebody_is_there(),
                                               std::chrono::seconds(job_.env.late_seconds));
  };
  while (!assembly_.all_have_left() && !is_late() && !job_.stop.requested()) {
    if (auto event = peers_.next(Milliseconds(100))) take_in(std::move(*event));
  }
  return ExitCode::trained;
}

ExitCode AllReduce::end_elsewhere() {
  job_.reporter.finish_with(assembly_.result());
  return ExitCode::trained;
}

ExitCode AllReduce::terminate() {
  // The rank that would report may not have its state yet.
  if (has_state_ && assembly_.is_lowest_live(lagging_)) checkpointer_.save_now(live());
  job_.reporter.checkpoint(checkpointer_.committed());
  job_.reporter.finish(false, "terminated after step " + std::to_string(state_.step));
  return ExitCode::terminated;
}

}  // namespace

ExitCode run_allreduce(Job& job) {
  return run_among_peers(job, [&job](Peers& peers) {
    // One of two ranks dials the other: the higher one.
    for (std::uint32_t rank = 0; rank < peers.self().rank; ++rank) peers.dial(Role::worker, rank);
    return AllReduce(job, peers).run();
  });
}

}  // namespace mlk::rt
