// The shard of a server: which contributions count, how often, and what their effect is.
#include "runtime/ps/machines/parameter_server.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"

TEST_SUITE_BEGIN("runtime/ps/machines/parameter_server");

using namespace mlk::rt;
using Outcome = ParameterShard::Outcome;

namespace {

using mlk::kernels::Floats;

struct Shard {
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  std::vector<Chunk> chunks{{0, 0, 0, 2}, {1, 0, 2, 1}};
  ParameterShard shard;

  explicit Shard(std::uint32_t slices, float lr = 1, float momentum = 0)
      : shard(chunks, 0, Optimizer({.lr = lr, .momentum = momentum}, 100), slices, *ops) {}
  void seed(std::uint64_t clock) {
    CHECK(shard.seed(0, clock, Floats{10, 20}, {}));
    CHECK(shard.seed(1, clock, Floats{30}, {}));
  }
  Floats weights(std::uint32_t chunk) const {
    const auto view = shard.view(chunk);
    return {view->weights.begin(), view->weights.end()};
  }
};

}  // namespace

TEST_CASE("a slice counts once, and the update uses the mean gradient over all samples") {
  Shard s(2);
  s.seed(5);
  CHECK(s.shard.push_slice(0, 5, 0, Floats{1, 2}, 1) == Outcome::accepted);
  CHECK(s.shard.push_slice(0, 5, 0, Floats{100, 100}, 1) == Outcome::accepted);
  CHECK(s.weights(0) == Floats{10, 20});
  CHECK(s.shard.push_slice(0, 5, 1, Floats{5, 6}, 3) == Outcome::advanced);
  CHECK(s.weights(0) == Floats{6, 15});  // means: (1 + 15) / 4, (2 + 18) / 4
  CHECK(s.shard.view(0)->clock == 6);
  CHECK(s.shard.push_slice(0, 5, 1, Floats{5, 6}, 3) == Outcome::accepted);  // late
  CHECK(s.weights(0) == Floats{6, 15});
}

TEST_CASE("a shard keeps the weights of the current step and of the step before") {
  Shard s(1);
  s.seed(0);
  CHECK(s.shard.push_slice(1, 0, 0, Floats{1}, 4) == Outcome::advanced);
  CHECK(s.shard.weights_at(1, 1)->front() == 29);
  CHECK(s.shard.weights_at(1, 0)->front() == 30);
  CHECK_FALSE(s.shard.weights_at(1, 2));
  CHECK_FALSE(s.shard.weights_at(9, 0));
}

TEST_CASE("a shard keeps momentum over updates, and a seed may contain momentum") {
  Shard s(1, 1, 0.5f);
  CHECK(s.shard.seed(1, 0, Floats{10}, Floats{4}));
  s.shard.push_slice(1, 0, 0, Floats{1}, 1);
  CHECK(s.weights(1) == Floats{7});  // 0.5 * 4 + 1
  s.shard.push_slice(1, 1, 0, Floats{0}, 1);
  CHECK(s.weights(1) == Floats{5.5f});
}

TEST_CASE("adam stores two numbers for each weight, and starts at zero if a seed lacks them") {
  auto ops = mlk::kernels::make_reference_ops();
  const std::vector<Chunk> chunks{{0, 0, 0, 2}};
  const Optimizer optimizer({.type = OptimizerType::adam, .lr = 0.5}, 100);
  ParameterShard shard(chunks, 0, optimizer, 1, *ops), late(chunks, 0, optimizer, 1, *ops);
  CHECK_FALSE(shard.seed(0, 0, Floats{1, 2}, Floats{0, 0}));  // this is a state for momentum
  CHECK(shard.seed(0, 0, Floats{1, 2}, Floats{0, 0, 0, 0}));
  CHECK(late.seed(0, 5000, Floats{1, 2}, {}));
  for (std::uint64_t clock = 0; clock < 5; ++clock) {
    const Floats gradient{3, clock == 2 ? -4.0f : 4.0f};
    shard.push_slice(0, clock, 0, gradient, 1);
    late.push_update(0, {0, 1, clock + 1}, 5000 + clock, gradient);
    if (clock == 0) CHECK(shard.view(0)->weights.front() == doctest::Approx(0.5));
    REQUIRE(std::ranges::equal(shard.view(0)->weights, late.view(0)->weights));
  }
  // A restored shard continues as if nothing had happened.
  ParameterShard restored(chunks, 0, optimizer, 1, *ops);
  const auto view = shard.view(0);
  CHECK(restored.seed(0, view->clock, view->weights, view->state));
  shard.push_slice(0, 5, 0, Floats{1, 1}, 1);
  restored.push_slice(0, 5, 0, Floats{1, 1}, 1);
  CHECK(std::ranges::equal(shard.view(0)->weights, restored.view(0)->weights));
  CHECK(std::ranges::equal(shard.view(0)->state, restored.view(0)->state));
}

