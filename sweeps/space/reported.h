// Finds a metric in the lines that programs print. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/util/pattern.h"
#include "sweeps/space/objective.h"

namespace mlk::sweeps {

// One report of a metric.
struct Reported {
  std::optional<std::int64_t> step;  // or the epoch; absent with a regex, and for a line with neither
  double value = 0;                  // as printed; may be NaN or infinite
};

// Finds the objective's metric in lines of a log. Without a regex, a line may be a metrics line ("mlk step=10
// loss=0.3"), JSON ({"step": 10, "loss": 0.3}), any words with loss=0.3 among them, or a line of another form
// that programs print ("step 10: loss 0.3", see cli/run/facts/printed_metrics.h). If the objective's
// position is the epoch, the line's epoch is the progress of the trial. Otherwise the progress is the step,
// or, in a line without a step, the epoch. A number must reach to the end of its word: "loss=12,000" reports
// nothing. Only a number that a regex finds may have other characters beside it, such as a comma or a percent
// sign. Time and memory for a line are bounded for every pattern. Lines of more than 4 KiB are ignored.
class MetricFinder {
 public:
  // Throws Error{usage} for a regex that read_objective() would refuse.
  explicit MetricFinder(const Objective& objective);

  std::optional<Reported> find(std::string_view line) const;

  // Why a line that seems to contain the metric does not report it, as one line of text. mlk reports this
  // reason if no line has the metric. nullopt for other lines.
  std::optional<std::string> near_miss(std::string_view line) const;

 private:
  Objective objective_;
  std::optional<Pattern> pattern_;  // absent if there is no regex
};

}  // namespace mlk::sweeps
