// Which members may form the next generation, when a run may start, and how long pairs are kept apart.
#include "runtime/membership/membership.h"

#include <algorithm>

namespace mlk::rt {
namespace {

constexpr std::chrono::seconds first_cut_pause{5}, longest_cut_pause{60};

}  // namespace

bool Generation::contains(Member member) const {
  return std::find(members.begin(), members.end(), member) != members.end();
}

std::optional<std::size_t> Generation::index_of(std::uint32_t rank) const {
  const auto found = std::ranges::find(members, rank, &Member::rank);
  if (found == members.end()) return {};
  return static_cast<std::size_t>(found - members.begin());
}

bool may_form_next(const Generation& last, const std::map<std::uint32_t, Standing>& standings) {
  const auto standing_of = [&](const Member& member) {
    const auto found = standings.find(member.rank);
    return found == standings.end() ? Standing::silent : found->second;
  };
  const auto live = std::ranges::count(last.members, Standing::live, standing_of);
  const auto dead = std::ranges::count(last.members, Standing::dead, standing_of);
  const auto all = std::ssize(last.members);
  const bool alone = live > 0 && live + dead == all;
  const bool lowest_is_live =
      live > 0 && standing_of(std::ranges::min(last.members, {}, &Member::rank)) == Standing::live;
  return alone || 2 * live > all || (2 * live == all && lowest_is_live);
}

bool may_start(int present, int count, int minimum, double waited_seconds) {
  return present >= count || (present >= minimum && waited_seconds >= start_grace_seconds);
}

std::chrono::seconds cut_pause(std::chrono::seconds last) {
  return std::clamp(2 * last, first_cut_pause, longest_cut_pause);
}

std::string waiting_line(const std::vector<std::string>& missing, double seconds) {
  std::string line = "waiting for ";
  for (std::size_t i = 0; i < missing.size(); ++i) line += (i == 0 ? "" : ", ") + missing[i];
  return line + " (" + std::to_string(static_cast<long>(seconds)) + " s)";
}

}  // namespace mlk::rt
