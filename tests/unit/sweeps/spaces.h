// Parameters and spaces for the tests of the searches.
#pragma once

#include <string>
#include <vector>

#include "sweeps/space/space.h"

namespace mlk::test {

inline sweeps::Parameter choice(const std::string& path, const std::vector<nlohmann::json>& values,
                                const std::vector<sweeps::Condition>& when = {}) {
  return {path, sweeps::Parameter::Kind::choice, values, 0, 0, when};
}

inline sweeps::Parameter integer(const std::string& path, double low, double high,
                                 const std::vector<sweeps::Condition>& when = {}) {
  return {path, sweeps::Parameter::Kind::integer, {}, low, high, when};
}

inline sweeps::Parameter log_integer(const std::string& path, double low, double high,
                                     const std::vector<sweeps::Condition>& when = {}) {
  return {path, sweeps::Parameter::Kind::log_integer, {}, low, high, when};
}

inline sweeps::Parameter uniform(const std::string& path, double low, double high,
                                 const std::vector<sweeps::Condition>& when = {}) {
  return {path, sweeps::Parameter::Kind::uniform, {}, low, high, when};
}

inline sweeps::Parameter log_uniform(const std::string& path, double low, double high,
                                     const std::vector<sweeps::Condition>& when = {}) {
  return {path, sweeps::Parameter::Kind::log_uniform, {}, low, high, when};
}

}  // namespace mlk::test
