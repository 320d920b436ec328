// The rules that must hold after every event of a simulated allreduce run.
//
// A rank *commits* step s in generation g when its sum of that step is complete: its state is then that of
// step s + 1. A *lineage* is a start of the run: all generations that descend from one without a predecessor.
// If there is no common store, two halves of a run that never heard of each other can both start. Only the
// minimum of workers guards against that. So the rules apply within one lineage. A1, A2 ... are the rules of
// runtime/PROTOCOLS.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/membership/assembly.h"
#include "tests/sim/clock.h"

namespace mlk::sim {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A part of a step that a rank adds to the sum: samples [begin, end) of the step, computed with this state.
struct Part {
  std::uint64_t state = 0, begin = 0, end = 0;
};

class Invariants {
 public:
  Invariants(std::uint64_t step_samples, bool disk) : step_samples_(step_samples), disk_(disk) {}

  struct Begun {
    rt::Member member;
    std::uint64_t lineage = 0, generation = 0;
    std::uint64_t newest_step = 0;  // the member's newest step, or that before it received another state
    bool anew = false;  // no member had a state, so one was made from a checkpoint or from the start
  };
  // A member takes part in the generation from here on. It has no result yet, but other members may have
  // continued.
  void begun(const Begun& begun, SteadyTime now);

  struct Commit {
    std::uint64_t lineage = 0;
    rt::Generation generation;
    std::uint64_t began_at = 0;  // step
    std::uint64_t step = 0;
    std::vector<Part> parts;  // of all members, in the order of their ranks
    std::uint64_t result = 0;
  };
  // 1. All members add to a sum with the same state. Their parts cover all samples of the step, each once.
  //    All members get the same result of one sum.
  // 2. (A2, A5, A6, A8) As long as a member of a generation lives, the number of the generation represents
  //    only one set of members within its lineage.
  // 3. (A10, A11) A generation does not begin before the newest step that a member has: a committed step is
  //    lost only with the processes that had it.
  // 4. (A4, A6 to A9) A generation does not begin before a step that an older generation has passed, except
  //    for the one step that was being summed. No older generation continues beside the new one.
  // 5. If the run is trained, and this is on disk or all ranks can learn it, no rank begins to train, and the
  //    trained lineage has no further generation.
  void committed(const Commit& commit);

  // The process has ended. If all members of a generation have ended, the generation is forgotten, and its
  // number may return.
  void gone(const rt::Member& member);

  // The checkpoints made so far are lost; later checkpoints are not.
  void disk_lost() { disk_ = false; }

  // From here on there are no faults, and all ranks reach each other. A run that is trained from here on
  // stays trained even without a disk, since the rank that reports waits for late ranks.
  void all_can_be_told() { telling_ = !killed_; }
  // A process that was told to stop before the calm is killed when its grace period is over.
  void somebody_is_killed() { killed_ = true, telling_ = false; }

  // A run that is trained stays trained. lineage: 0 if a rank has only found the last checkpoint.
  void trained(std::uint64_t lineage, SteadyTime now) {
    if (trained_) return;
    trained_ = now;
    trained_lineage_ = lineage;
    told_ = telling_ && lineage != 0;
  }
  bool is_trained() const { return trained_.has_value(); }
  bool is_told() const { return told_; }
  std::uint64_t commits() const { return commits_; }
  std::uint64_t generations() const { return generations_; }

 private:
  using Number = std::pair<std::uint64_t, std::uint64_t>;  // lineage, generation
  struct Joined {
    std::uint64_t newest_step = 0;
    bool anew = false;
    SteadyTime since;
  };
  struct Started {
    rt::Generation generation;
    std::uint64_t step = 0, furthest = 0;  // furthest: the last committed step
    std::vector<rt::Member> living;
  };

  Joined joined_together(const Number& number, const rt::Generation& generation);
  void check_start(const Number& number, const Commit& commit, const std::string& what);

  const std::uint64_t step_samples_;
  bool disk_, telling_ = false, killed_ = false, told_ = false;
  std::set<rt::Member> dead_;
  // By member: if all members of a generation are dead, a generation of other members may reuse its number.
  std::map<Number, std::map<rt::Member, Joined>> joined_;
  std::map<Number, Started> started_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::uint64_t> results_;
  std::optional<SteadyTime> trained_;
  std::uint64_t trained_lineage_ = 0;
  std::uint64_t commits_ = 0, generations_ = 0;
};

}  // namespace mlk::sim
