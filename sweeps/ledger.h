// The text of trials in the ledger of a sweep: JSON Lines, one line for each trial. Pure.
//
// {"a":"2026-11-23T10:00:00.000000Z","c":[[100,0.9],[500,0.2]],"e":"2026-11-23T10:05:00.000000Z",
//  "f":"exit code
//  1","i":500,"m":{"loss":0.2},"n":3,"o":0.2,"p":{"train.optimizer.lr":0.1},"s":"Failed","t":1}
//
// started (a), curve, ended, failure, step (i), metrics, number, objective, point, state, tries. What a trial
// does not have is left out. The hash is that of the point, and stands in no line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/limits.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

// Bytes as JSON. A ledger holds no trial with a larger point: who makes points refuses such.
inline constexpr std::size_t longest_point = 4096;
// Bytes of metrics as JSON: those that do not fit are left out, from the end of the alphabet.
inline constexpr std::size_t longest_metrics = 4096;
inline constexpr std::size_t longest_failure = 300;     // bytes of text
inline constexpr std::size_t longest_curve = 64;        // points
inline constexpr std::size_t longest_line = 14 * 1024;  // bytes, without its newline; see ledger.cpp

inline constexpr std::size_t longest_shard = most_config_map_bytes;  // a ConfigMap each

// Within the bounds above but for the point; on one line, without a newline. Numbers read back equal, times
// to the microsecond.
std::string to_line(const Trial& trial);

// The inverse, of text from anywhere: nullopt for what is no trial or too long. Unknown keys are left out,
// and so is what has the wrong type; what is too long is cut.
std::optional<Trial> from_line(std::string_view line);

// The trials of a shard (pack), in the order of its lines; lines that are no trials are left out.
std::vector<Trial> from_shard(std::string_view text);

// Two views of one trial as one. A success wins, whatever other tries have come to; else a view with more
// tries; of the same try one that has ended, then the one with more steps. What the winner does not know it
// takes from the other, but for a verdict (trial.h) on an earlier try. The same for both orders, and merging
// a view again changes nothing.
Trial combine(const Trial& a, const Trial& b);

// A trial as its objects show it now, after `reported`, an earlier view of it while it had not ended: what it
// had told then comes before what it tells now. `whole`: its last metrics as well, where it has none.
Trial continued(const Trial& reported, Trial now, bool whole);

// How many lines a shard of at most `limit` bytes holds, however long they become; at least one.
std::size_t lines_per_shard(std::size_t limit);

// The lines as texts of at most `limit` bytes, each line with a newline. Line i always stands in text
// i / lines_per_shard(limit): what lines become later moves none. Lines may be empty. Throws Error{failure}
// for a line over `longest_line`.
std::vector<std::string> pack(const std::vector<std::string>& lines, std::size_t limit = longest_shard);

}  // namespace mlk::sweeps
