// Sends gradients and seeds, receives weights.
#include "runtime/ps/ps_exchange.h"

#include <cstring>
#include <utility>

namespace mlk::rt {
namespace {

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

WeightExchange::WeightExchange(const Job& job, Peers& peers, Model& model)
    : peers_(peers),
      model_(model),
      sync_(job.config.consistency.sync),
      chunks_(cut_chunks(model.tensors(), static_cast<std::uint32_t>(job.config.servers.count))),
      next_(copy_of(model.ops().read(model.parameters()))),
      posted_receives_guard_(peers.transport().posted_receives()) {}

std::span<float> WeightExchange::target() {
  return sync_ ? std::span<float>(next_) : model_.ops().place(model_.parameters());
}

void WeightExchange::expect(const ExpectWeights& wanted) {
  newest_expected_ = !sync_;
  for (const Chunk& chunk : chunks_) {
    peers_.transport().posted_receives().post(
        {{Role::server, chunk.server}, MessageType::weights, wanted.generation, wanted.tag, chunk.id},
        std::as_writable_bytes(target().subspan(chunk.offset, chunk.size)));
  }
}

void WeightExchange::cancel() { peers_.transport().posted_receives().cancel_all(); }

void WeightExchange::send(const SendChunk& wanted) {
  const Chunk& chunk = chunks_[wanted.header.key];
  take_newest();
  const std::span<const float> all =
      wanted.header.type == MessageType::push ? model_.gradients() : model_.parameters();
  const auto floats = model_.ops().read(all.subspan(chunk.offset, chunk.size));
  peers_.transport().send(wanted.to, wanted.header, std::as_bytes(floats));
}

void WeightExchange::store(const StoreWeights& wanted, std::span<const std::byte> weights) {
  newest_expected_ = !sync_;
  std::memcpy(target().data() + chunks_[wanted.chunk].offset, weights.data(), weights.size());
}

void WeightExchange::take_next() {
  cancel();
  model_.ops().write(next_, model_.parameters());
}

void WeightExchange::take_newest() {
  if (!std::exchange(newest_expected_, false)) return;
  model_.ops().write(target(), model_.parameters());
}

}  // namespace mlk::rt
