// Records which gradients the worker has sent and which weights have arrived.
#include "runtime/ps/machines/weight_tracker.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"

namespace mlk::rt {
namespace {

constexpr std::uint64_t no_version = ~std::uint64_t{0};  // requested, but not received yet

}  // namespace

void WeightBook::send(std::uint32_t server, Header header, WorkerTurn& turn, Bytes payload) const {
  header.generation = generation_;
  turn.send({Role::server, server}, header, std::move(payload));
}

void WeightBook::push(std::uint64_t clock, std::uint32_t slice, std::uint32_t samples, WorkerTurn& turn) {
  if (!sync_) ++pushes_;
  const std::uint64_t tag = sync_ ? clock : pushes_;
  if (sync_) {
    awaited_ = clock + 1;
    pulled_ = false;
  }
  turn.decide(ExpectWeights{generation_, sync_ ? awaited_ : tag});
  for (const Chunk& chunk : chunks_) unanswered_.insert(chunk.id);
  for (const Chunk& chunk : chunks_) {
    const Header header{.type = MessageType::push,
                        .data_type = DataType::float32,
                        .key = chunk.id,
                        .generation = generation_,
                        .clock = tag,
                        .offset = sync_ ? std::uint64_t{slice} << 32 | samples : version_[chunk.id]};
    turn.decide(SendChunk{{Role::server, chunk.server}, header});
  }
}

void WeightBook::on_weights(const Event& event, WorkerTurn& turn) {
  const Header& header = event.header;
  if (header.key >= chunks_.size()) return;
  const Chunk& chunk = chunks_[header.key];
  if (!event.in_posted_buffer && event.payload.size() != chunk.size * sizeof(float)) return;
  if (!sync_ && header.clock != pushes_) {  // an answer to a request that was abandoned
    code_probe("ps.answer-too-late");
    return turn.decide(CountLate{});
  }
  // A message that was not received into a posted buffer may be older than weights that have meanwhile
  // arrived in such a buffer. The message must not overwrite those weights.
  const bool not_awaited = header.clock < awaited_ || (pulled_ && header.clock != awaited_);
  if (sync_ && !event.in_posted_buffer && not_awaited) {
    code_probe("ps.weights-too-late");
    return turn.decide(CountLate{});
  }
  if (!event.in_posted_buffer) turn.decide(StoreWeights{chunk.id});
  version_[chunk.id] = header.offset;
  if (!sync_) unanswered_.erase(chunk.id);
}

void WeightBook::pull_newest(WorkerTurn& turn) { pull(++pushes_, true, turn); }

void WeightBook::pull(std::uint64_t clock, bool all, WorkerTurn& turn) {
  awaited_ = clock;
  pulled_ = true;
  turn.decide(ExpectWeights{generation_, clock});
  for (const Chunk& chunk : chunks_) {
    if (!all && version_[chunk.id] == clock) continue;
    if (sync_) version_[chunk.id] = no_version;
    if (!sync_) unanswered_.insert(chunk.id);
    send(chunk.server, {.type = MessageType::pull, .key = chunk.id, .clock = clock}, turn);
  }
}

bool WeightBook::has_next(std::uint64_t clock) const {
  return std::ranges::all_of(version_, [clock](std::uint64_t v) { return v == clock; });
}

bool WeightBook::is_beyond(std::uint64_t clock) const {
  return std::ranges::any_of(version_, [clock](std::uint64_t v) { return v != no_version && v > clock; });
}

std::optional<std::uint64_t> WeightBook::abandon_pending(std::uint64_t clock, WorkerTurn& turn) {
  turn.decide(CancelReceives{});
  unanswered_.clear();
  std::uint64_t step = version_.front();
  if (sync_) {
    if (step == no_version || step <= clock || !has_next(step)) return {};
    turn.decide(UseNextWeights{});
    return step;
  }
  ++pushes_;  // from here on, an answer to the last push is late
  step = std::min(std::ranges::min(version_), last_step_);
  return step > clock ? std::optional(step) : std::nullopt;
}

void WeightBook::seed(std::uint32_t server, std::uint64_t clock, std::uint64_t round,
                      WorkerTurn& turn) const {
  for (const Chunk& chunk : chunks_) {
    if (chunk.server != server) continue;
    const Header header{.type = MessageType::seed,
                        .data_type = DataType::float32,
                        .key = chunk.id,
                        .generation = generation_,
                        .clock = clock,
                        .offset = round};
    turn.decide(SendChunk{{Role::server, server}, header});
  }
}

}  // namespace mlk::rt
