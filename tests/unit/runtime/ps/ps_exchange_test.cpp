// What a worker sends of its gradients and gets of weights, with a server that the test plays.
#include "runtime/ps/ps_exchange.h"

#include <doctest/doctest.h>

#include "tests/unit/runtime/scripted_peers.h"

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

struct Exchange {
  static constexpr PeerId server{Role::server, 0};
  ScriptedPeers others{{Role::worker, 0}, 1, 1};
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  Mlp model{{{3}}, 4, 2, 1, *ops};
  const std::vector<Chunk> chunks = cut_chunks(model.tensors(), 1);
  std::unique_ptr<WeightExchange> exchange;

  explicit Exchange(bool sync) {
    others.config().consistency.sync = sync;
    exchange = std::make_unique<WeightExchange>(others.job(), others.peers(), model);
    others.on_event([this](Event&& event) {
      if (event.kind == Event::Kind::message && event.header.type == MessageType::weights)
        exchange->on_weights(event);
    });
    others.arrive(server);
  }
  // The server gives all weights this value, chunk by chunk.
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
  // What was said of all chunks, the same of each.
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

TEST_CASE("async: a push says of which version its weights were, and its own count") {
  Exchange worker(false);
  worker.exchange->push(0, 0, 4);
  const Header first = worker.pushed();
  CHECK(first.clock == 1);
  CHECK(first.offset == 0);
  CHECK_FALSE(worker.exchange->answered());
  worker.give(1, 9, 2);
  worker.others.until("is answered", [&] { return worker.exchange->answered(); });
  CHECK(worker.model.parameters()[0] == 2);
  worker.exchange->push(0, 0, 4);
  const Header second = worker.pushed();
  CHECK(second.clock == 2);
  CHECK(second.offset == 9);
  CHECK(worker.exchange->settle(8) == 9);
  CHECK_FALSE(worker.exchange->settle(9));
}

TEST_CASE("async: what comes of an earlier push answers none of a later one") {
  Exchange worker(false);
  worker.exchange->push(0, 0, 4);
  worker.pushed();
  worker.exchange->settle(0);
  worker.exchange->push(0, 0, 4);
  CHECK(worker.pushed().clock == 3);
  worker.give(1, 9, 2);
  worker.give(3, 10, 5);
  worker.others.until("is answered", [&] { return worker.exchange->answered(); });
  CHECK(worker.model.parameters()[0] == 5);
}

TEST_CASE(
    "sync: a push names the step, the slice and its samples, and the weights of the next step gather "
    "beside") {
  Exchange worker(true);
  const float before = worker.model.parameters()[0];
  worker.exchange->push(7, 2, 4);
  const Header pushed = worker.pushed();
  CHECK(pushed.clock == 7);
  CHECK(pushed.offset == (std::uint64_t{2} << 32 | 4));
  CHECK_FALSE(worker.exchange->has_next(8));
  worker.give(8, 8, 3);
  worker.others.until("has all", [&] { return worker.exchange->has_next(8); });
  CHECK(worker.model.parameters()[0] == before);
  CHECK(worker.exchange->is_beyond(7));
  CHECK_FALSE(worker.exchange->is_beyond(8));
  worker.exchange->take_next();
  CHECK(worker.model.parameters()[0] == 3);
}

TEST_CASE(
    "sync: what was asked for is taken although a push has not been made, and nothing of another step") {
  Exchange worker(true);
  worker.exchange->pull(5, true);
  const Header asked = worker.heard(MessageType::pull);
  CHECK(asked.clock == 5);
  worker.give(6, 6, 3);
  worker.give(5, 5, 4);
  worker.others.until("has all", [&] { return worker.exchange->has_next(5); });
  CHECK(worker.exchange->settle(4) == 5);
  CHECK(worker.model.parameters()[0] == 4);
}

TEST_CASE("a server is seeded with the model's weights, in its round") {
  Exchange worker(true);
  worker.exchange->seed(0, 12, 99);
  const auto parameters = std::span<const float>(worker.model.parameters());
  for (const Chunk& chunk : worker.chunks) {
    const Event seed = worker.others.hear(Exchange::server, {MessageType::seed});
    CHECK(seed.header.key == chunk.id);
    CHECK(seed.header.clock == 12);
    CHECK(seed.header.offset == 99);
    CHECK(std::ranges::equal(seed.payload, std::as_bytes(parameters.subspan(chunk.offset, chunk.size))));
  }
}
