// The gradients that a worker sends and the weights that it receives; the test plays the server.
#include "runtime/ps/exchange.h"

#include <optional>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "runtime/ps/machines/weight_tracker.h"
#include "tests/unit/runtime/scripted_peers.h"

TEST_SUITE_BEGIN("runtime/ps/exchange");

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

struct Exchange {
  static constexpr PeerId server{Role::server, 0};
  ScriptedPeers others{{Role::worker, 0}, 1, 1};
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  const std::unique_ptr<Model> model = make_model({.hidden = {3}}, {4, 2}, 1, *ops);
  const std::vector<Chunk> chunks = cut_chunks(model->tensors(), 1);
  WeightBook book;
  std::unique_ptr<WeightExchange> floats;

  // Executes the decisions of the book on the WeightExchange.
  template <typename Call>
  auto act(Call call, const Bytes& received = {}) {
    WorkerTurn turn;
    const auto execute = [&] {
      for (const auto& decision : turn.in_order) {
        if (const auto* wanted = std::get_if<ExpectWeights>(&decision)) floats->expect(*wanted);
        if (std::holds_alternative<CancelReceives>(decision)) floats->cancel();
        if (const auto* wanted = std::get_if<SendChunk>(&decision)) floats->send(*wanted);
        if (const auto* wanted = std::get_if<StoreWeights>(&decision)) floats->store(*wanted, received);
        if (std::holds_alternative<UseNextWeights>(decision)) floats->use_next();
        if (const auto* effect = std::get_if<Effects::Effect>(&decision)) others.peers().execute(*effect);
      }
    };
    if constexpr (std::is_void_v<decltype(call(turn))>) {
      call(turn);
      execute();
    } else {
      auto result = call(turn);
      execute();
      return result;
    }
  }
  explicit Exchange(bool sync) : book(chunks, sync, others.config().steps) {
    others.config().consistency.sync = sync;
    floats = std::make_unique<WeightExchange>(others.job(), others.peers(), *model);
    others.on_event([this](Event&& event) {
      if (event.kind == Event::Kind::message && event.header.type == MessageType::weights)
        act([&](WorkerTurn& turn) { book.on_weights(event, turn); }, event.payload);
    });
    others.arrive(server);
  }
  void push(std::uint64_t clock, std::uint32_t slice, std::uint32_t samples) {
    act([&](WorkerTurn& turn) { book.push(clock, slice, samples, turn); });
  }
  void pull(std::uint64_t clock, bool all) {
    act([&](WorkerTurn& turn) { book.pull(clock, all, turn); });
  }
  std::optional<std::uint64_t> abandon_pending(std::uint64_t clock) {
    return act([&](WorkerTurn& turn) { return book.abandon_pending(clock, turn); });
  }
  void seed(std::uint32_t rank, std::uint64_t clock, std::uint64_t round) {
    act([&](WorkerTurn& turn) { book.seed(rank, clock, round, turn); });
  }
  // The server sends this value for all weights, chunk by chunk.
  void give(std::uint64_t tag, std::uint64_t version, float value) {
    for (const Chunk& chunk : chunks) {
      Header header;
      header.type = MessageType::weights;
      header.data_type = DataType::float32;
      header.key = chunk.id;
      header.clock = tag;
      header.offset = version;
      const std::vector<float> weights(chunk.size, value);
      others.say(server, header, std::as_bytes(std::span(weights)));
    }
  }
  // The header of the message of this type for chunk 0. All chunks must have the same clock and offset.
  Header heard(MessageType type) {
    Header first;
    for (const Chunk& chunk : chunks) {
      const Header header = others.hear(server, {type}).header;
      CHECK(header.key == chunk.id);
      if (chunk.id == 0) first = header;
      CHECK(header.clock == first.clock);
      CHECK(header.offset == first.offset);
    }
    return first;
  }
  Header pushed() { return heard(MessageType::push); }
};

}  // namespace

TEST_CASE("async: a push has the version of the weights and the number of the push") {
  Exchange worker(false);
  worker.push(0, 0, 4);
  const Header first = worker.pushed();
  CHECK(first.clock == 1);
  CHECK(first.offset == 0);
  CHECK_FALSE(worker.book.answered());
  worker.give(1, 9, 2);
  worker.others.until("is answered", [&] { return worker.book.answered(); });
  CHECK(worker.model->parameters()[0] == 2);
  worker.push(0, 0, 4);
  const Header second = worker.pushed();
  CHECK(second.clock == 2);
  CHECK(second.offset == 9);
  CHECK(worker.abandon_pending(8) == 9);
  CHECK_FALSE(worker.abandon_pending(9));
}

TEST_CASE("async: the answer to an earlier push does not count for a later push") {
  Exchange worker(false);
  worker.push(0, 0, 4);
  worker.pushed();
  worker.abandon_pending(0);
  worker.push(0, 0, 4);
  CHECK(worker.pushed().clock == 3);
  worker.give(1, 9, 2);
  worker.give(3, 10, 5);
  worker.others.until("is answered", [&] { return worker.book.answered(); });
  CHECK(worker.model->parameters()[0] == 5);
}

TEST_CASE("sync: a push contains step, slice and samples, and the next weights arrive in a separate buffer") {
  Exchange worker(true);
  const float before = worker.model->parameters()[0];
  worker.push(7, 2, 4);
  const Header pushed = worker.pushed();
  CHECK(pushed.clock == 7);
  CHECK(pushed.offset == (std::uint64_t{2} << 32 | 4));
  CHECK_FALSE(worker.book.has_next(8));
  worker.give(8, 8, 3);
  worker.others.until("has all", [&] { return worker.book.has_next(8); });
  CHECK(worker.model->parameters()[0] == before);
  CHECK(worker.book.is_beyond(7));
  CHECK_FALSE(worker.book.is_beyond(8));
  worker.floats->use_next();
  CHECK(worker.model->parameters()[0] == 3);
}

TEST_CASE("sync: after a worker has pulled the weights of a step, it uses these weights and no others") {
  Exchange worker(true);
  worker.pull(5, true);
  const Header asked = worker.heard(MessageType::pull);
  CHECK(asked.clock == 5);
  worker.give(6, 6, 3);
  worker.give(5, 5, 4);
  worker.others.until("has all", [&] { return worker.book.has_next(5); });
  CHECK(worker.abandon_pending(4) == 5);
  CHECK(worker.model->parameters()[0] == 4);
}

TEST_CASE("a seed message has the model's weights, their clock and the round") {
  Exchange worker(true);
  worker.seed(0, 12, 99);
  const auto parameters = std::span<const float>(worker.model->parameters());
  for (const Chunk& chunk : worker.chunks) {
    const Event seed = worker.others.hear(Exchange::server, {MessageType::seed});
    CHECK(seed.header.key == chunk.id);
    CHECK(seed.header.clock == 12);
    CHECK(seed.header.offset == 99);
    CHECK(std::ranges::equal(seed.payload, std::as_bytes(parameters.subspan(chunk.offset, chunk.size))));
  }
}