TEST_CASE(
    "a pushed slice is refused if its step is ahead, its chunk or slice is unknown, or its size is wrong") {
  Shard s(1);
  CHECK(s.shard.push_slice(1, 0, 0, Floats{1}, 1) == Outcome::ahead);  // the shard has no weights yet
  s.seed(3);
  CHECK(s.shard.push_slice(1, 4, 0, Floats{1}, 1) == Outcome::ahead);
  CHECK(s.shard.push_slice(2, 3, 0, Floats{1}, 1) == Outcome::unknown);
  CHECK(s.shard.push_slice(1, 3, 0, Floats{1, 2}, 1) == Outcome::unknown);
  CHECK(s.shard.push_slice(1, 3, 1, Floats{1}, 1) == Outcome::unknown);
  CHECK(s.shard.push_slice(1, 3, 0, Floats{1}, 0) == Outcome::unknown);
  CHECK(s.weights(1) == Floats{30});
}

TEST_CASE("an update counts once for each worker, incarnation and clock") {
  Shard s(1);
  s.seed(0);
  CHECK(s.shard.push_update(1, {0, 11, 1}, 0, Floats{1}) == Outcome::advanced);
  CHECK(s.shard.push_update(1, {0, 11, 1}, 0, Floats{1}) == Outcome::accepted);
  CHECK(s.weights(1) == Floats{29});
  CHECK(s.shard.push_update(1, {0, 11, 2}, 1, Floats{1}) == Outcome::advanced);
  CHECK(s.shard.push_update(1, {0, 12, 1}, 2, Floats{1}) == Outcome::advanced);
  CHECK(s.shard.push_update(1, {1, 11, 1}, 3, Floats{1}) == Outcome::advanced);
  CHECK(s.weights(1) == Floats{26});
}

TEST_CASE("a gradient of older weights gets a smaller step size") {
  Shard s(1);
  s.seed(10);
  s.shard.push_update(1, {0, 11, 1}, 7, Floats{8});
  CHECK(s.weights(1) == Floats{28});                  // 8 / (1 + 3)
  s.shard.push_update(1, {0, 11, 2}, 99, Floats{1});  // its weights are newer than the seeds
  CHECK(s.weights(1) == Floats{27});
}

TEST_CASE("a shard is complete when every chunk has been seeded, and forget() empties it") {
  Shard s(1);
  CHECK_FALSE(s.shard.complete());
  s.shard.seed(0, 0, Floats{1, 2}, {});
  CHECK_FALSE(s.shard.seed(1, 0, Floats{1, 2}, {}));
  CHECK_FALSE(s.shard.seed(1, 0, Floats{1}, Floats{1, 2}));
  CHECK_FALSE(s.shard.complete());
  s.seed(1);
  CHECK(s.shard.complete());
  s.shard.forget();
  CHECK_FALSE(s.shard.complete());
  CHECK_FALSE(s.shard.view(0));
}

TEST_CASE("chunks cover every tensor once, and are spread evenly over the servers") {
  const std::vector<TensorInfo> tensors = {
      {"a", {700, 300}, 0, 210000}, {"b", {5}, 210000, 5}, {"c", {100000}, 210005, 100000}};
  const auto chunks = cut_chunks(tensors, 3);
  std::vector<std::size_t> load(3, 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    CHECK(chunks[i].id == i);
    CHECK(chunks[i].offset == at);
    CHECK(chunks[i].size <= chunk_floats);
    at += chunks[i].size;
    load[chunks[i].server] += chunks[i].size;
  }
  CHECK(at == 310005);
  for (const std::size_t bytes : load) CHECK(bytes < 2 * (310005 / 3));
}

TEST_CASE("a join message decodes with its tensors, and malformed payloads are refused") {
  const JoinMessage join{
      7, 70, 3, 2, 64, {{"a", {2, 3}, 0, 6}, {"b", {4}, 6, 4}}, DataSummary{{1500, 7}, {297, 8}}};
  const Bytes bytes = encode(join);
  Header header;
  header.clock = 7;
  const auto decoded = decode_join(header, bytes);
  REQUIRE(decoded);
  CHECK(decoded->clock == 7);
  CHECK(decoded->position == 70);
  CHECK(decoded->offline == 3);
  CHECK(decoded->restarts == 2);
  CHECK(decoded->lost_samples == 64);
  CHECK(decoded->tensors == join.tensors);
  CHECK(decoded->data == join.data);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_join(header, {bytes.data(), size}));
  for (const int bits : {31, 32}) {  // the second product does not fit into 64 bits
    PayloadWriter huge;
    huge.put(std::uint64_t{0}).put(std::uint64_t{0}).put(std::uint64_t{0}).put(std::uint64_t{0});
    huge.put(std::uint32_t{1}).text("a").put(std::uint8_t{2});
    huge.put(std::int64_t{1} << bits).put(std::int64_t{1} << bits);
    CHECK_FALSE(decode_join(header, huge.bytes()));
  }
}

TEST_CASE("a join message is refused if it announces a data summary and has none, or the reverse") {
  Header header;
  const Bytes without = encode(JoinMessage{7, 70, 3, 2, 64, {}, {}});
  REQUIRE(decode_join(header, without));
  CHECK_FALSE(decode_join(header, without)->data);
  for (const std::uint8_t flag : {1, 2, 255}) {
    Bytes other = without;
    other.back() = std::byte{flag};
    CHECK_FALSE(decode_join(header, other));
  }
}
