// Numbered generations of the members of a run, and who may form the next one. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlk::rt {

struct Member {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0;

  auto operator<=>(const Member&) const = default;
};

// Members in the order of their ranks. Number 0 is the time before the first generation.
struct Generation {
  std::uint64_t number = 0;
  std::vector<Member> members;

  bool contains(Member member) const;
  std::optional<std::size_t> index_of(std::uint32_t rank) const;
  bool operator==(const Generation&) const = default;
};

// What one member knows of another member. dead: its end is proven (end of stream, reset, refusal, a newer
// incarnation). silent: no messages arrive from it. Silence proves no end: the network may be cut, and the
// silent member may continue with others.
enum class Standing { live, silent, dead };

// Whether the live members may continue without the rest of `last`. They may in three cases: they are more
// than half of all members of `last`; they are exactly half of them and include the lowest rank; or all other
// members are proven dead. So at most one of two sides that cannot hear each other continues. Dead members
// count, too: a side may have continued with the vote of a member that has died since. Members without an
// entry count as silent.
bool may_form_next(const Generation& last, const std::map<std::uint32_t, Standing>& standings);

// Whether a run may start when `present` of `count` processes are connected, and at least `minimum` of them
// have been connected for `waited_seconds`. The run starts at once if all processes are connected. Otherwise
// it starts after start_grace_seconds, so that it does not exclude a rank that is a little late.
inline constexpr double start_grace_seconds = 3;
bool may_start(int present, int count, int minimum, double waited_seconds);

// How long two ranks that cannot reach each other are kept apart: 5 s, then each time twice as long as the
// time before, 60 s at most. last: the previous time, 0 if there was none.
std::chrono::seconds cut_pause(std::chrono::seconds last);

// "waiting for worker 1, server 0 (2 s)"
std::string waiting_line(const std::vector<std::string>& missing, double seconds);

}  // namespace mlk::rt
