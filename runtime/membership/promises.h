// A rank is bound by the proposals that it has accepted since its generation began (A8 and A9 of
// PROTOCOLS.md). Each proposed generation may have begun although the rank got no begin message. So a further
// proposal must outvote each of those proposals: it must contain enough of their members (A6, A7). Pure.
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
  // This rank has accepted a proposal of the process `proposer`. Only members have a vote. So this rank is
  // bound at once only if it is a member of the last generation (is_member), or has accepted the generation
  // that the proposal follows, even if it got no begin message of that generation.
  void accepted(Member proposer, const Proposal& proposal, bool is_member);

  // This rank is a newcomer, and other ranks continue from the generation `follows`. If this rank has
  // accepted that generation, this rank is a member of it. Then this rank is bound by all proposals that it
  // has accepted since that generation, because the proposed generations may have begun with its vote.
  void bind_newcomer(std::uint64_t follows, std::uint64_t lineage);

  // A generation of this lineage has begun. Proposals of this lineage with a lower number no longer bind this
  // rank, because they are over. A proposal with a higher number may also have begun. Returns true if a
  // proposal has bound this rank until now and no longer does.
  bool forget_before(std::uint64_t generation, std::uint64_t lineage);

  // This rank's next generation has begun.
  void clear();

  bool empty() const { return bound_.empty(); }
  // Whether the member belongs to any proposal that binds this process.
  bool concern(Member member) const;
  // Whether a proposal of the process `proposer` keeps all promises. `outvotes(promised)` says whether the
  // proposal outvotes one promised proposal. A promise to `proposer` itself does not count here: `proposer`
  // knows whether its own proposal has begun.
  template <typename Outvotes>
  bool are_kept(Member proposer, const Outvotes& outvotes) const {
    return std::ranges::all_of(bound_, [&](const auto& promise) {
      const auto& [to, promised] = promise;
      return to == proposer || outvotes(promised);
    });
  }

 private:
  std::map<Member, Proposal> bound_;                           // the last binding proposal of each process
  std::map<Member, Proposal> accepted_;                        // the last one of each process, binding or not
  std::set<std::pair<std::uint64_t, std::uint64_t>> numbers_;  // of all accepted proposals: lineage, number
};

}  // namespace mlk::rt
