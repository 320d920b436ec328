// Label and field selectors. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {

// "a=b,c!=d,e in (f, g),!h,i". Throws StatusError 400 for any other text.
class LabelSelector {
 public:
  explicit LabelSelector(std::string_view text);
  bool matches(const nlohmann::json& object) const;

 private:
  enum class Operator { in, not_in, exists, missing };
  struct Term {
    std::string key;
    Operator op;
    std::vector<std::string> values;
  };
  std::vector<Term> terms_;
};

// "metadata.name=x,status.phase!=Running": fields are compared as text, and an absent field is empty. Throws
// StatusError 400 for any other text, and for fields by which Kubernetes does not select objects of that
// kind.
class FieldSelector {
 public:
  FieldSelector(std::string_view text, const Kind& kind);
  bool matches(const nlohmann::json& object) const;

 private:
  struct Term {
    nlohmann::json::json_pointer path;
    bool equal;
    std::string value;
  };
  std::vector<Term> terms_;
};

}  // namespace mlk::local
