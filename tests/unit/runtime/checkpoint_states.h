// States for tests of checkpoints: every float shows its step and its index, so that a test notices any float
// at a wrong place.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/ps/machines/protocol.h"

namespace mlk::test {

inline rt::TrainingState state_at(std::uint64_t step, std::size_t parameters, std::size_t slots = 2) {
  rt::TrainingState state{step, step * 64, {}, {}};
  const auto value = [step](std::size_t i) {
    return static_cast<float>(step % 4096) + static_cast<float>(i % 1021) / 1024;
  };
  for (std::size_t i = 0; i < parameters; ++i) state.parameters.push_back(value(i));
  for (std::size_t i = 0; i < slots * parameters; ++i) state.optimizer_state.push_back(-value(i + 7));
  return state;
}

inline rt::Snapshot snapshot_of(const rt::TrainingState& state) {
  rt::Snapshot snapshot;
  snapshot.restart(state.step, state.position, 0);
  snapshot.add(0, 0, state.parameters);
  const std::size_t size = state.parameters.size();
  for (std::size_t slot = 0; slot < state.optimizer_state.size() / size; ++slot) {
    snapshot.add(1 + slot, 0, std::span(state.optimizer_state).subspan(slot * size, size));
  }
  return snapshot;
}

// The part of the state that one of several servers copies.
inline rt::Snapshot shard_of(const rt::TrainingState& state, const std::vector<rt::Chunk>& chunks,
                             std::uint32_t server) {
  const std::size_t size = state.parameters.size(), slots = state.optimizer_state.size() / size;
  rt::Snapshot snapshot;
  snapshot.restart(state.step, state.position, 0);
  for (std::size_t part = 0; part <= slots; ++part) {
    const auto values = part == 0 ? std::span(state.parameters)
                                  : std::span(state.optimizer_state).subspan((part - 1) * size, size);
    for (const rt::Chunk& chunk : chunks) {
      if (chunk.server == server) snapshot.add(part, chunk.offset, values.subspan(chunk.offset, chunk.size));
    }
  }
  return snapshot;
}

inline std::filesystem::path folder_of_step(const std::filesystem::path& checkpoints, std::uint64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%012lu", static_cast<unsigned long>(step));
  return checkpoints / name;
}

// Loads the newest checkpoint and checks all of its content. Returns its step, or 0 if there is no
// checkpoint.
inline std::uint64_t load_and_check(const rt::CheckpointStore& store,
                                    const std::vector<rt::TensorInfo>& tensors, std::size_t slots = 2) {
  const auto loaded = store.load_newest(tensors);
  if (!loaded) return 0;
  const rt::TrainingState expected = state_at(loaded->step, rt::parameter_count(tensors), slots);
  CHECK(loaded->position == expected.position);
  const bool parameters_are_right = loaded->parameters == expected.parameters;
  CHECK(parameters_are_right);
  const bool state_is_right = loaded->optimizer_state == expected.optimizer_state;
  CHECK(state_is_right);
  return loaded->step;
}

}  // namespace mlk::test
