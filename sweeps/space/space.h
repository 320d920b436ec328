// The space that a sweep searches: parameters, their possible values, and the excluded combinations. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/yaml/problems.h"

namespace mlk::sweeps {

// A value for each parameter, by its path: {"train.optimizer.lr": 0.1}. A parameter whose conditions do not
// hold is absent.
using Point = std::map<std::string, nlohmann::json>;

inline constexpr double largest_whole = 0x1p53;  // beyond it, a double does not represent every whole number

// The form that all equal values share: 8 for 8.0. Values are equal if they are equal as JSON, where numbers
// compare by value, also inside lists and maps.
nlohmann::json normal_form(const nlohmann::json& value);
nlohmann::json normal_form(const Point& point);

// The user's spelling of each value that JSON would spell differently: 3.10, 1e3, True.
using Spellings = std::map<nlohmann::json, std::string>;

// The place where the user has written each value for the first time.
using WrittenAt = std::map<nlohmann::json, Place>;

// A condition holds for a point that has `path` with one of `values`.
struct Condition {
  std::string path;
  std::vector<nlohmann::json> values;
};

struct Parameter {
  enum class Kind {
    choice,       // one of `values`
    uniform,      // any number from low to high
    log_uniform,  // a number from low to high, with a uniform logarithm; low is above 0
    integer,      // a whole number from low to high
    log_integer,  // a whole number from low to high, with a uniform logarithm; low is above 0
  };
  std::string path;  // a path in the experiment, "train.optimizer.lr", or the NAME of a ${sweep.NAME}
  Kind kind = Kind::choice;
  std::vector<nlohmann::json> values;  // of a choice: at least one, distinct, in the order written
  double low = 0, high = 0;            // of the other kinds, both included
  std::vector<Condition> when;         // all must hold; they name parameters that come earlier in the space
  Spellings written{};                 // of `values`; programs get this spelling
  Place place{};                       // of the text with the values; has no source if read from a record
  WrittenAt places{};                  // of `values` in a list or a points file; values of a range have none
};

struct Space {
  std::vector<Parameter> parameters;
  std::vector<std::vector<Condition>> except;  // a point is excluded if all conditions of an entry hold
};

// Whether the values of a parameter of this kind are whole numbers.
bool is_whole(Parameter::Kind kind);

// The place of the value if the file or the command contains exactly this value. Otherwise the place of the
// text from which the values come, such as a range.
const Place& place_of(const Parameter& parameter, const nlohmann::json& value);

// Whether the parameter has several values.
bool varies(const Parameter& parameter);

// The value of the parameter with this path. JSON null if the point does not have the parameter.
nlohmann::json value_at(const Point& point, const std::string& path);

// Whether the parameter may have that value.
bool can_be(const Parameter& parameter, const nlohmann::json& value);

// Whether all conditions hold; true if there are no conditions.
bool holds(const std::vector<Condition>& conditions, const Point& point);

bool is_left_out(const Space& space, const Point& point);

}  // namespace mlk::sweeps
