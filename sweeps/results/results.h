// The results of a sweep as a table: the best trial first, in forms for people and for programs. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

struct Column {
  enum class Kind { trial, state, objective, parameter, metric, duration, tries, failure };
  Kind kind;
  std::string name;  // unique in this table; for a parameter, the shortest unambiguous end of its path: "lr"
  std::string of;    // the path of a parameter, or the name of a metric
};

struct ResultTable {
  std::vector<Column> columns;
  std::vector<std::vector<nlohmann::json>> rows;  // one cell for each column; null: no value
};

struct Order {
  std::string
      sort;  // a column, a parameter's path or `objective`; "-lr": the largest first; "": the best first
  std::size_t top = 0;  // keeps at most so many trials; 0 keeps all trials
};

// The trials in the requested order. If they are sorted by a column, trials without a value in this column
// come last; otherwise trials without a rank come last. Throws Error{usage} if the column does not exist.
std::vector<Trial> in_order(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                            const Order& order);

// A row for each trial, in the order of `trials`. Columns: number, state, objective, the parameters that
// vary, the duration in seconds (if the trial has ended), tries, and, if any trial has failed, the reason.
// `wide` adds the other parameters and the last values of the metrics, and the column of reasons even if it
// is empty. The names of columns do not depend on `wide`.
ResultTable result_table(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                         bool wide = false);

// The text of a file, with a header and a newline after each row. A program that reads the text gets exactly
// the same numbers. Lists and maps are JSON. The text contains no control characters for a terminal. CSV
// follows RFC 4180, but with plain newlines. In TSV, tabs and newlines of a cell become blanks.
std::string to_csv(const ResultTable& table);
std::string to_tsv(const ResultTable& table);

// A table in GitHub's Markdown, with rounded numbers.
std::string to_markdown(const ResultTable& table);

// For a terminal: rounded numbers, durations such as 3m20s, headers in capitals.
std::vector<std::string> shown_headers(const ResultTable& table);
std::vector<std::vector<std::string>> shown_rows(const ResultTable& table);

// An array of objects, in the same order, with all known values of the trials:
// {"trial": 0, "hash": ..., "state": "Succeeded", "tries": 1, "step": 500, "objective": 0.97,
//  "parameters": {"train.optimizer.lr": 0.1}, "metrics": {...}, "curve": [[100, 0.9]], "started": ...,
//  "ended": ..., "failure": null}
nlohmann::json results_json(const std::vector<Trial>& trials);

}  // namespace mlk::sweeps
