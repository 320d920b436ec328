// How the ranks of an allreduce run agree on generations.
//
// Everyone is connected with everyone and tells them its status. Whoever is the lowest live member of the
// last generation (before the first: the lowest rank present, unless somebody was seen to train who is not
// proven dead) proposes the next when members were lost or others want to join; it begins when all of its
// members have accepted. Those who are behind are then fed by one who is not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/membership/membership.h"
#include "runtime/membership/peers.h"

namespace mlk::rt {

// What a generation starts with.
struct Beginning {
  std::uint64_t step = 0;
  std::uint32_t feeder = 0;
  std::set<std::uint32_t> hungry;  // ranks that the feeder has to send the state to
};

// Two states of a run are the same, bit for bit, where both of these are: of one sum all get the same bits.
struct StateVersion {
  std::uint64_t step = 0;
  std::uint64_t summed_in = 0;  // the generation of the last sum; 0: none since the checkpoint or the start

  auto operator<=>(const StateVersion&) const = default;
};

class Assembly {
 public:
  // own_state: nothing without one. over: this process knows by itself, from a checkpoint, that the run is
  // trained.
  struct Callbacks {
    std::function<std::optional<StateVersion>()> own_state;
    // Asked of the proposer when nobody has a state: make one, from a checkpoint or from the start.
    std::function<void()> make_state;
    std::function<bool()> over;
    std::function<void(Event&&)> other;  // events that do not concern the membership
  };
  Assembly(Job& job, Peers& peers, Callbacks callbacks);

  // Waits until a generation with this process has begun. Nothing: the run is trained or over, or it is time
  // to stop.
  // Throws Failure{peers_lost} beyond the patience.
  std::optional<Beginning> assemble();

  // Takes the event in. False: the generation is over, assemble() again. Events of others go to
  // callbacks.other.
  bool handle(Event&& event);
  // At a boundary between steps: true if somebody waits to be let in and this rank is to propose.
  bool wants_newcomers() const;

  const Generation& generation() const { return generation_; }
  // Generations that began without a member of the one before: all of this run, whoever took part in them.
  std::uint64_t restarts() const { return restarts_; }
  // From make_state(): a checkpoint knows of so many.
  void go_on_counting(std::uint64_t restarts) { restarts_ = std::max(restarts_, restarts); }
  // Of the live members; those of `last` come after all others.
  bool is_lowest_live(const std::set<std::uint32_t>& last = {}) const;
  bool trained() const { return trained_; }              // a peer said so
  const std::string& result() const { return result_; }  // then: of the rank that reported
  // Tells all peers, and later those who come, that the run is trained, and its result.
  void tell_trained(const std::string& result);
  // Whether all other ranks of the run have ended, and knew that it is trained.
  bool all_have_left() const;
  // Of the ranks that have not ended well: whether one is connected, and when one was last lost, if any was.
  bool somebody_is_there() const;
  std::optional<SteadyTime> last_loss() const;

 private:
  struct View {
    std::uint64_t incarnation = 0;
    std::string address;
    Standing standing = Standing::silent;
    SteadyTime lost;     // when its connection ended
    bool known = false;  // its status has come
    std::uint64_t generation = 0, lineage = 0, step = 0;
  };
  // Two ranks cannot reach each other, and are kept apart until then; twice as long the next time.
  struct Cut {
    SteadyTime until;
    std::chrono::seconds pause{0};
  };
  static constexpr std::uint64_t no_step = ~std::uint64_t{0};  // in messages: without a state
  struct Proposal {
    std::uint64_t number = 0, lineage = 0;
    std::vector<Member> members;
  };

  bool is_member(std::uint32_t rank) const;
  bool is_to_propose() const;
  bool newcomer(std::uint32_t rank, const View& view) const;
  std::set<std::uint32_t> left_out() const;
  static bool is_dead(const View& view);
  bool passed_over(const Proposal& proposal, std::uint64_t follows) const;
  bool may_follow(const Generation& last, const Proposal& proposal) const;
  bool keeps_pledge(const Proposal& proposal, std::uint32_t proposer) const;
  std::optional<Proposal> may_propose();
  void leave_out_cut_off(Proposal& proposal) const;
  void propose(const Proposal& proposal);
  std::string address_beyond_seeds(std::uint32_t rank) const;
  void on_status(const Event& event);
  void on_propose(const Event& event);
  void on_accept(const Event& event);
  void on_refuse(const Event& event);
  void note_cut(std::uint32_t one, std::uint32_t other);
  template <typename Which>
  void forget_cuts(Which which) {
    std::erase_if(cuts_, [&](const auto& entry) { return which(entry.first.first, entry.first.second); });
  }
  void on_begin(const Event& event);
  void begin_own();
  Beginning choose_beginning() const;
  void answer_proposal();
  std::vector<std::string> missing() const;
  void send_status(std::uint32_t rank);
  void send_status_to_all();
  void send_trained(std::uint32_t rank);
  void send(std::uint32_t rank, MessageType type, std::uint64_t generation, std::uint64_t clock = 0,
            std::uint32_t key = 0, std::span<const std::byte> payload = {}, std::uint64_t offset = 0);

  Job& job_;
  Peers& peers_;
  Callbacks callbacks_;
  const Member self_;
  Patience patience_;
  std::map<std::uint32_t, View> views_;
  Generation generation_;
  std::uint64_t lineage_ = 0;
  std::uint64_t begun_ = 0;  // of the lineage: the highest number that is known to have begun, with or
                             // without this process
  std::uint64_t restarts_ = 0;
  std::uint64_t promised_ = 0;  // the highest number that was proposed or accepted here
  bool current_ = false;        // generation_ has begun and nothing has happened to it
  bool trained_ = false;
  std::string result_;            // then: of the rank that reported
  std::set<std::uint32_t> left_;  // ranks that ended, with exit code 0

  std::optional<Proposal> own_;                                    // under way, made here
  std::map<std::uint32_t, std::optional<StateVersion>> accepted_;  // its answers
  SteadyTime own_since_, not_before_;
  std::optional<Proposal> theirs_;  // to be answered, or answered and not begun
  std::uint32_t proposer_ = 0;
  bool answered_ = false;
  SteadyTime theirs_since_;
  // Accepted, and perhaps begun without a word of it coming here: whoever goes on must outvote those, too.
  std::optional<Proposal> pledged_;
  std::uint32_t pledged_to_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Cut> cuts_;  // the lower rank first
  std::uint64_t proposed_ = 0;                                   // the number of the last proposal made here
  std::optional<SteadyTime> enough_since_;
  std::optional<Beginning> beginning_;
};

}  // namespace mlk::rt
