// How the ranks of an allreduce run agree on generations. Pure: the caller passes in each event and the time,
// and executes the Effects that come back. The rules are A1 to A14 of PROTOCOLS.md.
//
// State: a view of every other rank, the last generation that began, a proposal that this rank has made or
// accepted, its promises (promises.h), and which pairs are kept apart (cuts.h).
//
// Who calls: RankMachine (collectives/rank_machine.h), in a real process and in the simulator.
//
//   assemble()                      this rank waits for a generation
//   handle(event), tick(now) ...    statuses come; the lowest live member proposes; the others accept
//   phase() == begun                generation() and beginning() say with whom and from which step
//   phase() == over                 somebody was lost, or is to be let in: assemble() again
//
// What must hold after each call: of two groups that cannot hear each other, at most one continues (A6 to
// A9), and the run loses no step that a live rank has (A10).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/membership/allreduce_protocol.h"
#include "runtime/membership/bounded_wait.h"
#include "runtime/membership/cuts.h"
#include "runtime/membership/effects.h"
#include "runtime/membership/membership.h"
#include "runtime/membership/promises.h"
#include "runtime/membership/proposal.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

// What a generation starts with.
struct Beginning {
  std::uint64_t step = 0;
  std::uint32_t source = 0;         // the rank that sends the state
  std::set<std::uint32_t> lagging;  // the ranks that receive it
};

struct AssemblySettings {
  Member self;
  std::string address;                         // where others dial this rank
  std::uint32_t workers = 1;                   // ranks of the run
  std::uint32_t minimum = 1;                   // the ranks that must be there if no rank has a state
  std::uint32_t seeds = 0;                     // every rank knows the addresses of ranks below this number
  std::chrono::seconds patience{0};            // how long to wait for a generation to begin
  std::function<std::uint64_t()> new_lineage;  // a random number, never 0
};

// For one thread. The caller executes the effects after each call.
class Assembly {
 public:
  enum class Phase {
    assembling,  // from assemble() on, until another phase is reached
    begun,       // generation() is in use
    over,        // generation() has ended, or none has begun yet: call assemble()
    trained,     // the run is trained; result() has its result
    failed,      // failure() says why
  };

  explicit Assembly(AssemblySettings settings);

  Phase phase() const;
  const Failure& failure() const { return *failure_; }          // in phase failed
  const Beginning& beginning() const { return beginning_; }     // of generation()
  const Generation& generation() const { return generation_; }  // the last one that began
  // The random number of that start of the run from which generation() descends.
  std::uint64_t lineage() const { return lineage_; }
  const std::string& result() const { return result_; }  // in phase trained

  // From now on this process waits for the next generation of which it is a member. Until phase() is no
  // longer `assembling`, the caller calls tick(): at next_tick() at the latest, and as often before as it
  // likes.
  void assemble(SteadyTime now, Effects& effects);
  void tick(SteadyTime now, Effects& effects);
  SteadyTime next_tick() const;
  // Handles changes of the connections with workers, and the messages of allreduce_protocol.h.
  void handle(const Event& event, SteadyTime now, Effects& effects);

  // Call this when the state of this process changes. nullopt: the process has no state. This class sets the
  // lineage of the state: that of generation(), or that of the proposal for which the state is made.
  void set_state(std::optional<StateVersion> state);
  // True if all members have accepted this process's proposal, but no member has a state. Then the caller
  // makes a state, from a checkpoint or from the start, and passes it to state_made(), with the number of
  // restarts in the checkpoint.
  bool wants_state() const;
  void state_made(StateVersion state, std::uint64_t restarts, SteadyTime now, Effects& effects);

  // Tells the other members, which may wait for this process, that this process has abandoned a step.
  void report_trouble(Effects& effects) const;
  // Tells the other members that this process waits for the sum of the step that it is at.
  void report_waits_for_sum(Effects& effects) const;
  // Whether all other members have reported that they wait for the sum of this step, or are at a later step.
  bool all_wait_for_sum(std::uint64_t step) const;
  // Reports to all peers, also to those that connect later, that the run is trained, with its result.
  void report_trained(const std::string& result, Effects& effects);
  // This process is about to stop: from now on it does not log the loss of peers.
  void ends() { ending_ = true; }

  // At a boundary between steps: true if a rank waits to be let in and this rank is to propose.
  bool wants_newcomers(SteadyTime now) const;
  // The number of generations of this run in which at least one member of the generation before was missing.
  // This includes generations without this process.
  std::uint64_t restarts() const { return restarts_; }
  // Whether this rank is the lowest live member, which reports and lets newcomers in. Members in `last` come
  // after all others.
  bool is_lowest_live(const std::set<std::uint32_t>& last = {}) const;
  // Whether all other ranks of the run have ended, and each knew that the run is trained.
  bool all_have_left() const;
  // About the ranks that have not ended with exit code 0: whether one of them is connected, and when the last
  // of them was lost. A rank that this process has never met may still be starting, so it counts as lost at
  // the start of this process.
  bool somebody_is_there() const;
  std::optional<SteadyTime> last_loss() const;

