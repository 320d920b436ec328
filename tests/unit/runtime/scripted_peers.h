// One rank under test among peers that the test plays, over real connections on loopback. The test composes
// each message.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/membership/peers.h"
#include "tests/unit/runtime/worker_job.h"

namespace mlk::test {

inline constexpr std::chrono::seconds scripted_patience{20};

// The peers of a process with this role and rank. One thread does all the work: a function that waits for a
// message also passes events to the process under test.
class ScriptedPeers {
 public:
  ScriptedPeers(rt::PeerId subject, std::uint32_t workers, std::uint32_t servers = 0,
                const std::string& checkpoints = "")
      : subject_(subject), stage_(make_job(subject, workers, servers)) {
    stage_->env.checkpoints = checkpoints;
    peers_ = std::make_unique<rt::Peers>(stage_->job);
  }

  rt::Job& job() { return stage_->job; }
  rt::Config& config() { return stage_->config; }
  rt::LaunchEnv& env() { return stage_->env; }
  rt::Peers& peers() { return *peers_; }
  std::filesystem::path folder() const { return stage_->folder.path(); }

  // Sets the function that handles the events of the process under test.
  void on_event(std::function<void(rt::Event&&)> handler) { handler_ = std::move(handler); }

  // Connects the peer, and returns when the process under test has the event. On a second call the peer
  // connects as another incarnation.
  void arrive(rt::PeerId peer) {
    ++incarnations_[peer];
    auto& transport = transports_[peer];
    transport.reset();
    transport = std::make_unique<rt::Transport>(
        rt::Identity{"run", peer, incarnation_of(peer), "127.0.0.1:0"}, rt::parse_key(key_text()),
        rt::TransportOptions(), [](std::string_view) {});
    transport->dial(subject_, peers_->transport().address());
    until("is up", [&] {
      return seen_ && seen_->kind == rt::Event::Kind::up && seen_->peer == peer &&
             seen_->incarnation == incarnation_of(peer);
    });
    until("knows that it is up", [&] {
      const auto event = transport->receive({});
      return event && event->kind == rt::Event::Kind::up;
    });
  }

  // Ends the process of the peer, and returns when the process under test has the event.
  void depart(rt::PeerId peer) {
    transports_[peer].reset();
    until("is down", [&] { return seen_ && seen_->kind == rt::Event::Kind::down && seen_->peer == peer; });
  }

  // The peer sends a goodbye with its exit code, and its process ends.
  void end(rt::PeerId peer, rt::ExitCode code) {
    transports_.at(peer)->send_goodbye(static_cast<int>(code));
    depart(peer);
  }

  std::uint64_t incarnation_of(rt::PeerId peer) const {
    if (peer == subject_) return peers_->transport().self().incarnation;
    const auto found = incarnations_.find(peer);
    return 1000 * (found == incarnations_.end() ? 1 : found->second) + peer.rank;
  }

  void say(rt::PeerId peer, const rt::Header& header, std::span<const std::byte> payload = {}) {
    REQUIRE(transports_.at(peer)->send(subject_, header, payload));
  }

  // Returns the next message to this peer of one of these types, and drops messages of other types.
  rt::Event hear(rt::PeerId peer, std::vector<rt::MessageType> types) {
    std::optional<rt::Event> heard;
    until("says something", [&] {
      heard = transports_.at(peer)->receive({});
      return heard && heard->kind == rt::Event::Kind::message &&
             std::ranges::find(types, heard->header.type) != types.end();
    });
    return std::move(*heard);
  }

  // Whether the peer got a message of this type since the last message that it has read.
  bool was_told(rt::PeerId peer, rt::MessageType type) {
    rt::Header marker;
    marker.type = rt::MessageType::trouble;
    peers_->transport().send(peer, marker);
    return hear(peer, {type, marker.type}).header.type == type;
  }

  // From now on another thread runs the process under test.
  void stand_back() { driving_ = false; }
  // The other thread has ended: from now on this thread runs the process under test.
  void take_over() { driving_ = true; }

  // Passes events to the process under test until the condition holds.
  void until(const char* what, const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + scripted_patience;
    while (!holds()) {
      INFO(what);
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      if (!driving_) {
        std::this_thread::sleep_for(rt::Milliseconds(1));
        continue;
      }
      seen_ = peers_->next(rt::Milliseconds(1));
      if (seen_ && handler_) handler_(rt::Event(*seen_));
    }
    seen_.reset();
  }

 private:
  static std::string key_text() { return std::string(64, 'a'); }

  static std::unique_ptr<WorkerJob> make_job(rt::PeerId subject, std::uint32_t workers,
                                             std::uint32_t servers) {
    auto stage = std::make_unique<WorkerJob>();
    write_file(stage->folder / "key", key_text());
    stage->env.run = "run";
    stage->env.role = subject.role == rt::Role::worker ? "worker" : "server";
    stage->env.rank = static_cast<int>(subject.rank);
    stage->env.address = "127.0.0.1:0";
    stage->env.secret_path = stage->folder / "key";
    stage->env.incarnation = "subject";
    stage->config.mode = servers > 0 ? rt::Mode::ps : rt::Mode::allreduce;
    stage->config.workers = {static_cast<int>(workers), 1};
    stage->config.servers = {static_cast<int>(servers)};
    stage->config.patience_seconds = 900;
    stage->config.steps = 100;
    stage->config.data.batch = 4;
    return stage;
  }

  const rt::PeerId subject_;
  std::unique_ptr<WorkerJob> stage_;
  std::unique_ptr<rt::Peers> peers_;
  std::map<rt::PeerId, std::unique_ptr<rt::Transport>> transports_;
  std::map<rt::PeerId, std::uint64_t> incarnations_;
  std::function<void(rt::Event&&)> handler_;
  std::optional<rt::Event> seen_;
  bool driving_ = true;
};

}  // namespace mlk::test
