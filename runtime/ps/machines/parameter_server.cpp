// Applies gradients to chunks.
#include "runtime/ps/machines/parameter_server.h"

#include <algorithm>

namespace mlk::rt {

ParameterShard::ParameterShard(std::span<const Chunk> chunks, std::uint32_t server,
                               const Optimizer& optimizer, std::uint32_t slices, kernels::Ops& ops)
    : optimizer_(optimizer), slices_(slices), ops_(ops) {
  for (const Chunk& chunk : chunks) {
    if (chunk.server != server) continue;
    parts_[chunk.id];
    sizes_[chunk.id] = chunk.size;
  }
}

ParameterShard::Part* ParameterShard::find(std::uint32_t chunk, std::size_t size) {
  const auto found = parts_.find(chunk);
  return found == parts_.end() || sizes_.at(chunk) != size ? nullptr : &found->second;
}

bool ParameterShard::seed(std::uint32_t chunk, std::uint64_t clock, std::span<const float> weights,
                          std::span<const float> state) {
  Part* part = find(chunk, weights.size());
  const std::size_t state_size = optimizer_.slots() * weights.size();
  if (part == nullptr || (!state.empty() && state.size() != state_size)) return false;
  if (!part->seeded) ++seeded_;
  *part = Part();
  part->seeded = true;
  part->clock = clock;
  part->weights.assign(weights.begin(), weights.end());
  part->state.assign(state.begin(), state.end());
  part->state.resize(state_size);
  part->state_since = state.empty() ? clock : 0;
  part->seen.assign(slices_, false);
  return true;
}

void ParameterShard::forget() {
  for (auto& [id, part] : parts_) part = Part();
  seeded_ = 0;
}

ParameterShard::Outcome ParameterShard::push_slice(std::uint32_t chunk, std::uint64_t clock,
                                                   std::uint32_t slice, std::span<const float> gradient,
                                                   std::uint32_t samples) {
  Part* part = find(chunk, gradient.size());
  if (part == nullptr || slice >= slices_ || samples == 0) return Outcome::unknown;
  if (!part->seeded || clock > part->clock) return Outcome::ahead;
  if (clock < part->clock || part->seen[slice]) return Outcome::accepted;
  part->seen[slice] = true;
  part->samples += samples;
  part->sum.resize(gradient.size());
  ops_.add_scaled(part->sum, static_cast<float>(samples), gradient, part->sum);
  if (std::find(part->seen.begin(), part->seen.end(), false) != part->seen.end()) return Outcome::accepted;

  const float scale = 1.0f / static_cast<float>(part->samples);
  ops_.scale(scale, part->sum, part->sum);
  part->previous = part->weights;
  update(*part, part->sum, 0);
  part->samples = 0;
  std::fill(part->sum.begin(), part->sum.end(), 0.0f);
  part->seen.assign(slices_, false);
  return Outcome::advanced;
}

ParameterShard::Outcome ParameterShard::push_update(std::uint32_t chunk, const Origin& origin,
                                                    std::uint64_t base, std::span<const float> gradient) {
  Part* part = find(chunk, gradient.size());
  if (part == nullptr) return Outcome::unknown;
  if (!part->seeded) return Outcome::ahead;
  Origin& last = part->last[origin.worker];
  if (last.incarnation == origin.incarnation && origin.clock <= last.clock) return Outcome::accepted;
  last = origin;
  const std::uint64_t staleness = part->clock > base ? part->clock - base : 0;
  update(*part, gradient, staleness);
  return Outcome::advanced;
}

void ParameterShard::update(Part& part, std::span<const float> gradient, std::uint64_t staleness) {
  optimizer_.apply(ops_, part.weights, gradient, part.state,
                   {part.clock, part.clock - part.state_since, staleness});
  ++part.clock;
}

std::optional<ParameterShard::View> ParameterShard::view(std::uint32_t chunk) const {
  const auto found = parts_.find(chunk);
  if (found == parts_.end() || !found->second.seeded) return {};
  return View{found->second.clock, found->second.weights, found->second.state};
}

std::optional<std::span<const float>> ParameterShard::weights_at(std::uint32_t chunk,
                                                                 std::uint64_t clock) const {
  const auto found = parts_.find(chunk);
  if (found == parts_.end() || !found->second.seeded) return {};
  const Part& part = found->second;
  if (part.clock == clock) return part.weights;
  if (part.clock == clock + 1 && !part.previous.empty()) return part.previous;
  return {};
}

}  // namespace mlk::rt
