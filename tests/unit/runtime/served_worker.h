// A worker under test, the servers that the test plays before it, and a twin that computes what the worker
// should compute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/train/trainer.h"
#include "tests/unit/runtime/ps_processes.h"

namespace mlk::rt::served {

using test::Numbers;
using test::PlayedProcess;
using test::ProcessEnd;
using test::PsProcess;
using Type = MessageType;

inline constexpr PeerId tested_worker{Role::worker, 0};

// Computes the values that the worker should compute.
struct Twin {
  StopSignal stop;
  Log log{"twin", -1};
  std::ostringstream metrics;
  Reporter reporter{metrics, "", 0};
  Job job;
  Trainer trainer;

  explicit Twin(const PsProcess& worker)
      : job{worker.env, worker.config, stop, reporter, log}, trainer(job) {}
  Numbers weights() {
    const auto parameters = trainer.model().parameters();
    return {parameters.begin(), parameters.end()};
  }
  void take(const Numbers& weights) { std::ranges::copy(weights, trainer.model().parameters().begin()); }
};

// A server that the test plays.
struct PlayedServer : PlayedProcess {
  std::vector<Chunk> chunks;  // the chunks of this server

  PlayedServer(std::uint32_t rank, const std::vector<Chunk>& all, const std::string& address = "127.0.0.1:0",
               std::uint64_t at = 1)
      : PlayedProcess({Role::server, rank}, address, at) {
    for (const Chunk& chunk : all) {
      if (chunk.server == rank) chunks.push_back(chunk);
    }
  }

  JoinMessage hear_join(std::uint64_t clock) {
    const Event event = hear(Type::join);
    CHECK(event.header.clock == clock);
    const auto join = decode_join(event.header, event.payload);
    REQUIRE(join);
    return *join;
  }
  ReadyMessage hear_ready() {
    const auto ready = decode_ready(hear(Type::ready).payload);
    REQUIRE(ready);
    return *ready;
  }
  void work(const WorkMessage& message, std::uint64_t clock, std::uint32_t slice = 0) {
    say(Type::work, clock, slice, 0, 0, encode(message));
  }
  void hear_pulls(std::uint64_t clock) {
    for (const Chunk& chunk : chunks) {
      const Header header = hear(Type::pull).header;
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.generation == generation);
    }
  }
  // async: the worker's own count, which grows by one with every pull and push.
  std::uint64_t hear_newest_pulls() {
    const std::uint64_t count = hear(Type::pull).header.clock;
    for (std::size_t i = 1; i < chunks.size(); ++i) {
      const Header header = hear(Type::pull).header;
      CHECK(header.key == chunks[i].id);
      CHECK(header.clock == count);
    }
    return count;
  }
  void weights(const Numbers& values, std::uint64_t clock, std::uint64_t version,
               std::optional<std::uint32_t> without = {}) {
    for (const Chunk& chunk : chunks) {
      if (chunk.id == without) continue;
      Header header;
      header.type = Type::weights;
      header.key = chunk.id;
      header.clock = clock;
      header.offset = version;
      say_floats(header, std::span(values).subspan(chunk.offset, chunk.size));
    }
  }
  void accept(std::uint64_t clock) {
    for (const Chunk& chunk : chunks) say(Type::accepted, clock, chunk.id);
  }
  // Receives the gradients of this server's chunks, and compares them with `gradients`.
  void hear_pushes(std::uint64_t clock, std::uint64_t offset, std::span<const float> gradients) {
    for (const Chunk& chunk : chunks) {
      Header header;
      const Numbers pushed = hear_floats(Type::push, &header);
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.offset == offset);
      CHECK(header.generation == generation);
      CHECK(std::ranges::equal(pushed, gradients.subspan(chunk.offset, chunk.size)));
    }
  }
  // Receives the seeds of this server, and compares them with `values`.
  void hear_seeds(std::uint64_t clock, std::uint64_t round, const Numbers& values) {
    for (const Chunk& chunk : chunks) {
      Header header;
      const Numbers seed = hear_floats(Type::seed, &header);
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.offset == round);
      CHECK(header.flags == 0);
      CHECK(std::ranges::equal(seed, std::span(values).subspan(chunk.offset, chunk.size)));
    }
  }
  void trained(std::uint64_t clock, const TrainedMessage& message) {
    say(Type::trained, clock, 0, 0, 0, encode(message));
  }
  void finish(const std::string& result) {
    say(Type::finish, 0, 0, 0, 0, PayloadWriter().text(result).bytes());
  }
};

inline Numbers shifted(Numbers weights, float by) {
  for (float& weight : weights) weight += by;
  return weights;
}

// One worker and its servers.
struct ServedWorker {
  PsProcess worker;
  std::unique_ptr<Twin> twin;
  std::vector<Chunk> chunks;
  std::vector<std::unique_ptr<PlayedServer>> servers;

  explicit ServedWorker(int workers, int count = 1) : worker(tested_worker, workers, count) {
    twin = std::make_unique<Twin>(worker);
    chunks = cut_chunks(twin->trainer.tensors(), static_cast<std::uint32_t>(count));
    for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(count); ++rank) {
      servers.push_back(std::make_unique<PlayedServer>(rank, chunks));
      worker.env.seeds_server.push_back(servers.back()->address());
    }
  }
  PlayedServer& server() { return *servers.front(); }
  std::span<const float> gradients(std::uint64_t position) {
    twin->trainer.compute(position, 4);
    return twin->trainer.model().gradients();
  }
  static std::uint64_t slice(std::uint64_t number) { return number << 32 | 4; }
  static WorkMessage at(std::uint64_t position) {
    WorkMessage work;
    work.position = position;
    work.samples = 4;
    work.run_position = position;
    return work;
  }
  // The worker runs, has joined and asks for work.
  void begin() {
    worker.start();
    for (const auto& server : servers) server->await_up(tested_worker);
    for (const auto& server : servers) server->hear_join(0);
    server().hear_ready();
  }
  // sync: sends the first work, at weights of that clock.
  Numbers begin_work(std::uint64_t clock, const WorkMessage& work) {
    const Numbers weights = shifted(twin->weights(), 0.25);
    server().work(work, clock);
    server().hear_pulls(clock);
    server().weights(weights, clock, clock);
    twin->take(weights);
    return weights;
  }
  void finish() {
    server().finish("the result");
    server().hear_goodbye(ExitCode::trained);
    CHECK(worker.end() == ProcessEnd{ExitCode::trained, ""});
  }
};

}  // namespace mlk::rt::served
