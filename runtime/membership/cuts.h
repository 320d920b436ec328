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

  // One of the two has reported it. They are apart from now on, for twice as long as the time before; as long
  // as they are, another report changes nothing.
  enum class Noted { known, first, again };
  Noted note(std::uint32_t one, std::uint32_t other, SteadyTime now);

  // Pairs of which `which` holds are apart no more, and no time before counts.
  template <typename Which>
  void forget(const Which& which) {
    std::erase_if(cuts_, [&](const auto& entry) { return which(entry.first.first, entry.first.second); });
  }

  // Ranks to exclude so that the rest can all reach each other. Repeatedly takes the rank with the most
  // broken links, first of those that are behind. Of several such ranks it prefers one that is no member,
  // then the highest.
  struct About {
    std::function<bool(std::uint32_t rank)> is_behind, is_member;
  };
  std::set<std::uint32_t> left_out(SteadyTime now, const About& about) const;

  // Calls it with the time at which each pair is apart no more.
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
