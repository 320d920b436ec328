// Gradients out, weights in.
#include "runtime/ps/ps_exchange.h"

#include <algorithm>
#include <cstring>

namespace mlk::rt {
namespace {

constexpr std::uint64_t no_version = ~std::uint64_t{0};  // asked for, not here yet

}  // namespace

WeightExchange::WeightExchange(const Job& job, Peers& peers, Mlp& model)
    : peers_(peers),
      model_(model),
      sync_(job.config.consistency.sync),
      last_step_(job.config.steps),
      chunks_(cut_chunks(model.tensors(), static_cast<std::uint32_t>(job.config.servers.count))),
      next_(model.parameters().begin(), model.parameters().end()),
      version_(chunks_.size(), 0),
      landings_guard_(peers.transport().landings()) {}

void WeightExchange::send(std::uint32_t server, Header header, std::span<const std::byte> payload) {
  header.generation = generation_;
  peers_.transport().send({Role::server, server}, header, payload);
}

void WeightExchange::push(std::uint64_t clock, std::uint32_t slice, std::uint32_t samples) {
  if (!sync_) ++pushes_;
  const std::uint64_t tag = sync_ ? clock : pushes_;
  if (sync_) {
    awaited_ = clock + 1;
    pulled_ = false;
    expect(clock + 1, next_);
  } else {
    expect(tag, model_.parameters());
  }
  for (const Chunk& chunk : chunks_) unanswered_.insert(chunk.id);
  const auto gradients = model_.gradients();
  for (const Chunk& chunk : chunks_) {
    Header header;
    header.type = MessageType::push;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = tag;
    header.offset = sync_ ? std::uint64_t{slice} << 32 | samples : version_[chunk.id];
    send(chunk.server, header, std::as_bytes(gradients.subspan(chunk.offset, chunk.size)));
  }
}

void WeightExchange::on_weights(const Event& event) {
  const Header& header = event.header;
  if (header.key >= chunks_.size()) return;
  const Chunk& chunk = chunks_[header.key];
  if (!event.landed && event.payload.size() != chunk.size * sizeof(float)) return;
  if (!sync_ && header.clock != pushes_)
    return peers_.transport().count_late();  // an answer to something given up
  // A frame with memory of its own may have come before another that has landed since: it must not be written
  // over that.
  if (sync_ && !event.landed && (header.clock < awaited_ || (pulled_ && header.clock != awaited_)))
    return peers_.transport().count_late();
  const std::span<float> target = sync_ ? std::span<float>(next_) : model_.parameters();
  if (!event.landed) {
    std::memcpy(target.data() + chunk.offset, event.payload.data(), event.payload.size());
  }
  version_[chunk.id] = header.offset;
  if (!sync_) unanswered_.erase(chunk.id);
}

void WeightExchange::pull_newest() { pull(++pushes_, true); }

void WeightExchange::pull(std::uint64_t clock, bool all) {
  awaited_ = clock;
  pulled_ = true;
  expect(clock, sync_ ? std::span<float>(next_) : model_.parameters());
  for (const Chunk& chunk : chunks_) {
    if (!all && version_[chunk.id] == clock) continue;
    if (sync_) version_[chunk.id] = no_version;
    if (!sync_) unanswered_.insert(chunk.id);
    Header header;
    header.type = MessageType::pull;
    header.key = chunk.id;
    header.clock = clock;
    send(chunk.server, header);
  }
}

void WeightExchange::expect(std::uint64_t clock, std::span<float> into) {
  for (const Chunk& chunk : chunks_) {
    peers_.transport().landings().expect(
        {{Role::server, chunk.server}, MessageType::weights, generation_, clock, chunk.id},
        std::as_writable_bytes(into.subspan(chunk.offset, chunk.size)));
  }
}

bool WeightExchange::has_next(std::uint64_t clock) const {
  return std::ranges::all_of(version_, [clock](std::uint64_t v) { return v == clock; });
}

bool WeightExchange::is_beyond(std::uint64_t clock) const {
  return std::ranges::any_of(version_, [clock](std::uint64_t v) { return v != no_version && v > clock; });
}

void WeightExchange::take_next() {
  peers_.transport().landings().cancel_all();
  std::ranges::copy(next_, model_.parameters().begin());
}

std::optional<std::uint64_t> WeightExchange::settle(std::uint64_t clock) {
  peers_.transport().landings().cancel_all();
  unanswered_.clear();
  std::uint64_t step = version_.front();
  if (sync_) {
    if (step == no_version || step <= clock || !has_next(step)) return {};
    std::ranges::copy(next_, model_.parameters().begin());
    return step;
  }
  ++pushes_;  // what still comes of the last push is late
  step = std::min(std::ranges::min(version_), last_step_);
  return step > clock ? std::optional(step) : std::nullopt;
}

void WeightExchange::seed(std::uint32_t server, std::uint64_t clock, std::uint64_t round) {
  const auto parameters = model_.parameters();
  for (const Chunk& chunk : chunks_) {
    if (chunk.server != server) continue;
    Header header;
    header.type = MessageType::seed;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = clock;
    header.offset = round;
    send(server, header, std::as_bytes(parameters.subspan(chunk.offset, chunk.size)));
  }
}

}  // namespace mlk::rt
