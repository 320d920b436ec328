// Server 0 as the coordinator of a run in virtual time. The test plays the workers, the other servers, and
// the disk; the messages to each peer are stored until the test reads them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/ps/machines/coordinator.h"

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
  int patience = 900;  // seconds
};

inline Coordinator::Settings coordinator_settings(const Setting& setting) {
  Config config;
  config.mode = Mode::ps;
  config.workers = {static_cast<int>(setting.workers), 1};
  config.servers = {static_cast<int>(setting.servers)};
  config.patience_seconds = setting.patience;
  config.steps = setting.steps;
  config.data.batch = 4;
  config.consistency = {setting.sync, setting.staleness};
  config.checkpoint.every = setting.every;
  return {config, 77, setting.saves, false, [named = 0](std::uint64_t step) mutable {
            return "aside-" + std::to_string(step) + "-" + std::to_string(++named);
          }};
}

// Time passes only in pass() and until().
struct Run {
  std::uint32_t workers;
  bool has_folder;
  SteadyTime now{std::chrono::hours(1)};
  Coordinator coordinator;
  std::vector<TensorInfo> tensors = {{"w", {4, 2}, 0, 8}, {"b", {2}, 8, 2}};

  explicit Run(const Setting& setting)
      : workers(setting.workers), has_folder(setting.saves), coordinator(coordinator_settings(setting), now) {
    coordinator.model_is(cut_chunks(tensors, setting.servers));
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      arrive(worker(rank));
      coordinator.worker_up(worker(rank));
    }
  }

  // The disk. It finishes a write of the coordinator's own part, or a commit, at the next tick.
  std::optional<Coordinator::Saved> saved;  // the newest checkpoint
  std::optional<Failure> unusable;          // if set: why the checkpoints cannot be read

  // How the process has ended.
  std::optional<Failure> failure;
  std::optional<RunView> shown;

  void arrive(PeerId peer) {
    ++incarnations_[peer];
    told_[peer].clear();
  }
  std::uint64_t incarnation_of(PeerId peer) const { return 1000 * incarnations_.at(peer) + peer.rank; }

  // Calls of the coordinator.
  void peer_down(PeerId peer) {
    act([&](Turn& turn) { coordinator.peer_down(peer, turn); });
  }
  void worker_cut_off(PeerId peer) {
    act([&](Turn& turn) { coordinator.worker_cut_off(peer, turn); });
  }
  void server_joined(std::uint32_t rank, bool empty, std::uint64_t round) {
    act([&](Turn& turn) { coordinator.server_joined(rank, empty, round, turn); });
  }
  void server_without(std::uint32_t rank, std::uint64_t clock) {
    act([&](Turn& turn) { coordinator.server_without(rank, clock, turn); });
  }
  void seeding_opened(std::uint32_t rank, std::uint64_t round) {
    act([&](Turn& turn) { coordinator.seeding_opened(rank, round, turn); });
  }
  void server_seeded(std::uint32_t rank, std::uint64_t round) {
    act([&](Turn& turn) { coordinator.server_seeded(rank, round, turn); });
  }
  void worker_ready(PeerId peer, const ReadyMessage& ready) {
    act([&](Turn& turn) { coordinator.worker_ready(peer, ready, turn); });
  }
  void captured(std::uint32_t rank, std::uint64_t step) {
    act([&](Turn& turn) { coordinator.captured(rank, step, turn); });
  }
  void written(std::uint32_t rank, const WrittenMessage& message) {
    act([&](Turn& turn) { coordinator.written(rank, message, turn); });
  }
  void stop() { coordinator.stop(now); }
  void tick() {
    if (const auto part = std::exchange(own_part_, {})) written(0, *part);
    if (const auto done = std::exchange(disk_done_, {})) coordinator.disk_done(*done);
    act([&](Turn& turn) { coordinator.tick(turn); });
  }

  JoinMessage offer(std::uint64_t clock = 0) const {
    JoinMessage join;
    join.clock = clock;
    join.position = 100 * clock;
    join.tensors = tensors;
    return join;
  }
  void join(std::uint32_t rank, const JoinMessage& message) {
    act([&](Turn& turn) {
      coordinator.worker_joined(worker(rank), incarnation_of(worker(rank)), message, turn);
    });
  }
  void join(std::uint32_t rank, std::uint64_t clock = 0) { join(rank, offer(clock)); }
  // The seeds of server 0's own part arrive.
  void seed() {
    act([&](Turn& turn) { coordinator.own_seeded(turn); });
  }
  void ready(std::uint32_t rank) { worker_ready(worker(rank), {}); }
  void done(std::uint32_t rank, std::uint64_t clock, std::uint32_t slice, double loss = 0, double seconds = 0,
            std::uint64_t staleness = 0) {
    worker_ready(worker(rank), {true, clock, slice, loss, seconds, staleness});
  }
  // All workers join, server 0 gets its weights, and all workers get work of the first step.
  void start() {
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank);
    tick();
    seed();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ready(rank);
      work(rank);
    }
  }
  // As start(), with server 1, which joins without weights.
  void start_both() {
    server_joined(1, true, 0);
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank);
    tick();
    seed_other();
    seed();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ready(rank);
      work(rank);
    }
  }
  void seed_other() {
    const std::uint64_t round = hear(server(1), {MessageType::seed_wanted}).header.clock;
    seeding_opened(1, round);
    hear(worker(0), {MessageType::seed_wanted});
    server_seeded(1, round);
  }

  // Lets time pass, with a tick every 100 ms.
  void pass(Milliseconds time) {
    for (const SteadyTime end = now + time; now < end;) {
      now += std::min<SteadyTime::duration>(Milliseconds(100), end - now);
      tick();
    }
  }
  // Lets time pass until the condition holds. Returns the time that has passed, which must be less than
  // `limit`.
  Milliseconds until(const std::function<bool()>& holds, Milliseconds limit = std::chrono::minutes(1)) {
    const SteadyTime since = now;
    for (tick(); !holds(); pass(Milliseconds(100))) REQUIRE(now - since < limit);
    return std::chrono::duration_cast<Milliseconds>(now - since);
  }

  // Returns the next message to this peer of one of these types, and drops messages of other types.
  Effects::Message hear(PeerId peer, const std::vector<MessageType>& types) {
    auto& told = told_[peer];
    while (!told.empty() && std::ranges::find(types, told.front().header.type) == types.end())
      told.pop_front();
    REQUIRE_FALSE(told.empty());
    Effects::Message message = std::move(told.front());
    told.pop_front();
    return message;
  }
  // Whether the peer got a message of this type since the last message that it has read.
  bool is_told(PeerId peer, MessageType type) {
    auto& told = told_[peer];
    while (!told.empty() && told.front().header.type != type) told.pop_front();
    if (told.empty()) return false;
    told.pop_front();
    return true;
  }
  Effects::Message work(std::uint32_t rank) { return hear(worker(rank), {MessageType::work}); }
  WorkMessage hear_work(std::uint32_t rank) { return content(work(rank)); }
  static WorkMessage content(const Effects::Message& work) {
    const auto message = decode_work(work.payload);
    REQUIRE(message);
    return *message;
  }
  std::optional<CaptureMessage> hear_capture(std::uint32_t rank) {
    const auto asked = hear(server(rank), {MessageType::capture});
    return decode_capture(asked.header, asked.payload);
  }
  const std::string& logged() const { return lines_; }
  bool was_logged(const std::string& line) const {
    return ("\n" + lines_).find("\n" + line + "\n") != std::string::npos;
  }

 private:
  template <typename Call>
  void act(Call call) {
    REQUIRE_FALSE(failure);
    Turn turn{now};
    call(turn);
    for (Turn::Decision& decision : turn.in_order) {
      if (auto* effect = std::get_if<Effects::Effect>(&decision)) take(std::move(*effect));
      if (std::holds_alternative<LoadCheckpoint>(decision)) load();
      if (const auto* wanted = std::get_if<CapturePart>(&decision)) {
        history_ = wanted->history;
        own_part_ = {wanted->capture.step, wanted->capture.aside, {part_name(0), 1, 2}, ""};
      }
      if (const auto* wanted = std::get_if<CommitCheckpoint>(&decision)) {
        saved = {wanted->manifest.step, wanted->manifest.position, history_, {}};
        disk_done_ = true;
      }
      if (const auto* wanted = std::get_if<DiscardAside>(&decision); wanted && wanted->answer)
        disk_done_ = false;
      if (const auto* wanted = std::get_if<ShowRun>(&decision)) shown = wanted->run;
      if (const auto* wanted = std::get_if<Failure>(&decision)) failure = *wanted;
    }
  }
  void take(Effects::Effect&& effect) {
    if (auto* message = std::get_if<Effects::Message>(&effect)) {
      told_[message->to].push_back(std::move(*message));
    } else {
      lines_ += std::get<Effects::Line>(effect).text + "\n";
    }
  }
  void load() {
    REQUIRE(has_folder);
    act([&](Turn& turn) {
      if (unusable) return coordinator.unusable(*unusable, turn);
      coordinator.loaded(saved, turn);
    });
  }

  std::map<PeerId, std::uint64_t> incarnations_;
  std::map<PeerId, std::deque<Effects::Message>> told_;
  std::string lines_;
  RunHistory history_;
  std::optional<WrittenMessage> own_part_;
  std::optional<bool> disk_done_;
};

}  // namespace mlk::rt::phases
