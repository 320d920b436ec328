#include "runtime/membership/promises.h"

namespace mlk::rt {

void Promises::accepted(Member proposer, const Proposal& proposal, bool is_member) {
  if (is_member || numbers_.contains({proposal.lineage, proposal.follows})) bound_[proposer] = proposal;
  accepted_[proposer] = proposal;
  numbers_.emplace(proposal.lineage, proposal.number);
}

void Promises::bind_newcomer(std::uint64_t follows, std::uint64_t lineage) {
  if (!numbers_.contains({lineage, follows})) return;
  for (const auto& [to, proposal] : accepted_) {
    if (proposal.lineage == lineage && proposal.number > follows) bound_[to] = proposal;
  }
}

bool Promises::forget_before(std::uint64_t generation, std::uint64_t lineage) {
  return std::erase_if(bound_, [&](const auto& promise) {
           return promise.second.lineage == lineage && promise.second.number < generation;
         }) > 0;
}

void Promises::clear() {
  bound_.clear();
  accepted_.clear();
  numbers_.clear();
}

bool Promises::concern(Member member) const {
  return std::ranges::any_of(bound_, [&](const auto& promise) { return promise.second.contains(member); });
}

}  // namespace mlk::rt
