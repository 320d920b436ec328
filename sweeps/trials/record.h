// What the owner of a sweep says about the sweep, so that any machine can read its results. Pure.
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
  std::string kin;      // kin_of_sweep()
  // True: mlk starts each trial as a run, except earlier ones that are indexes of Jobs. False: the cluster
  // runs all trials as indexes of Jobs.
  bool driven = false;
};

nlohmann::json to_json(const Record& record);
// Read from the owner's data; what is missing or unreadable keeps the value of a Record{}.
Record read_record(const nlohmann::json& owner);

// The default number of trials that may fail before the sweep ends: a tenth, and at least 3.
int usual_failures(std::size_t trials);

Record record_of(const Definition& definition, int trials, bool driven);

// The data that the owner of a sweep has in addition to that of a run.
nlohmann::json owner_overlay(const Definition& definition, bool driven);
// The merge patch for an owner that is to say this.
nlohmann::json owner_patch(const Record& record);

// Whether the record counts trials that neither the sweep has yet (`known`) nor this definition: another
// command has added them, and they are not registered yet.
bool others_have_added(const Record& record, const Definition& definition, int known);

}  // namespace mlk::sweeps
