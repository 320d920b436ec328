// What a sweep's owner says of the sweep itself, so that any machine can read its results. Pure.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "sweeps/definition.h"

namespace mlk::sweeps {

struct Record {
  Space space;
  std::string search;
  std::optional<Objective> objective;
  int trials = 0;
  int parallel = 1;
  int max_failures = 0;
  nlohmann::json base;  // the experiment without `sweep:`, as it is written; null when it is not known
  std::string kin;      // kin_of_sweep()
  // mlk starts the trials, each as a run; but for those that are indexes of Jobs, from before it was so. Else
  // the cluster runs all as indexes of Jobs.
  bool driven = false;
};

nlohmann::json to_json(const Record& record);
// Of the owner's data; what is missing or cannot be read is as in a Record{}.
Record read_record(const nlohmann::json& owner);

Record record_of(const Definition& definition, int trials, bool driven);

// What the owner of a sweep has beside that of a run.
nlohmann::json owner_overlay(const Definition& definition, bool driven);
// The merge patch for an owner whose sweep has so many trials now.
nlohmann::json owner_patch(const Definition& definition, int trials, bool driven);

}  // namespace mlk::sweeps
