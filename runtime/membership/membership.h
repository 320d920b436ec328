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

// What one member knows of another. dead: its end is proven (end of stream, reset, refusal, a newer
// incarnation). silent: not heard of, which proves nothing: the way to it may be cut, and it may go on with
// others.
enum class Standing { live, silent, dead };

// Whether the live members may go on without the rest of `last`: they are more than half of all its members,
// or half of them and the lowest rank is on their side, or all others are proven dead. So of two sides that
// cannot hear each other at most one goes on. The dead count as members: a side may have gone on with the
// vote of one that has died since. Members without an entry are silent.
bool may_form_next(const Generation& last, const std::map<std::uint32_t, Standing>& standings);

// When a run starts: `present` of `count` processes are there, at least `minimum` of them for `waited`
// seconds. With everyone there at once, else after a grace, so that a rank that is a little later is not left
// out.
inline constexpr double start_grace_seconds = 3;
bool may_start(int present, int count, int minimum, double waited_seconds);

// How long two ranks that cannot reach each other are kept apart: 5 s, then twice as long as the time before,
// 60 s at most. last: the time before, 0 if there was none.
std::chrono::seconds cut_pause(std::chrono::seconds last);

// "waiting for worker 1, server 0 (2 s)"
std::string waiting_line(const std::vector<std::string>& missing, double seconds);

}  // namespace mlk::rt
