// One trial of a sweep: its line in the file of points. See CONTRACT.md, "Trials of a sweep".
#pragma once

#include <cstddef>
#include <istream>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/launch/launch_env.h"

namespace mlk::rt {

inline constexpr std::size_t most_point_bytes = std::size_t{64} << 10;  // of a line
inline constexpr std::size_t most_points_bytes = std::size_t{2} << 20;  // of a line and all earlier lines

struct Trial {
  int number = 0;         // in the whole sweep, from 0
  std::string values;     // "lr=0.01 optimizer=adam": printable ASCII, at most 1024 bytes
  nlohmann::json config;  // a merge patch (RFC 7386) over the configuration of the run
};

// The trial in line `index` + 1 of the file of points. Keeps only that line in memory. Throws
// Failure{bad_configuration} that names the file and the line.
Trial load_trial(const std::string& path, int index);

// Reads the trial from an open stream. Error messages call the file `name`.
Trial read_trial(std::istream& file, const std::string& name, int index);

// Changes the folders for checkpoints and for TensorBoard from those of the sweep to those of the trial,
// which are below them and have the trial's number as their name.
void enter_folders(LaunchEnv& env, const Trial& trial);

}  // namespace mlk::rt
