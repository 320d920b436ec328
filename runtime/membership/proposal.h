// A proposal of the next generation, as stored by a rank that has made or accepted it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/membership/membership.h"

namespace mlk::rt {

struct Proposal {
  std::uint64_t number = 0, follows = 0, lineage = 0;
  std::vector<Member> members;

  bool contains(Member member) const { return std::ranges::find(members, member) != members.end(); }
};

}  // namespace mlk::rt
