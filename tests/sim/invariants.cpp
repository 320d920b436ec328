#include "tests/sim/invariants.h"

#include <algorithm>
#include <iterator>

namespace mlk::sim {
namespace {

constexpr Duration no_new_generation_after = 2s;  // a rank checks the disk about once a second

[[noreturn]] void broken(const std::string& what) { throw Violation(what); }

std::string of(std::uint64_t generation) { return "generation " + std::to_string(generation); }

}  // namespace

void Invariants::begun(const Begun& begun, SteadyTime now) {
  auto& joined = joined_[{begun.lineage, begun.generation}]
                     .try_emplace(begun.member, Joined{0, false, now})
                     .first->second;
  joined.newest_step = std::max(joined.newest_step, begun.newest_step);
  joined.anew = joined.anew || begun.anew;
}

void Invariants::gone(const rt::Member& member) {
  dead_.insert(member);
  for (auto at = started_.begin(); at != started_.end();) {
    auto& [number, started] = *at;
    std::erase(started.living, member);
    if (!started.living.empty()) {
      ++at;
      continue;
    }
    joined_.erase(number);
    results_.erase(results_.lower_bound({number.first, number.second, 0}),
                   results_.lower_bound({number.first, number.second + 1, 0}));
    at = started_.erase(at);
  }
}

// Combines the states that the members brought into a generation. since: the time when the first member
// joined.
Invariants::Joined Invariants::joined_together(const Number& number, const rt::Generation& generation) {
  std::optional<Joined> all;
  for (const auto& [member, joined] : joined_[number]) {
    if (!generation.contains(member)) continue;
    if (!all) all = joined;
    all->newest_step = std::max(all->newest_step, joined.newest_step);
    all->anew = all->anew || joined.anew;
    all->since = std::min(all->since, joined.since);
  }
  return all.value_or(Joined{});
}

// Checks the rules at the first commit of a generation.
void Invariants::check_start(const Number& number, const Commit& commit, const std::string& what) {
  ++generations_;
  const Joined joined = joined_together(number, commit.generation);
  const std::string begins = what + ", whose generation began at step " + std::to_string(commit.began_at);
  if (commit.began_at < joined.newest_step)
    broken(begins + ", but a member was at step " + std::to_string(joined.newest_step));
  const bool is_known = (disk_ || told_) && trained_ && joined.since > *trained_ + no_new_generation_after;
  if (is_known && (joined.anew || number.first == trained_lineage_))
    broken(begins + ", but the run is trained");
  for (auto& [older, started] : started_) {
    if (older.first != number.first || older.second >= number.second) continue;
    if (joined.anew) started.furthest = 0;
    if (started.furthest > commit.began_at)
      broken(begins + ", but " + of(older.second) + " has committed step " +
             std::to_string(started.furthest));
  }
}

void Invariants::committed(const Commit& commit) {
  ++commits_;
  const Number number{commit.lineage, commit.generation.number};
  const std::string what = "step " + std::to_string(commit.step) + " of " + of(number.second);
  std::uint64_t at = 0;
  for (const Part& part : commit.parts) {
    if (part.state != commit.parts.front().state) broken(what + " is a sum over different states");
    if (part.begin != at) broken(what + " leaves out samples, or takes some twice");
    at = part.end;
  }
  if (at != step_samples_) broken(what + " is not a sum over all of its samples");
  const auto [known, first] =
      started_.try_emplace(number, Started{commit.generation, commit.began_at, 0, commit.generation.members});
  if (first) check_start(number, commit, what);
  Started& started = known->second;
  if (first) std::erase_if(started.living, [&](const rt::Member& member) { return dead_.contains(member); });
  if (started.generation != commit.generation) broken(what + " is committed by two sets of members");
  const auto result = results_.try_emplace({number.first, number.second, commit.step}, commit.result).first;
  if (result->second != commit.result) broken(what + " has two results");
  started.furthest = std::max(started.furthest, commit.step);
  for (auto later = std::next(known); later != started_.end() && later->first.first == number.first;
       ++later) {
    if (commit.step > later->second.step)
      broken(what + " is committed beside " + of(later->first.second) + ", which began at step " +
             std::to_string(later->second.step));
  }
}

}  // namespace mlk::sim
