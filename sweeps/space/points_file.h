// A file with the points of a sweep: a table or a list, made by a program or by hand. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/yaml/problems.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

inline constexpr std::size_t longest_points_file = 16 * 1024 * 1024;  // bytes
inline constexpr std::size_t most_points = 100'000;

struct PointsFile {
  std::vector<Point> points;  // at least one, all different and not empty; in the order of the file
  // Every parameter and the place of its first occurrence, in the order of these places. The caller checks
  // whether the experiment has the parameter.
  std::vector<std::pair<std::string, Place>> columns;
  std::vector<Place> places;                 // of the points
  std::map<std::string, Spellings> written;  // spellings by column, for CSV, TSV and YAML
  std::map<std::string, WrittenAt>
      values;  // where each value occurs first, by column; for JSON, where its point begins
};

// Whether the name has the ending of a readable file: .csv, .tsv, .json, .yaml, .yml; case is ignored.
bool is_points_file(std::string_view name);

// Parses the text of a file with points. The ending of its name decides the format:
//   .csv .tsv  a line of parameters, then one line for each point; an empty field leaves out its parameter
//   .json      a list of objects: [{"lr": 0.1}, {"lr": 0.2}]
//   .yaml      a list of maps
// Values have the same types as in the experiment file: 0.1 is a number, true a boolean, sgd a text. A value
// in quotes is a text in JSON and YAML. Quotes of CSV do not change the type; [128, 64] is a list in CSV too.
// null leaves out the parameter. nullopt after adding at least one problem.
std::optional<PointsFile> read_points(const std::string& text, const std::string& name, Problems& problems);

}  // namespace mlk::sweeps
