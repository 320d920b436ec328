// An experiment after validation, with every default filled in.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk {

// The replicas of one role. count >= min >= 1; the run continues while at least `min` replicas are left.
struct Role {
  int count = 1;
  int min = 1;
  std::string cpu = "1";  // Kubernetes quantities
  std::string memory = "1Gi";
  int gpu = 0;
  int processes = 1;  // of each replica; the framework's launcher starts the processes
};

// One entry of `data:`.
struct DataEntry {
  std::string name;
  std::string mount;  // absolute path in the pods
  std::string
      files;  // the folder as written, relative to the experiment file; empty for every other kind of volume
  bool read_only = true;
};

struct Experiment {
  std::string name;
  std::string mode;                  // single, ps, allreduce or a job type of the user
  std::string image;                 // empty: the experiment names none
  bool has_train = false;            // false: `run:` has the program
  std::vector<std::string> command;  // of `run:` and `args:`; a text of `run:` is the script of sh -c
  std::map<std::string, Role> roles;
  std::vector<DataEntry> data;
  std::chrono::seconds start_timeout{0};
  std::optional<std::chrono::seconds> time_limit;

  // The whole file as JSON: with overrides applied, short forms written out (`workers` becomes roles.worker)
  // and every default filled in. Loading this JSON gives the same experiment. If a key has no field above,
  // mlk reads the key from here.
  nlohmann::json effective;
};

// Whether the experiment names no image. Only the embedded cluster can run an experiment without an image.
inline bool needs_image(const Experiment& experiment) { return experiment.image.empty(); }

}  // namespace mlk
