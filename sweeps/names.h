// What the parameters of a sweep are called: values of the experiment by their paths, and names of the user's
// own, which stand as ${sweep.NAME} in `run` and `env`. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"
#include "sweeps/space.h"

namespace mlk::sweeps {

class Names {
 public:
  // Of the experiment's tree. Keeps no reference to it.
  explicit Names(const YamlNode& root);

  // The full path that `written` means: the path itself, a name of the user's own, or the only path of which
  // it is the last word. What it cannot be is told to `problems`, at `place`.
  std::optional<std::string> resolve(const std::string& written, const Place& place,
                                     Problems& problems) const;

  bool is_own(const std::string& path) const { return own_.count(path) == 1; }

  // Tells the names of the user's own that none of `parameters` gives a value.
  void check_all_given(const std::vector<Parameter>& parameters, Problems& problems) const;

 private:
  struct Use {
    std::string name;
    Place place;
  };
  std::vector<std::string> paths_;  // that the experiment file knows
  std::set<std::string> own_;
  std::vector<Use> uses_;
};

// `roles.worker.count` as people write it, `workers.count`; other paths as they are.
std::string with_short_role(const std::string& path);

// Replaces each ${sweep.NAME} in `run` and `env` by the point's value; by nothing when it has none.
void put_values(YamlNode& root, const Point& point);

// Whether a text below has a ${sweep.NAME}.
bool has_names(const YamlNode& node);

// A value as it stands in a text: text as it is, anything else as JSON writes it.
std::string text_of_value(const nlohmann::json& value);

}  // namespace mlk::sweeps
