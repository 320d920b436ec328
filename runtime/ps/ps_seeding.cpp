// Rounds of seeds.
#include "runtime/ps/ps_seeding.h"

#include <utility>

#include "runtime/ps/ps_protocol.h"

namespace mlk::rt {
namespace {

constexpr double patience_seconds = 20, least_bytes_per_second = 4e6;

}  // namespace

// The first round of another server 0 is not the next of the one before it.
Seeding::Seeding(Peers& peers, ServedModel& model)
    : peers_(peers), model_(model), round_(peers.transport().self().incarnation) {}

void Seeding::open(std::set<std::uint32_t> servers) {
  ++round_;
  worker_.reset();
  of_round_ = open_ = std::move(servers);
  be_patient();
  for (const std::uint32_t server : open_) {
    if (server == 0) {
      model_.open_seeding(round_);
    } else {
      send({Role::server, server}, server);
    }
  }
}

std::set<std::uint32_t> Seeding::give_up() {
  worker_.reset();
  if (std::exchange(open_, {}).empty()) return {};
  broken_off_.insert(round_);
  if (of_round_.contains(0)) model_.open_seeding(0);
  return std::exchange(of_round_, {});
}

void Seeding::be_patient() {
  double floats = 0;
  for (const Chunk& chunk : model_.chunks)
    floats += open_.contains(chunk.server) ? static_cast<double>(chunk.size) : 0;
  const double bytes = floats * sizeof(float) * static_cast<double>(1 + model_.shard->optimizer().slots());
  const std::chrono::duration<double> patience(patience_seconds + bytes / least_bytes_per_second);
  until_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<SteadyTime::duration>(patience);
}

bool Seeding::overdue() const { return std::chrono::steady_clock::now() > until_; }

// By the same connection that opened the round, so no answer need be waited for.
void Seeding::from_checkpoint(const TrainingState& saved) {
  const bool with_state = !saved.optimizer_state.empty();
  const std::size_t slots = model_.shard->optimizer().slots();
  for (const Chunk& chunk : model_.chunks) {
    if (!open_.contains(chunk.server)) continue;
    const auto weights = std::span(saved.parameters).subspan(chunk.offset, chunk.size);
    const auto state = with_state ? part_of_state(saved.optimizer_state, slots, chunk.offset, chunk.size)
                                  : kernels::Floats();
    if (chunk.server == 0) {
      model_.shard->seed(chunk.id, saved.step, weights, state);
      continue;
    }
    Header header;
    header.type = MessageType::seed;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = saved.step;
    header.offset = round_;
    header.flags = with_state ? flag_optimizer : 0;
    const Bytes payload =
        PayloadWriter().raw(std::as_bytes(weights)).raw(std::as_bytes(std::span(state))).bytes();
    peers_.transport().send({Role::server, chunk.server}, header, payload);
  }
  if (open_.contains(0)) model_.seed_round = 0;
  own_seeded();
  be_patient();  // what is left is on its way since now
}

void Seeding::from_worker(std::uint32_t worker) {
  worker_ = worker;
  if (open_.contains(0)) ask(0);
}

void Seeding::opened(std::uint32_t server, std::uint64_t round) {
  if (round == round_ && open_.contains(server) && worker_) ask(server);
}

bool Seeding::seeded(std::uint32_t server, std::uint64_t round) {
  return round == round_ && open_.erase(server) > 0;
}

void Seeding::ask(std::uint32_t server) { send({Role::worker, *worker_}, server); }

void Seeding::send(PeerId to, std::uint32_t server) {
  Header header;
  header.type = MessageType::seed_wanted;
  header.key = server;
  header.clock = round_;
  peers_.transport().send(to, header, {}, WhenFull::refuse);
}

}  // namespace mlk::rt
