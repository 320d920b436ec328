// One rank of a simulated allreduce run: the real RankMachine in a process without threads, sockets and a
// model. A state is two numbers that follow from the steps before it. For a sum each member sends a message
// to each other member. Computing, transfers and the disk only take time.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/collectives/rank_machine.h"
#include "tests/sim/invariants.h"
#include "tests/sim/network.h"

namespace mlk::sim {

struct RunSettings {
  std::uint32_t ranks = 2, minimum = 1, seeds = 2;
  std::uint64_t steps = 20, step_samples = 64, checkpoint_every = 5;
  std::chrono::seconds patience{120}, late{60};
  Duration compute{50ms}, transfer{20ms}, write{100ms};
  bool devices = false;   // devices add up: a sum may hang, and ranks then abandon it
  bool overlaps = false;  // ranks hear their peers while they compute, as ranks with large models do
  NetworkSettings network;
};

// Parameters and optimizer state: two floats each, as in messages.
using Weights = std::array<std::uint64_t, 2>;

struct SavedState {
  rt::StatePoint point;
  Weights weights{};
  std::uint64_t restarts = 0;
};

// The folder of checkpoints, which all ranks share. A checkpoint is complete, or not there at all.
struct Disk {
  bool there = true, full = false, has_failed = false;
  int slowness = 1;
  std::optional<SavedState> newest;
};

// The parts of the world that a rank needs.
struct RankWorld {
  Clock& clock;
  Random& random;
  Network& network;
  Disk& disk;
  Invariants& invariants;
  const RunSettings& settings;
  const std::uint32_t& transfer_slowness;  // how many times longer than usual the transfer of a state takes
  std::function<void(std::uint32_t number, rt::ExitCode code)> ended;
  std::function<void(std::uint32_t number, std::string_view probe)> passed;
  std::function<void(std::uint32_t rank, const std::string& line)> trace;  // may be empty
};

class SimulatedRank {
 public:
  // number: of this process in the network.
  SimulatedRank(RankWorld world, std::uint32_t number, std::uint32_t rank, std::int64_t drift_ppm)
      : s_(std::move(world)), process_number_(number), rank_(rank), drift_ppm_(drift_ppm) {}

  void start(std::uint64_t incarnation);
  void terminate();  // SIGTERM
  void stop();       // the process is gone, with all of its memory
  bool running() const { return process_ != nullptr; }
  void freeze() { process_->frozen = true; }
  void thaw();
  // The sum of the step under way never finishes, or that of the next step if no step is under way.
  void hang() { process_->sum_hangs = true; }
  void deliver(rt::Event&& event);
  std::string describe() const;

 private:
  using PartKey = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // generation, step, rank
  // The members that are lost with the process.
  struct Process {
    Process(std::uint64_t number, rt::RankSettings settings)
        : incarnation(number), machine(std::move(settings)) {}

    std::uint64_t incarnation;
    rt::RankMachine machine;
    bool frozen = false, busy = false, stopping = false, trained = false;
    std::vector<Clock::Action> postponed;  // actions postponed while the process is frozen
    std::deque<rt::Event> inbox;           // events that came while the process is busy
    std::optional<SteadyTime> tick_planned;
    SteadyTime next_look{}, next_try{};
    std::optional<SteadyTime> first_try;
    Weights weights{};
    std::uint64_t newest_step = 0;                        // since the rank received another state
    bool made = false;                                    // this rank has made its state, and received none
    std::pair<std::uint64_t, std::uint64_t> begun{0, 0};  // lineage, generation
    std::optional<rt::TakeStep> step;                     // the step under way
    bool computed = false, part_is_sent = false, sum_hangs = false;
    std::uint64_t attempt = 0;  // the number of steps computed here
    std::map<PartKey, Part> parts;
    bool due = false, writing = false, save_at_end = false;
    std::uint64_t committed = 0;
  };

  SteadyTime local_now() const { return local(s_.clock.now()); }
  SteadyTime local(SteadyTime time) const;
  SteadyTime global(SteadyTime time) const;
  void plan(Duration time, Clock::Action action);
  void work(Duration time, Clock::Action then);
  void drain();
  void act(const std::function<void(rt::RankTurn&)>& call);
  void note_state();
  void plan_tick();
  void tick();
  void take_in(rt::Event&& event);

  void execute(rt::Effects::Effect& effect);
  void execute(const rt::MakeState&);
  void execute(const rt::SendState& wanted);
  void execute(const rt::StoreState& wanted);
  void execute(const rt::CountLate&) {}
  void execute(const rt::BeginSteps&) {}
  void execute(const rt::ForgetFrames& wanted);
  void execute(const rt::TakeStep& wanted);
  void execute(const rt::AfterStep&);
  void execute(const rt::SaveLast&);
  void execute(const rt::ReportTrained&);
  void execute(const rt::RunIsTrained&) { process_->trained = true; }
  void execute(const rt::SaveNow&) { process_->save_at_end = true; }
  void execute(const rt::EndTrained&) { exit(rt::ExitCode::trained); }
  void execute(const rt::EndWithFound&);
  void execute(const rt::EndTerminated&);
  void execute(const rt::EndReported&) { exit(rt::ExitCode::trained); }
  void execute(const rt::Failure& failure);

  void send(std::uint32_t to, const rt::Header& header, rt::Bytes&& payload, Duration extra = 0ns);
  void keep_part(const rt::Event& event);
  Part own_part() const;
  bool add_part();
  bool has_all_parts() const;
  void go_on_summing();
  void give_step_up();
  void look_later(Duration time, std::uint64_t attempt);
  void commit();
  SavedState snapshot() const;
  Duration write_time() const;
  void write();
  void saved(const SavedState& snapshot);
  void exit(rt::ExitCode code);
  void trace(const std::string& line) const {
    if (s_.trace) s_.trace(rank_, line);
  }

  RankWorld s_;
  const std::uint32_t process_number_, rank_;
  const std::int64_t drift_ppm_;
  std::unique_ptr<Process> process_;
};

}  // namespace mlk::sim
