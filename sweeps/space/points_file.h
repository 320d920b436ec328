// A file with the points of a sweep: a table or a list, made by a program or by hand. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/experiment/problems.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

inline constexpr std::size_t longest_points_file = 16 * 1024 * 1024;  // bytes
inline constexpr std::size_t most_points = 100'000;

struct PointsFile {
  std::vector<Point> points;  // at least one, all different, none empty; in the order of the file
  // Every parameter and the place where it first occurs, in this order. The caller checks whether it exists.
  std::vector<std::pair<std::string, Place>> columns;
  std::vector<Place> places;                 // of the points
  std::map<std::string, Spellings> written;  // by column, of CSV, TSV and YAML
  std::map<std::string, WrittenAt> values;   // by column; of JSON the places of the points
};

// Whether the name has the ending of a readable file: .csv, .tsv, .json, .yaml, .yml; case is ignored.
bool is_points_file(std::string_view name);

// The points of a file that was read already, by the ending of its name:
//   .csv .tsv  a line of parameters, then one line for each point; an empty field is a parameter left out
//   .json      a list of objects: [{"lr": 0.1}, {"lr": 0.2}]
//   .yaml      a list of maps
// Values are typed as in the experiment file: 0.1 is a number, true a boolean, sgd a text, and so is what
// stands between quotes in JSON and YAML. Quotes of CSV mean nothing; [128, 64] is a list there too. null is
// a parameter left out. nullopt after adding at least one problem.
std::optional<PointsFile> read_points(const std::string& text, const std::string& name, Problems& problems);

}  // namespace mlk::sweeps
