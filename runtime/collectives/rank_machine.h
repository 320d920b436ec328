// An allreduce rank without its process. It assembles a generation, receives the state if it lags, and makes
// steps until a member is lost or a rank waits to be let in. Then it starts again. At the end the lowest live
// rank saves, reports, and stays for the other ranks. Pure: the process around it (allreduce.cpp) has the
// sockets, the clock, the disk and the model.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/collectives/rank_turn.h"
#include "runtime/membership/assembly.h"

namespace mlk::rt {

// The position of a rank's state in the run.
struct StatePoint {
  std::uint64_t step = 0, position = 0;
  std::uint64_t state_since = 0;  // as in TrainingState
  std::uint64_t summed_in = 0;    // as in StateVersion
};

struct RankSettings {
  AssemblySettings assembly;
  std::uint64_t steps = 0, step_samples = 0;           // steps of the run; samples of a step
  std::uint64_t parameters = 0, optimizer_floats = 0;  // floats of the state
  std::chrono::seconds late{60};                       // MLK_LATE_SECONDS
};

// After each event, tick and answer the machine is in one of its states and waits for the next call. The
// machine ends with the decision EndTrained, EndWithFound, EndTerminated, EndReported or Failure. After that
// the caller must not call it. For one thread at a time: during a step the thread that sums calls it.
class RankMachine {
 public:
  explicit RankMachine(RankSettings settings);

  void start(RankTurn& turn);
  // Handles all events except the frames of a sum.
  void handle(Event&& event, RankTurn& turn);
  // Call this at next_tick(), unless an event comes earlier. More calls do no harm.
  void tick(RankTurn& turn);
  SteadyTime next_tick() const;
  // SIGTERM: takes effect at the next call.
  void stop() { stopping_ = true; }

  // Whether the caller should check for the checkpoint of the last step, because the other ranks may have
  // ended.
  bool checks_for_last() const { return state_ == State::assembling; }
  // Called when the checkpoint of the last step exists. If this rank was in a generation, it then waits a few
  // seconds for the result before it reports: the goodbye of one rank may arrive before the result from
  // another rank.
  void found_last(RankTurn& turn);

  // The answers to the decisions of rank_turn.h. restarts: the number in the loaded checkpoint, or 0.
  void state_made(const StatePoint& point, std::uint64_t restarts, RankTurn& turn);
  void step_taken(RankTurn& turn);
  void step_given_up(RankTurn& turn);
  // Called again and again while the sum of a step stands still. Each call reports to the other members that
  // this rank waits. Returns true if all other members have reported that they also wait, or are at a later
  // step. Then no member computes, and the sum will never finish.
  [[nodiscard]] bool waits_for_sum(RankTurn& turn);
  void last_saved(RankTurn& turn);
  // result: of the run. done is false if the process had to stop before it could report.
  void reported(bool done, const std::string& result, RankTurn& turn);

  const Assembly& assembly() const { return assembly_; }
  const StatePoint& point() const { return point_; }
  bool has_state() const { return has_state_; }
  // Whether the generation still continues.
  bool goes_on() const { return assembly_.phase() == Assembly::Phase::begun; }
  // Whether this rank makes the reports and the checkpoints.
  bool reports() const { return assembly_.is_lowest_live(); }
  // For traces, for example "takes a step".
  const char* doing() const;

 private:
  enum class State {
    assembling,
    making,
    receiving,
    between,
    stepping,
    saving,
    reporting,
    staying,
    found,
    ended
  };

  template <typename Call>
  void assembly_call(RankTurn& turn, Call call);
  void reconcile(RankTurn& turn);
  void assemble(RankTurn& turn);
  void begin(RankTurn& turn);
  void begin_steps(RankTurn& turn);
  void receive(Event&& event, RankTurn& turn);
  void hear_result(const Event& event, RankTurn& turn);
  void forget_early(std::uint32_t rank, RankTurn& turn);
  void go_on_receiving(RankTurn& turn);
  void next_step(RankTurn& turn);
  void save_last(RankTurn& turn);
  void give_up(RankTurn& turn);
  void end(RankTurn::Decision how, RankTurn& turn);
  void terminate(RankTurn& turn);
  SteadyTime stays_until() const;
  void state_changed();

  const RankSettings settings_;
  Assembly assembly_;
  State state_ = State::assembling;
  bool stopping_ = false, has_state_ = false;
  StatePoint point_;
  std::set<std::uint32_t> lagging_;  // the ranks of this generation that lag, until its first step is done
  std::uint64_t floats_to_come_ = 0;
  SteadyTime receive_by_, saved_at_, trained_at_, result_by_;
  std::vector<Event> early_parts_;  // parts of the state of a generation that has not begun here yet
};

}  // namespace mlk::rt
