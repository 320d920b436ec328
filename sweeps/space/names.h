// The names of a sweep's parameters: paths of values in the experiment, and own names, which the user invents
// and writes as ${sweep.NAME} in `run` and `env`. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

class Names {
 public:
  // Collects the names of the experiment's tree. Keeps no reference to the tree.
  explicit Names(const YamlNode& root);

  // What `written` means: the NAME of a ${sweep.NAME}, a whole path, or the only path whose last word is
  // `written`. nullopt after adding a problem at `place`.
  std::optional<std::string> resolve(const std::string& written, const Place& place,
                                     Problems& problems) const;

  bool is_own(const std::string& path) const { return own_.count(path) == 1; }

  // Adds a problem for each ${sweep.NAME} whose NAME is not among the `parameters`. `repeat` needs no
  // parameter.
  void check_all_given(const std::vector<Parameter>& parameters, Problems& problems) const;

 private:
  struct Use {
    std::string name;
    Place place;
  };
  std::vector<std::string> arguments_;  // their paths: args.lr. They go before all other paths
  std::vector<std::string> paths_;      // of all keys that may vary, and of the variables in `env`
  std::set<std::string> own_;
  std::vector<Use> uses_;
};

// `workers.count` for `roles.worker.count`, as people write this path. Returns other paths unchanged.
std::string with_short_role(const std::string& path);

// Replaces each ${sweep.NAME} in `run` and `env` by the text of that name. The default text of `repeat` is 1,
// and that of any other name is empty.
void put_values(YamlNode& root, const std::map<std::string, std::string>& texts);

// The experiment's tree as JSON. A value in `run` or `env` whose spelling JSON would lose becomes text: 3.10,
// not 3.1.
nlohmann::json json_of_experiment(YamlNode root);

// Whether a text in the tree contains a ${sweep.NAME}.
bool has_names(const YamlNode& node);

// The text of a value: a string unchanged, any other value as JSON.
std::string text_of_value(const nlohmann::json& value);

// Stores the spelling of a scalar if it differs from the text of its value. Keeps the first spelling of a
// value.
void note_spelling(const nlohmann::json& value, const std::string& written, Spellings& spellings);

// The texts of a point's values, by path, in the spelling of the user.
std::map<std::string, std::string> texts_of(const Space& space, const Point& point);

}  // namespace mlk::sweeps
