// What a rank has promised by accepting proposals since its generation began (A8 and A9 of PROTOCOLS.md).
// Each of them may have begun without a word of it coming here: other proposals must outvote its members.
// Pure.
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
  // This rank has accepted a proposal of that process. Only members have a vote: a member is bound at once.
  // So is one that has accepted the generation which the proposal follows, even if it has not heard that it
  // began.
  void accepted(Member proposer, const Proposal& proposal, bool is_member);

  // Others go on from that generation. A newcomer that has accepted it is a member of it, and bound by all
  // that it has accepted since: those may have begun with its vote.
  void bind_newcomer(std::uint64_t follows, std::uint64_t lineage);

  // A generation of this lineage has begun: of those that were accepted, earlier ones are over. A later one
  // may have begun beside it. Whether there was any.
  bool forget_before(std::uint64_t generation, std::uint64_t lineage);

  // This rank's next generation has begun.
  void clear();

  bool empty() const { return bound_.empty(); }
  // Whether the member is in a promised proposal.
  bool concern(Member member) const;
  // Whether a proposal of this process keeps them all: `outvotes(promised)` says it of one. Those to the same
  // process are exempt: it knows whether its own has begun.
  template <typename Outvotes>
  bool are_kept(Member proposer, const Outvotes& outvotes) const {
    return std::ranges::all_of(bound_, [&](const auto& promise) {
      const auto& [to, promised] = promise;
      return to == proposer || outvotes(promised);
    });
  }

 private:
  std::map<Member, Proposal> bound_;     // the last one of each process
  std::map<Member, Proposal> accepted_;  // the same of a newcomer, which is not bound by it yet
  std::set<std::pair<std::uint64_t, std::uint64_t>> numbers_;  // of all accepted: lineage, number
};

}  // namespace mlk::rt
