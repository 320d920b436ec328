// Pairs of ranks that cannot reach each other, and are kept apart for a while (A14 of PROTOCOLS.md). Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "runtime/transport/event.h"

namespace mlk::rt {

class Cuts {
 public:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  // the lower rank first

  // One rank of the pair has reported that it cannot reach the other. From now on the pair is apart: for 5 s
  // the first time, then each time twice as long as the time before, 60 s at most. Another report has no
  // effect while the pair is apart.
  enum class Noted { known, first, again };
  Noted note(std::uint32_t one, std::uint32_t other, SteadyTime now);

  // Forgets the pairs for which `which` is true: they are no longer apart, and their next pause lasts
  // 5 s again.
  template <typename Which>
  void forget(const Which& which) {
    std::erase_if(cuts_, [&](const auto& entry) { return which(entry.first.first, entry.first.second); });
  }

  // The ranks to exclude so that all others can reach each other. Repeatedly excludes one rank with a broken
  // link: a rank that is behind comes first; among equals, the rank with the most broken links; then a rank
  // that is not a member; then the highest rank.
  struct About {
    std::function<bool(std::uint32_t rank)> is_behind, is_member;
  };
  std::set<std::uint32_t> left_out(SteadyTime now, const About& about) const;

  // Calls `each` for every pair, with the time at which the pair is no longer apart.
  template <typename Each>
  void for_each_end(const Each& each) const {
    for (const auto& [pair, cut] : cuts_) each(cut.until);
  }

 private:
  struct Cut {
    SteadyTime until;
    std::chrono::seconds pause{0};
  };
  std::map<Pair, Cut> cuts_;
};

}  // namespace mlk::rt
