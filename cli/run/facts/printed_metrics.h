// The metrics in a line that any program prints, in the forms that are usual among training programs. Pure.
//
// A field is a number with a name:
//   {"step": 10, "loss": 0.5}     an object of JSON, or a dict of Python, at the end of the line
//   loss=0.5   loss = 0.5         at most four words before a sign: train loss: 0.5
//   loss: 0.5
//   loss 0.5 | acc 0.8            at most two words before a blank, if the number ends a part of the line
// The place of a line in the training is a field called step, iteration, epoch or similar (place_names), or a
// number without a name where loops and progress bars show it: [100/1000], 10/10 [00:01<00:00], [0] at the
// start. A number must reach to the end of its word. So dates, times, versions, addresses and 12,000 are no
// numbers. A unit may follow it: 52 ms, 3.1it/s, 5%.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mlk {

struct PrintedMetrics {
  std::optional<double> step, epoch;
  std::map<std::string, double> values;  // names in lower case, with '_' in the place of blanks
  std::string shape;  // equal for the lines of one statement of a program: the names in their order

  bool has_place() const { return step || epoch; }
};

// nullopt for a line without fields, and for a line of more than longest_metrics_line bytes. Names are plain
// ASCII. At most 64 values.
std::optional<PrintedMetrics> read_printed_metrics(std::string_view line);

}  // namespace mlk
