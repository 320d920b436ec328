// The text of trials in the ledger of a sweep: JSON Lines, one line for each trial. Pure.
//
// {"a":"2026-11-23T10:00:00.000000Z","c":[[100,0.9],[500,0.2]],"e":"2026-11-23T10:05:00.000000Z",
//  "f":"exit code 1","i":500,"m":{"loss":0.2},"n":3,"o":0.2,"p":{"train.optimizer.lr":0.1},"s":"Failed",
//  "t":1}
//
// The keys mean: started (a), curve, ended, failure, step (i), metrics, number, objective, point, state,
// tries. Absent fields are left out. A line does not contain the hash, since mlk computes the hash from the
// point.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/limits.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// The limit of a point, in bytes of JSON. mlk refuses a sweep with a larger point, so the ledger has no such
// trial.
inline constexpr std::size_t longest_point = 4096;
// The limit of the metrics of a trial, in bytes of JSON. If the metrics do not fit, the last ones in
// alphabetical order are dropped.
inline constexpr std::size_t longest_metrics = 4096;
inline constexpr std::size_t longest_failure = 300;     // bytes of text
inline constexpr std::size_t longest_curve = 64;        // points
inline constexpr std::size_t longest_line = 14 * 1024;  // bytes, without its newline; see ledger.cpp

inline constexpr std::size_t longest_shard = most_config_map_bytes;  // bytes; each shard is one ConfigMap
// The number of trials in a shard. They fit even if each line is as long as allowed. Trial i is always in
// shard i / lines_per_shard. So if a line becomes longer, the other lines stay in their shards.
inline constexpr std::size_t lines_per_shard = longest_shard / (longest_line + 1);

// The trial on one line, without a newline. All values except the point are cut to the limits above.
// from_line() returns exactly the same numbers, and the same times to the microsecond.
std::string to_line(const Trial& trial);

// The inverse of to_line(). The text may come from any source: returns nullopt if it is not a trial or is too
// long. Unknown keys and values of the wrong type are ignored; long values are cut.
std::optional<Trial> from_line(std::string_view line);

// The trials of a shard, in the order of its lines; invalid lines are skipped.
std::vector<Trial> from_shard(std::string_view text);

// Merges two views of one trial. A success wins over the result of any other try, unless a verdict (trial.h)
// condemns its try or a later one. Otherwise the view with more tries wins. If both views are of the same
// try, an ended view wins, and then the view with more steps. The winner copies its missing values from the
// other view, but never a verdict on an earlier try. It copies metrics and the objective only from a view of
// the same try; a success copies them also from a later try that has not failed. The order of the arguments
// does not matter, and merging a view again changes nothing.
Trial combine(const Trial& a, const Trial& b);

// Combines two views of one trial: `now`, from the objects of the trial, and `reported`, an earlier view from
// before the end of the trial. The reports of `reported` come first. With `whole`, if `now` has neither
// metrics nor an objective, also copies the step, the metrics and the objective of `reported`.
Trial continued(const Trial& reported, Trial now, bool whole);

}  // namespace mlk::sweeps
