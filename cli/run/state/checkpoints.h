// Finds and describes the place of a run's checkpoints. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace mlk {

struct CheckpointPlace {
  nlohmann::json volume;  // as in the experiment file: {"pvc": "checkpoints"}
  std::string path;       // the newest known checkpoint in the volume, or else the run's folder there
  std::optional<std::int64_t> step;  // of that checkpoint
  std::string folder;                // `path` on this machine, if the volume is here; else empty
  std::optional<bool> has_files{};   // whether the folder has files; nullopt: not checked
};

// The folder in the volume: the run's own, or that of the earlier run whose checkpoints the run continues.
std::string checkpoint_folder_of(const nlohmann::json& owner);

// Finds the place from the run's owner and its result. nullopt if checkpoints do not outlive the pods, or if
// the owner was read as metadata only.
std::optional<CheckpointPlace> checkpoint_place(const nlohmann::json& owner, const nlohmann::json& result);

// "claim checkpoints, folder digits-abcde-1234abcd/step-000000003000", or the folder on this machine.
std::string describe(const CheckpointPlace& place);

// What the result says about checkpoints that could not be written: "none since step 120: No space left on
// device", "none yet: Read-only file system"; empty if the result says nothing about this.
std::string unsaved_text(const nlohmann::json& result);

// The text about checkpoints in the status of a run. `newest`: "step 3000", as the run has reported; empty if
// the run has reported no checkpoint. `is_over`: the run has ended.
std::string checkpoint_text(const std::string& newest, const std::optional<CheckpointPlace>& place,
                            bool is_over);

nlohmann::json to_json(const std::optional<CheckpointPlace>& place);

}  // namespace mlk
