// Where the files stay that a program writes into the folders of `outputs:`. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk {

struct OutputsPlace {
  nlohmann::json volume;           // as in the experiment file: {"pvc": "results"}
  std::string mount;               // its mount path in the pods
  bool is_of_checkpoints = false;  // the volume is that of the checkpoints
};

// The volume of outputs.to, or else that of the checkpoints, or else the claim `usual_claim`. nullopt: the
// experiment has no outputs, or there is no volume for them, so that they end with the pods.
std::optional<OutputsPlace> outputs_place(const nlohmann::json& effective, const std::string& usual_claim);

inline constexpr char outputs_folder[] = "outputs";  // in the run's folder of the volume
// The folder of a rank below outputs_folder: "3" of worker 3, "server-0" of a server. `rank`: a number, or a
// reference to a variable such as $(MLK_RANK).
std::string outputs_folder_of_rank(const std::string& role, const std::string& rank);

// The words that a container executes before those of its program, so that the program's outputs stay: those
// of mlk-pod. Empty if there is no place for outputs.
std::vector<std::string> outputs_words(const nlohmann::json& effective, const std::string& usual_claim);

// One line for people: whether what the program writes stays, and where. Empty with `train`.
std::string outputs_advice(const nlohmann::json& effective, const std::string& usual_claim);

}  // namespace mlk
