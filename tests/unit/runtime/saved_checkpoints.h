// The checkpoints of a run of a small model, which a test saves and loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/temporary_folder.h"

namespace mlk::test {

inline const std::vector<rt::TensorInfo> two_tensors = {{"layers.0.weight", {3, 2}, 0, 6},
                                                        {"layers.0.bias", {3}, 6, 3}};

struct Checkpoints {
  TemporaryFolder folder;
  std::filesystem::path checkpoints = folder.path() / "run" / "checkpoints";
  rt::Log log{"test", -1};

  rt::CheckpointStore store(int keep = 3) const {
    return rt::CheckpointStore(checkpoints.string(), keep, log);
  }
  std::filesystem::path at(std::uint64_t step) const { return folder_of_step(checkpoints, step); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
      found.insert(entry.path().filename().string());
    return found;
  }
  void save(std::uint64_t step, int keep = 3) const {
    REQUIRE(store(keep).save(snapshot_of(state_at(step, 9)), two_tensors));
  }
  std::uint64_t loaded() const { return load_and_check(store(), two_tensors); }
};

}  // namespace mlk::test
