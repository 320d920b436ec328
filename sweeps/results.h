// The results of a sweep as a table: the best trial first, in forms for people and for programs. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/objective.h"
#include "sweeps/space.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

struct Column {
  enum class Kind { trial, state, objective, parameter, metric, duration, tries, failure };
  Kind kind;
  std::string name;  // in this table the only one: "lr"; of parameters the shortest end of the path that is
  std::string of;    // the path of a parameter, or the name of a metric
};

struct ResultTable {
  std::vector<Column> columns;
  std::vector<std::vector<nlohmann::json>> rows;  // as many cells as columns; null: there is no value
};

// What has failed has no rank, and neither has a trial without an objective. Among equals the lower number.
// nullptr when no trial has a rank. Points into `trials`.
const Trial* best(const std::vector<Trial>& trials, const Objective& objective);

struct Order {
  std::string
      sort;  // a column, a parameter's path or `objective`; "-lr" for the largest first; "": the best first
  std::size_t top = 0;  // so many at most; 0: all
};

// Trials without a rank, or without a value in that column, come last. Throws Error{usage} when there is no
// such column.
std::vector<Trial> in_order(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                            const Order& order);

// A row for each trial, in the same order. Columns: the trial's number, its state, the objective, the
// parameters that vary, its duration in seconds once it has ended, its tries, and why it failed if any did.
// `wide` adds the other parameters and the last metrics. Columns have the same names with and without it.
ResultTable result_table(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                         bool wide = false);

// The text of a file, with a header and a newline behind each row. Numbers read back equal, lists and maps
// are JSON. Nothing in it steers a terminal. CSV as RFC 4180 has it but with plain newlines; in TSV tabs and
// newlines of a cell are blanks.
std::string to_csv(const ResultTable& table);
std::string to_tsv(const ResultTable& table);

// A table of GitHub's Markdown, with rounded numbers.
std::string to_markdown(const ResultTable& table);

// For a terminal: rounded numbers, durations such as 3m20s, headers in capitals.
std::vector<std::string> shown_headers(const ResultTable& table);
std::vector<std::vector<std::string>> shown_rows(const ResultTable& table);

// An array of objects, in the same order, with everything that is known of the trials:
// {"trial": 0, "hash": ..., "state": "Succeeded", "tries": 1, "step": 500, "objective": 0.97,
//  "parameters": {"train.optimizer.lr": 0.1}, "metrics": {...}, "curve": [[100, 0.9]], "started": ...,
//  "ended": ..., "failure": null}
nlohmann::json results_json(const std::vector<Trial>& trials);

}  // namespace mlk::sweeps