 private:
  struct View {
    std::uint64_t incarnation = 0;
    std::string address;
    Standing standing = Standing::silent;
    SteadyTime lost;     // when this rank last lost a process of the other rank
    bool known = false;  // its status has arrived
    SteadyTime told;     // when its status last arrived
    StatusMessage status;
  };
  struct Promise {
    Proposal proposal;
    Member to;  // the process that made the proposal
  };

  bool is_member(std::uint32_t rank) const;
  bool is_live(std::uint32_t rank) const;
  bool is_to_propose() const;
  bool newcomer(std::uint32_t rank, const View& view, SteadyTime now) const;
  std::uint64_t progress_of(std::uint32_t rank) const;
  bool is_behind(std::uint32_t rank) const;
  std::set<std::uint32_t> left_out(SteadyTime now) const;
  static bool is_dead(const View& view, SteadyTime now);
  Standing standing_of(const Member& member, const Generation& last, const Proposal& proposal,
                       SteadyTime now) const;
  static bool others_suffice(const Generation& last, const Proposal& proposal);
  bool knows_of_all_others(std::uint32_t ended, const Proposal& proposal) const;
  bool passed_over(const ProposeMessage& proposal, SteadyTime now) const;
  bool may_follow(const Generation& last, const Proposal& proposal, SteadyTime now) const;
  bool honours_promises(const Proposal& proposal, Member proposer, SteadyTime now) const;
  void note_may_have_gone_on(Member member);
  bool loses_steps(const Proposal& proposal, SteadyTime now) const;
  std::optional<Proposal> may_propose(SteadyTime now);
  void leave_out_cut_off(Proposal& proposal, SteadyTime now) const;
  void propose(Proposal proposal, SteadyTime now, Effects& effects);
  std::string address_beyond_seeds(std::uint32_t rank) const;
  void on_up(const Event& event, View& view, SteadyTime now, Effects& effects);
  void on_loss(const Event& event, View& view, SteadyTime now, Effects& effects);
  void on_message(const Event& event, SteadyTime now, Effects& effects);
  void on_status(const Event& event, SteadyTime now, Effects& effects);
  void on_propose(const Event& event, SteadyTime now, Effects& effects);
  void on_accept(const Event& event, SteadyTime now, Effects& effects);
  void on_refuse(const Event& event, SteadyTime now, Effects& effects);
  void on_begin_refused(Member member, Effects& effects);
  void on_begin(const Event& event, Effects& effects);
  void on_done(const Event& event);
  void note_cut(std::uint32_t one, std::uint32_t other, SteadyTime now);
  bool all_have_accepted() const;
  void begin_if_accepted(SteadyTime now, Effects& effects);
  void begin_own(Effects& effects);
  void begin(Proposal&& proposal, std::uint64_t restarts, Beginning&& beginning);
  Beginning choose_beginning() const;
  void answer_proposal(SteadyTime now, Effects& effects);
  void advance(SteadyTime now, Effects& effects);
  std::vector<std::string> missing() const;
  void greet(std::uint32_t rank, Effects& effects) const;
  void send_status(std::uint32_t rank, Effects& effects, bool waits_for_sum = false) const;
  void send_status_to_all(Effects& effects) const;

  AssemblySettings settings_;
  Member self_;
  BoundedWait wait_;
  std::optional<StateVersion> state_;
  std::map<std::uint32_t, View> views_;
  Generation generation_;
  Beginning beginning_;
  std::uint64_t lineage_ = 0;
  std::uint64_t begun_ = 0;  // the highest generation of lineage_ that has begun, as far as this rank knows
  std::uint64_t restarts_ = 0;
  std::uint64_t promised_ = 0;  // A2: every further proposal needs a higher number
  bool assembling_ = false;
  bool current_ = false;  // generation_ has begun, and nothing has ended it
  bool trained_ = false, ending_ = false;
  bool waits_to_be_let_in_ = false;  // other ranks train
  std::optional<Failure> failure_;
  std::string result_;
  std::set<std::uint32_t> left_;  // ranks that have ended with exit code 0
  // Members that may have continued with others since the generation began, because they were silent for a
  // while, have abandoned the generation, have proposed another one or have refused to begin it. This is so
  // whatever this rank hears from them later.
  std::set<Member> may_have_gone_on_;
  std::set<Member> have_begun_;  // members that have reported that they began generation_

  bool starts_run_ = false;         // this rank proposed generation_, which follows no other
  std::set<Member> did_not_begin_;  // members that have refused to begin generation_

  std::optional<Proposal> own_;                                    // the proposal of this rank, under way
  std::map<std::uint32_t, std::optional<StateVersion>> accepted_;  // the answers to own_
  SteadyTime own_since_, not_before_;
  std::optional<Promise> theirs_;  // another rank's proposal: not yet answered, or answered and not begun
  bool answered_ = false;
  SteadyTime theirs_since_;
  Promises promises_;
  Cuts cuts_;
  std::uint64_t proposed_ = 0;  // the number of the last proposal of this rank
  std::optional<SteadyTime> enough_since_;
  SteadyTime last_tick_, first_tick_;
  std::optional<SteadyTime> began_;  // the first call of assemble()
};

}  // namespace mlk::rt
