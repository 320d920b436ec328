// The mean duration of the newest steps of each rank, and the median over the ranks.
#include "runtime/metrics/pace.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mlk::rt {
namespace {

// The least weight of the newest step in the mean: small, so that one slow step does not make its rank the
// slowest.
constexpr double least_share = 1.0 / 16;
constexpr double clearly_slower = 1.5;

}  // namespace

void Pace::add(std::uint32_t rank, double seconds) {
  if (!(seconds > 0)) return;
  Mean& mean = means_[rank];
  if (mean.steps++ == 0) return;
  mean.seconds += std::max(least_share, 1.0 / static_cast<double>(mean.steps - 1)) * (seconds - mean.seconds);
}

std::optional<std::uint32_t> Pace::slowest() const {
  std::vector<std::pair<double, std::uint32_t>> sorted;
  for (const auto& [rank, mean] : means_) {
    if (mean.steps > 1) sorted.emplace_back(mean.seconds, rank);
  }
  if (sorted.size() < 2) return {};
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2].first;
  const auto& [longest, rank] = sorted.back();
  if (longest < clearly_slower * median) return {};
  return rank;
}

}  // namespace mlk::rt
