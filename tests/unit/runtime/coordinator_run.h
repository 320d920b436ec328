// Server 0 as the coordinator of a run, with workers and another server that the test plays.
#pragma once

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/ps/ps_coordinator.h"
#include "tests/unit/runtime/scripted_peers.h"

namespace mlk::rt::phases {

inline PeerId worker(std::uint32_t rank) { return {Role::worker, rank}; }
inline PeerId server(std::uint32_t rank) { return {Role::server, rank}; }

struct Setting {
  std::uint32_t workers = 2, servers = 1;
  std::uint64_t steps = 100;
  bool sync = true;
  std::optional<int> staleness = {};
  std::uint64_t every = 0;  // checkpoints
  bool saves = false;
};

// Server 0, the others played by the test, and the lines that it logs.
struct Run {
  test::TemporaryFolder folder;
  test::ScriptedPeers others;
  const int lines = ::open((folder / "log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  Log log{"s0", lines};
  Job job;
  std::unique_ptr<kernels::Ops> ops = kernels::make_reference_ops();
  ServedModel model;
  ShardCheckpoint part;
  Coordinator coordinator;
  std::uint32_t workers;

  explicit Run(const Setting& setting)
      : others(server(0), setting.workers, setting.servers, setting.saves ? folder / "checkpoints" : ""),
        job(configured(setting)),
        part(job, 0, model),
        coordinator(job, others.peers(), model, part, false),
        workers(setting.workers) {
    if (setting.saves) std::filesystem::create_directory(folder / "checkpoints");
    model.tensors = {{"w", {4, 2}, 0, 8}, {"b", {2}, 8, 2}};
    model.chunks = cut_chunks(model.tensors, setting.servers);
    model.shard = std::make_unique<ParameterShard>(model.chunks, 0, Optimizer({.lr = 0.1}, setting.steps),
                                                   setting.workers, *ops);
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      others.arrive(worker(rank));
      coordinator.worker_up(worker(rank));
    }
    for (std::uint32_t rank = 1; rank < setting.servers; ++rank) others.arrive(server(rank));
  }
  ~Run() { ::close(lines); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Job configured(const Setting& setting) {
    others.config().steps = setting.steps;
    others.config().consistency = {setting.sync, setting.staleness};
    others.config().checkpoint.every = setting.every;
    const Job& given = others.job();
    return {given.env, given.config, given.stop, given.reporter, log};
  }

  std::string logged() const { return test::read_file(folder / "log"); }
  bool was_logged(const std::string& line) const {
    return ("\n" + logged()).find("\ns0: " + line + "\n") != std::string::npos;
  }
  void join(std::uint32_t rank, std::uint64_t clock = 0) {
    JoinMessage message;
    message.clock = clock;
    message.position = 100 * clock;
    message.tensors = model.tensors;
    coordinator.worker_joined(worker(rank), others.incarnation_of(worker(rank)), message);
  }
  void seed(std::uint64_t clock = 0) {
    for (const Chunk& chunk : model.chunks) {
      if (chunk.server == 0) REQUIRE(model.shard->seed(chunk.id, clock, kernels::Floats(chunk.size, 1), {}));
    }
    coordinator.own_seeded();
  }
  void ready(std::uint32_t rank) { coordinator.worker_ready(worker(rank), {}); }
  void done(std::uint32_t rank, std::uint64_t clock, std::uint32_t slice, double loss = 0, double seconds = 0,
            std::uint64_t staleness = 0) {
    if (job.config.consistency.sync) {
      for (const Chunk& chunk : model.chunks) {
        if (chunk.server == 0)
          model.shard->push_slice(chunk.id, clock, slice, kernels::Floats(chunk.size, 1), 4);
      }
    }
    coordinator.worker_ready(worker(rank), {true, clock, slice, loss, seconds, staleness});
  }
  Event work(std::uint32_t rank) { return others.hear(worker(rank), {MessageType::work}); }
  static WorkMessage content(const Event& work) {
    const auto message = decode_work(work.payload);
    REQUIRE(message);
    return *message;
  }
  bool is_told(PeerId peer, MessageType type) { return others.was_told(peer, type); }
  // Everyone has joined, the model is there, and everyone has work of the first step.
  void start() {
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank);
    coordinator.tick();
    seed();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ready(rank);
      work(rank);
    }
  }
  // The same with server 1, which had nothing.
  void start_both() {
    coordinator.server_joined(1, true, 0, "");
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank);
    coordinator.tick();
    seed_other();
    seed();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ready(rank);
      work(rank);
    }
  }
  void seed_other() {
    const std::uint64_t round = others.hear(server(1), {MessageType::seed_wanted}).header.clock;
    coordinator.seeding_opened(1, round);
    others.hear(worker(0), {MessageType::seed_wanted});
    coordinator.server_seeded(1, round);
  }
};

}  // namespace mlk::rt::phases
