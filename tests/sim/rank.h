// One rank of a simulated allreduce run: the real Assembly, in a shell that does what
// runtime/collectives/allreduce.cpp does with it. A state is a hash over the steps that led to it, a sum is a
// message from each member to each, and computing, transfers and the disk are time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/membership/assembly.h"
#include "tests/sim/invariants.h"
#include "tests/sim/network.h"

namespace mlk::sim {

struct RunSettings {
  std::uint32_t ranks = 2, minimum = 1, seeds = 2;
  std::uint64_t steps = 20, step_samples = 64, checkpoint_every = 5;
  std::chrono::seconds patience{120}, late{60};
  Duration compute{50ms}, transfer{20ms}, write{100ms};
  NetworkSettings network;
};

struct State {
  rt::StateVersion version;
  std::uint64_t hash = 0, restarts = 0;
};

// The folder of checkpoints, which all ranks share. A checkpoint is there whole or not at all.
struct Disk {
  bool there = true, full = false;
  int slowness = 1;
  std::optional<State> newest;
};

// What a rank needs of the world around it.
struct Surroundings {
  Clock& clock;
  Random& random;
  Network& network;
  Disk& disk;
  Invariants& invariants;
  const RunSettings& settings;
  std::function<void(std::uint32_t rank, rt::ExitCode code)> ended;
  std::function<void(std::uint32_t rank, const std::string& line)> trace;  // may be empty
};

class SimulatedRank {
 public:
  SimulatedRank(Surroundings surroundings, std::uint32_t rank, std::int64_t drift_ppm)
      : s_(std::move(surroundings)), rank_(rank), drift_ppm_(drift_ppm) {}

  void start(std::uint64_t incarnation);
  void stop();  // the process is gone, with all that it knew
  bool running() const { return assembly_.has_value(); }
  void freeze() { frozen_ = true; }
  void thaw();
  void deliver(rt::Event&& event);
  std::string describe() const;

 private:
  enum class Doing { assembling, receiving, computing, summing, saving_last, staying };

  SteadyTime local_now() const { return local(s_.clock.now()); }
  SteadyTime local(SteadyTime time) const;
  SteadyTime global(SteadyTime time) const;
  void plan(Duration time, Clock::Action action);
  void work(Duration time, Clock::Action then);
  void drain();
  void take_in(rt::Event&& event);
  void carry_out();
  void progress();
  void assemble();
  void look_at_disk(std::uint64_t wait);
  void plan_tick();
  void make_state();
  void begun();
  void send_state(std::uint32_t to, Duration extra);
  void receive_state(const rt::Event& event);
  void keep_part(const rt::Event& event);
  void give_up();
  void next_step();
  void add_part();
  bool has_all_parts() const;
  void commit();
  void save();
  void saved(const State& snapshot);
  void finish();
  void stay();
  void exit(rt::ExitCode code);
  void state_changed();
  bool reports() const { return assembly_->is_lowest_live(); }
  bool goes_on() const { return assembly_->phase() == rt::Assembly::Phase::begun; }
  Part own_part() const;
  Duration slowed(Duration time) const { return std::min<Duration>(time * s_.disk.slowness, 30s); }
  void trace(const std::string& line) const {
    if (s_.trace) s_.trace(rank_, line);
  }

  Surroundings s_;
  const std::uint32_t rank_;
  const std::int64_t drift_ppm_;
  std::uint64_t incarnation_ = 0;
  bool frozen_ = false, busy_ = false;
  std::vector<Clock::Action> postponed_;  // while it is frozen
  std::deque<rt::Event> inbox_;           // while it is busy
  std::optional<rt::Assembly> assembly_;
  rt::Effects effects_;
  Doing doing_ = Doing::assembling;
  std::uint64_t waits_ = 0;  // counts the waits for a generation, or for a state
  std::optional<SteadyTime> tick_planned_;
  std::optional<State> state_;
  std::uint64_t newest_step_ = 0;  // that it has had, and was sent no other
  bool receiving_ = false;
  std::set<std::uint32_t> lagging_;
  std::vector<rt::Event> early_parts_;  // of the state of a generation whose beginning has not come yet
  using PartKey = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // generation, step, rank
  std::map<PartKey, Part> parts_;
  bool due_ = false, writing_ = false, made_ = false;
  SteadyTime trained_at_;
};

}  // namespace mlk::sim
