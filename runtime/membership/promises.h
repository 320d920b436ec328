// What a rank has promised by accepting proposals since its generation began (A8 and A9 of PROTOCOLS.md).
// Each accepted generation may have begun without this rank hearing of it, so other proposals must outvote
// its members. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "runtime/membership/membership.h"
#include "runtime/membership/proposal.h"

namespace mlk::rt {

class Promises {
 public:
  // This rank has accepted a proposal of that process. Only members have a vote: a member is bound at once. A
  // rank that has accepted the generation which the proposal follows is also bound at once, even if it has
  // not heard that this generation began.
  void accepted(Member proposer, const Proposal& proposal, bool is_member);

  // Other ranks continue from that generation. A newcomer that has accepted this generation is a member of
  // it, and is bound by all proposals that it has accepted since: those may have begun with its vote.
  void bind_newcomer(std::uint64_t follows, std::uint64_t lineage);

  // A generation of this lineage has begun. Accepted proposals with a lower number are over. A proposal with
  // a higher number may have begun beside it. Returns whether there was such a proposal.
  bool forget_before(std::uint64_t generation, std::uint64_t lineage);

  // This rank's next generation has begun.
  void clear();

  bool empty() const { return bound_.empty(); }
  // Whether the member is in any promised proposal.
  bool concern(Member member) const;
  // Whether a proposal of this process keeps all promises: `outvotes(promised)` answers for one of them.
  // Promises to the same process are exempt: that process knows whether its own proposal has begun.
  template <typename Outvotes>
  bool are_kept(Member proposer, const Outvotes& outvotes) const {
    return std::ranges::all_of(bound_, [&](const auto& promise) {
      const auto& [to, promised] = promise;
      return to == proposer || outvotes(promised);
    });
  }

 private:
  std::map<Member, Proposal> bound_;     // the last proposal accepted of each process
  std::map<Member, Proposal> accepted_;  // the same for a newcomer, which they do not bind yet
  std::set<std::pair<std::uint64_t, std::uint64_t>> numbers_;  // of all accepted proposals: lineage, number
};

}  // namespace mlk::rt
