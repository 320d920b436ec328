// A metric in the lines that programs print. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sweeps/objective.h"

namespace mlk::sweeps {

// One report of a metric.
struct Reported {
  std::optional<std::int64_t> step;  // or epoch; absent when the line names none
  double value = 0;                  // NaN and infinities too, as they were printed
};

// Why the text cannot find a number in lines, in words that follow "regex: "; empty when it can. A pattern is
// an ECMAScript regular expression of at most 256 bytes with a group, without references back to groups.
std::string why_no_pattern(const std::string& pattern);

// Finds the objective's metric in lines of a log. Without a regex these are, by their beginning, metrics
// lines
// ("mlk step=10 loss=0.3"), JSON ({"step": 10, "loss": 0.3}), or any words with loss=0.3 among them. How
// far the trial has come is what the line has for the objective's position; for step, where there is none, an
// epoch. Work and memory for a line are bounded, whatever the pattern; lines of more than 4 KiB have no
// reports.
class MetricFinder {
 public:
  // Throws Error{usage} for a regex that read_objective() would not have taken.
  explicit MetricFinder(const Objective& objective);
  ~MetricFinder();
  MetricFinder(MetricFinder&&) noexcept;
  MetricFinder& operator=(MetricFinder&&) noexcept;

  std::optional<Reported> find(std::string_view line) const;

 private:
  struct Pattern;
  Objective objective_;
  std::unique_ptr<const Pattern> pattern_;  // null without a regex
};

}  // namespace mlk::sweeps
