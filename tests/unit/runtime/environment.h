// The environment in which a process of a run starts.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

namespace mlk::test {

// Sets these variables while the object lives, and unsets all other variables that the runtime reads.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    clear();
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name :
         {"MLK_RUN",          "MLK_ROLE",     "MLK_RANK",         "MLK_ADDRESS",     "MLK_SEEDS_WORKER",
          "MLK_SEEDS_SERVER", "MLK_CONFIG",   "MLK_DATA",         "MLK_WEIGHTS",     "MLK_CHECKPOINTS",
          "MLK_RESULT",       "MLK_SECRET",   "MLK_INCARNATION",  "MLK_TRANSPORT",   "MLK_TENSORBOARD",
          "MLK_METRICS_PORT", "MLK_FAILURES", "MLK_LATE_SECONDS", "OMP_NUM_THREADS", "MLK_POINTS",
          "MLK_TRIAL_INDEX",  "MLK_GPUS",     "MLK_LOCAL_RANK",   "MLK_GPU_LIBRARY"}) {
      unsetenv(name);
    }
  }
};

}  // namespace mlk::test
