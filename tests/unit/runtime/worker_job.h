// The job of a worker on the learnable data, for tests of the parts of a worker.
#pragma once

#include <sstream>

#include "runtime/launch/job.h"
#include "tests/unit/runtime/idx_files.h"

namespace mlk::test {

struct WorkerJob {
  TemporaryFolder folder;
  rt::LaunchEnv env;
  rt::Config config;
  rt::StopSignal stop;
  rt::Log log{"test", -1};
  std::ostringstream metrics;
  rt::Reporter reporter{metrics, "", 0};
  rt::Job job{env, config, stop, reporter, log};

  WorkerJob() {
    write_learnable(folder.path());
    env.data = folder.path().string();
    env.threads = 1;
    config.model.hidden = {8};
    config.seed = 1;
  }
};

}  // namespace mlk::test
