// The description of a sweep in its owner, so that any machine can read the sweep's results. Pure.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "sweeps/search/definition.h"

namespace mlk::sweeps {

struct Record {
  Space space;
  std::string search;
  std::optional<Objective> objective;
  int trials = 0;
  int parallel = 1;
  int max_failures = 0;
  nlohmann::json base;  // the experiment without `sweep:`, as written; null if unknown
  std::string kin;      // the result of kin_of_sweep()
  // False: the cluster runs all trials as indexes of Jobs. True: mlk starts each new trial as a run; earlier
  // trials may still be indexes of Jobs.
  bool driven = false;
};

nlohmann::json to_json(const Record& record);
// Reads the record from the owner's data. A missing or unreadable field keeps its default value.
Record read_record(const nlohmann::json& owner);

// The default number of trials that may fail before the sweep ends: a tenth of the trials, and at least 3.
int usual_failures(std::size_t trials);

Record record_of(const Definition& definition, int trials, bool driven);

// The parts of a sweep's owner that the owner of a run does not have.
nlohmann::json owner_overlay(const Definition& definition, bool driven);
// The merge patch that stores this record in an owner.
nlohmann::json owner_patch(const Record& record);

// Whether another command has added trials that are not registered yet. In this case the record counts more
// trials than the sweep has registered (`known`) and more than this definition plans.
bool others_have_added(const Record& record, const Definition& definition, int known);

}  // namespace mlk::sweeps
