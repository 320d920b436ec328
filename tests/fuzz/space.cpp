// Spaces of sweeps as users write them: the file's `sweep:` with the words of the command line, and files of
// points. A space that is not refused with a reason can be counted, and its points lie in the space.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/util/error.h"
#include "cli/util/text.h"
#include "sweeps/search/grid.h"
#include "sweeps/search/random.h"
#include "sweeps/search/spec.h"
#include "sweeps/space/points_file.h"
#include "tests/fuzz/demand.h"

using namespace mlk;
using namespace mlk::sweeps;
using mlk::fuzz::demand;

namespace {

constexpr std::size_t few = 20;

void use_space(const Space& space) {
  for (const Parameter& parameter : space.parameters) {
    demand(!parameter.path.empty());
    demand(parameter.kind == Parameter::Kind::choice ? !parameter.values.empty()
                                                     : parameter.low < parameter.high);
  }
  std::vector<Point> points = random_points(space, 1, few);
  if (is_finite(space)) {
    const GridSize size = count_grid(space);
    const std::vector<Point> listed = grid_points(space, few);
    demand(!size.exact || listed.size() <= size.points);
    points.insert(points.end(), listed.begin(), listed.end());
  }
  for (const Point& point : points) demand(!is_left_out(space, point));
}

// The first line has the words of the command line, separated by blanks. The other lines are the file.
void read_sweep_text(const std::string& text) {
  const std::size_t line = text.find('\n');
  const std::vector<std::string> words = split(text.substr(0, line), ' ');
  YamlNode root = parse_yaml(line == std::string::npos ? "" : text.substr(line + 1), "x.yaml");
  if (root.kind != YamlNode::Kind::map) return;
  Problems problems;
  const Spec spec = extract_spec(root, words, problems);
  demand(root.find("sweep") == nullptr);
  problems.throw_if_any();
  use_space(spec.space);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    read_sweep_text(text);
  } catch (const Error& error) {
    demand(error.code() == ExitCode::usage);
  }
  for (const char* name : {"p.csv", "p.tsv", "p.json", "p.yaml"}) {
    Problems problems;
    const std::optional<PointsFile> points = read_points(text, name, problems);
    demand(points.has_value() == problems.empty());
    if (points) demand(!points->points.empty() && points->points.size() == points->places.size());
  }
  return 0;
}
