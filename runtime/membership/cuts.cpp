#include "runtime/membership/cuts.h"

#include <algorithm>
#include <tuple>

#include "runtime/membership/membership.h"

namespace mlk::rt {

Cuts::Noted Cuts::note(std::uint32_t one, std::uint32_t other, SteadyTime now) {
  auto& [until, pause] = cuts_[std::minmax(one, other)];
  if (now < until) return Noted::known;
  const bool again = pause.count() > 0;
  pause = cut_pause(pause);
  until = now + pause;
  return again ? Noted::again : Noted::first;
}

std::set<std::uint32_t> Cuts::left_out(SteadyTime now, const About& about) const {
  std::set<std::uint32_t> out;
  while (true) {
    std::map<std::uint32_t, int> cuts_of;
    for (const auto& [pair, cut] : cuts_) {
      if (now >= cut.until || out.contains(pair.first) || out.contains(pair.second)) continue;
      ++cuts_of[pair.first];
      ++cuts_of[pair.second];
    }
    if (cuts_of.empty()) return out;
    const auto weight = [&](const auto& entry) {
      return std::tuple(about.is_behind(entry.first), entry.second, !about.is_member(entry.first),
                        entry.first);
    };
    out.insert(std::ranges::max_element(cuts_of, {}, weight)->first);
  }
}

}  // namespace mlk::rt
