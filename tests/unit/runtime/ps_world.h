// A whole run with parameter servers in virtual time: the machines of all processes, and a simulated network,
// disk and model, which consist only of delays and a few floats. The seed determines the whole run.
//
// All numbers of a gradient are 1, and the learning rate is a power of 2. So with sync the weights of step s
// are exactly -s times the rate, whatever faults have happened. A slice that counts twice, or not at all,
// gives other weights.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "runtime/ps/machines/server_machine.h"
#include "runtime/ps/machines/worker_machine.h"

namespace mlk::rt::world {

using std::chrono::seconds;

struct Setup {
  std::uint32_t workers = 2, servers = 2;
  std::uint64_t steps = 40, seed = 1;
  bool sync = true, disk = true;
  int offline = 0;
  int faults = 3;  // in the first 20 s
};

class World {
 public:
  explicit World(const Setup& setup) : setup_(setup), random_(setup.seed) {
    for (std::uint32_t rank = 0; rank < setup.servers; ++rank) start({Role::server, rank});
    for (std::uint32_t rank = 0; rank < setup.workers; ++rank) start({Role::worker, rank});
    for (int i = 0; i < setup.faults; ++i)
      at(start_ + Milliseconds(below(20000)), [this, kind = below(10), chance = below(1000)] {
        if (kind < 6) return kill(any(chance));
        if (kind < 9 || !setup_.disk)
          return fall_silent({Role::worker, static_cast<std::uint32_t>(chance % setup_.workers)});
        stop_all();
      });
  }

  // Runs until every process has ended for good. Returns false if that takes longer than `limit`.
  bool run(seconds limit) {
    while (!queue_.empty() && !over()) {
      const auto next = queue_.begin();
      now_ = next->first;
      if (now_ > start_ + limit) return false;
      const auto action = std::move(next->second);
      queue_.erase(next);
      action();
    }
    return over();
  }

  const std::map<PeerId, ExitCode>& ended() const { return ended_; }
  const std::string& story() const { return story_; }
  std::uint64_t evaluated_step() const { return evaluated_; }
  static constexpr float rate = 1.0f / 128;

 private:
  struct Process {
    std::uint64_t incarnation = 0;
    bool runs = false;
    std::unique_ptr<ServerMachine> server;
    std::unique_ptr<WorkerMachine> worker;
    // The next five fields are for a worker.
    std::vector<float> model, next;
    std::uint64_t position = 0;  // of the slice
    bool busy = false;
    std::deque<Event> inbox;
    // For workers and servers: the incarnations of the connected processes.
    std::map<PeerId, std::uint64_t> up;
  };

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  void at(SteadyTime time, std::function<void()> action) { queue_.emplace(time, std::move(action)); }
  // Runs the action after the time, if the process still runs then and was not replaced.
  void later(PeerId peer, Milliseconds time, std::function<void(Process&)> action) {
    at(now_ + time, [this, peer, incarnation = processes_[peer].incarnation, action = std::move(action)] {
      Process& process = processes_[peer];
      if (process.runs && process.incarnation == incarnation) action(process);
    });
  }

  Config config() const {
    Config config;
    config.mode = Mode::ps;
    config.workers = {static_cast<int>(setup_.workers), 1};
    config.servers = {static_cast<int>(setup_.servers)};
    config.steps = setup_.steps;
    config.data.batch = 4;
    config.consistency.sync = setup_.sync;
    config.optimizer.lr = rate;
    config.checkpoint.every = 10;
    config.patience_seconds = 120;
    config.offline_seconds = setup_.offline;
    return config;
  }

  void start(PeerId peer) {
    Process& process = processes_[peer];
    const std::uint64_t incarnation = ++incarnations_ * 100 + peer.rank;
    process = Process();
    process.incarnation = incarnation;
    process.runs = true;
    if (peer.role == Role::server) {
      const Coordinator::Settings run{
          config(), incarnation, setup_.disk, saved_ && saved_->step == setup_.steps,
          [this](std::uint64_t step) { return std::to_string(step) + "-" + std::to_string(++asides_); }};
      process.server = std::make_unique<ServerMachine>(
          ServerMachine::Settings{peer.rank, run, incarnation > 100 * (setup_.servers + 1) ? 1 : 0,
                                  seconds(60)},
          *ops_, now_);
    } else {
      process.worker = std::make_unique<WorkerMachine>(config(), tensors_, now_);
      process.model.assign(floats_, 0);
      process.next = process.model;
    }
    tell(peer, "starts");
    for (const auto& [other, its] : processes_) {
      if (!its.runs || !connects(peer, other)) continue;
      connected(peer, other);
      connected(other, peer);
    }
    if (process.worker) act(peer, [](WorkerMachine& machine, WorkerTurn& turn) { machine.start(turn); });
    plan_tick(peer);
  }
  bool workers_ended() const {
    return std::ranges::count_if(ended_, [](const auto& e) { return e.first.role == Role::worker; }) ==
           static_cast<std::ptrdiff_t>(setup_.workers);
  }
  bool over() const { return ended_.size() == setup_.workers + setup_.servers; }
  PeerId any(std::uint64_t chance) const {
    const auto rank = static_cast<std::uint32_t>(chance % (setup_.workers + setup_.servers));
    return rank < setup_.workers ? PeerId{Role::worker, rank} : PeerId{Role::server, rank - setup_.workers};
  }
  static bool connects(PeerId one, PeerId other) {
    return one != other && (one.role == Role::server || other.role == Role::server);
  }
  void connected(PeerId to, PeerId with) {
    Event event;
    event.kind = Event::Kind::up;
    event.peer = with;
    event.incarnation = processes_[with].incarnation;
    put(to, std::move(event));
  }

  void kill(PeerId peer) {
    Process& process = processes_[peer];
    if (!process.runs) return;
    tell(peer, "is killed");
    process.runs = false;
    for (const auto& [other, its] : processes_) {
      if (its.runs && connects(peer, other)) lost(other, peer);
    }
    at(now_ + Milliseconds(500 + below(4000)), [this, peer] { start(peer); });
  }
  // Delays all messages of the process for a while, and loses none of them.
  void fall_silent(PeerId peer) {
    Process& process = processes_[peer];
    if (!process.runs) return;
    tell(peer, "is silent");
    const SteadyTime until = now_ + Milliseconds(500 + below(9000));
    for (auto& [other, its] : processes_) {
      if (!its.runs || !connects(peer, other)) continue;
      Event event;
      event.kind = Event::Kind::silent;
      event.peer = peer;
      event.incarnation = process.incarnation;
      arrive(other, its, Event(event));
      SteadyTime& last = last_arrival_[{peer, other}];
      last = std::max(last, until);
      event.kind = Event::Kind::audible;
      put(other, std::move(event));
    }
  }
  // Sends SIGTERM to every process. A process that ends as terminated is started again.
  void stop_all() {
    for (auto& [peer, process] : processes_) {
      if (!process.runs) continue;
      tell(peer, "is told to stop");
      if (process.server) process.server->stop();
      if (process.worker) process.worker->stop();
    }
  }
  void lost(PeerId to, PeerId peer) {
    Event event;
    event.kind = Event::Kind::down;
    event.peer = peer;
    event.incarnation = processes_[peer].incarnation;
    event.proven = true;
    put(to, std::move(event));
  }
  void ends(PeerId peer, ExitCode code, const std::string& why) {
    Process& process = processes_[peer];
    if (!process.runs) return;
    tell(peer, "ends with " + std::to_string(static_cast<int>(code)) + " " + why);
    process.runs = false;
    for (const auto& [other, its] : processes_) {
      if (!its.runs || !connects(peer, other)) continue;
      Event event;
      event.kind = Event::Kind::goodbye;
      event.peer = peer;
      event.incarnation = process.incarnation;
      event.header.clock = static_cast<std::uint64_t>(code);
      put(other, std::move(event));
      lost(other, peer);
    }
    // If a server comes back after all workers have ended, and finds no checkpoint, it cannot know that the
    // run is trained.
    const bool too_late = peer.role == Role::server && code == ExitCode::peers_lost && workers_ended();
    if (code == ExitCode::trained || is_final(code) || code == ExitCode::internal_error || too_late) {
      ended_[peer] = too_late ? ExitCode::trained : code;
    } else {
      at(now_ + seconds(2), [this, peer] { start(peer); });
    }
  }

  // Delivers the events of each pair of processes in order.
  void put(PeerId to, Event&& event) {
    SteadyTime& last = last_arrival_[{event.peer, to}];
    last = std::max(last, now_ + Milliseconds(1 + below(20)));
    at(last, [this, to, incarnation = processes_[to].incarnation, event = std::move(event)]() mutable {
      Process& process = processes_[to];
      if (process.runs && process.incarnation == incarnation) arrive(to, process, std::move(event));
    });
  }
  void arrive(PeerId to, Process& process, Event&& event) {
    const auto known = process.up.find(event.peer);
    const bool current = known != process.up.end() && known->second == event.incarnation;
    if (event.kind == Event::Kind::up) {
      process.up[event.peer] = event.incarnation;
    } else if (!current) {
      return;
    }
    if (event.kind == Event::Kind::down) process.up.erase(event.peer);
    if (process.worker) {
      process.inbox.push_back(std::move(event));
      take_in(to, process);
    } else {
      act(to, [&](ServerMachine& machine, Turn& turn) { machine.handle(event, turn); });
    }
  }
  void take_in(PeerId peer, Process& process) {
    while (process.runs && !process.busy && !process.inbox.empty()) {
      const Event event = std::move(process.inbox.front());
      process.inbox.pop_front();
      received_ = &event;
      act(peer, [&](WorkerMachine& machine, WorkerTurn& turn) { machine.handle(event, turn); });
    }
  }
  void send(PeerId from, const Effects::Message& message) {
    Process& process = processes_[from];
    if (!process.up.contains(message.to)) return;
    Event event;
    event.peer = from;
    event.incarnation = process.incarnation;
    event.header = message.header;
    event.payload = message.payload;
    const Process& other = processes_[message.to];
    if (other.incarnation == process.up[message.to]) put(message.to, std::move(event));
  }
  void plan_tick(PeerId peer) {
    Process& process = processes_[peer];
    const bool offline = process.worker && process.worker->wait(now_) == Milliseconds(0);
    later(peer, Milliseconds(offline ? 10 : 100), [this, peer](Process& same) {
      if (same.server) {
        act(peer, [](ServerMachine& machine, Turn& turn) { machine.tick(turn); });
      } else if (!same.busy) {
        if (same.worker->checks_for_last(now_) && saved_ && saved_->step == setup_.steps)
          return act(peer, [](WorkerMachine& machine, WorkerTurn& turn) { machine.found_last(turn); });
        act(peer, [](WorkerMachine& machine, WorkerTurn& turn) { machine.tick(turn); });
      }
      if (same.runs) plan_tick(peer);
    });
  }

  void act(PeerId peer, const std::function<void(ServerMachine&, Turn&)>& call) {
    Turn turn{now_};
    call(*processes_[peer].server, turn);
    for (auto& decision : turn.in_order) {
      if (!processes_[peer].runs) return;
      std::visit([&](auto& wanted) { execute(peer, wanted); }, decision);
    }
  }
  void act(PeerId peer, const std::function<void(WorkerMachine&, WorkerTurn&)>& call) {
    WorkerTurn turn{now_};
    call(*processes_[peer].worker, turn);
    for (auto& decision : turn.in_order) {
      if (!processes_[peer].runs) return;
      std::visit([&](auto& wanted) { execute(peer, wanted); }, decision);
    }
  }

  void execute(PeerId peer, const Effects::Effect& effect) {
    if (const auto* message = std::get_if<Effects::Message>(&effect)) send(peer, *message);
    if (const auto* line = std::get_if<Effects::Line>(&effect)) tell(peer, line->text);
  }
  void execute(PeerId peer, const Failure& failure) { ends(peer, failure.code, failure.what()); }
  void execute(PeerId, const CountLate&) {}

  // ---- servers
  void execute(PeerId peer, const OpenSeeding& wanted) {
    processes_[peer].server->open_seeding(wanted.round);
  }
  void execute(PeerId peer, const LoadCheckpoint&) {
    const std::optional<TrainingState> saved = saved_;
    act(peer, [&](ServerMachine& machine, Turn& turn) { machine.loaded(saved ? &*saved : nullptr, turn); });
  }
  void execute(PeerId peer, const SeedFromCheckpoint& wanted) {
    REQUIRE(saved_);
    ServerMachine& machine = *processes_[peer].server;
    if (wanted.servers.contains(0)) machine.seed_from(*saved_);
    for (const Chunk& chunk : machine.model().chunks) {
      if (chunk.server == 0 || !wanted.servers.contains(chunk.server)) continue;
      Header header;
      header.type = MessageType::seed;
      header.key = chunk.id;
      header.clock = saved_->step;
      header.offset = wanted.round;
      const auto weights = std::span(saved_->parameters).subspan(chunk.offset, chunk.size);
      send(peer, {{Role::server, chunk.server}, header, PayloadWriter().raw(std::as_bytes(weights)).bytes()});
    }
  }
  void execute(PeerId peer, const CapturePart& wanted) {
    const ServedModel& model = processes_[peer].server->model();
    WrittenMessage written{wanted.capture.step, wanted.capture.aside, {part_name(peer.rank), 1, 1}, ""};
    auto& part = asides_made_[wanted.capture.aside];
    part.parameters.resize(floats_);
    part.step = wanted.capture.step;
    part.position = wanted.capture.position;
    if (peer.rank == 0) part.history = wanted.history;
    for (const Chunk& chunk : model.chunks) {
      if (chunk.server != peer.rank) continue;
      const auto view = model.shard->view(chunk.id);
      const auto weights = !view         ? std::nullopt
                           : setup_.sync ? model.shard->weights_at(chunk.id, wanted.capture.step)
                                         : std::optional(view->weights);
      if (weights) {
        std::ranges::copy(*weights, part.parameters.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
      } else {
        written.file.name.clear();
        written.reason = "it has no weights of this step";
      }
    }
    if (now_ < start_ + seconds(20) && below(8) == 0) {
      written.file.name.clear();
      written.reason = "no space";
    }
    later(peer, Milliseconds(50 + below(200)), [this, peer, written](Process&) {
      act(peer, [&](ServerMachine& machine, Turn& turn) { machine.written(written, turn); });
    });
  }
  void execute(PeerId peer, const CommitCheckpoint& wanted) {
    later(peer, Milliseconds(50 + below(100)), [this, aside = wanted.aside](Process& process) {
      saved_ = asides_made_.at(aside);
      if (setup_.sync) check_weights(saved_->parameters, saved_->step, "of a checkpoint");
      process.server->disk_done(true);
    });
  }
  void execute(PeerId peer, const DiscardAside& wanted) {
    if (wanted.answer)
      later(peer, Milliseconds(20), [](Process& process) { process.server->disk_done(false); });
  }
  void execute(PeerId, const ShowRun&) {}
  void execute(PeerId peer, const SendMark& wanted) {
    send(peer, {{Role::server, 0}, wanted.header, PayloadWriter().text("").bytes()});
  }
  void execute(PeerId, const RequireShared&) {}
  void execute(PeerId peer, const FlushWeights& wanted) {
    while (const auto weights = processes_[peer].server->next_weights(wanted.worker)) {
      if (setup_.sync) check_weights(weights->values, weights->header.clock, "of a server");
      send(peer,
           {wanted.worker, weights->header, PayloadWriter().raw(std::as_bytes(weights->values)).bytes()});
    }
  }
  void execute(PeerId, const RunIsTrained&) {}
  void execute(PeerId peer, const End& wanted) { ends(peer, wanted.code, wanted.message); }

  // ---- workers
  static std::size_t offset_of(std::uint32_t chunk) { return chunk == 0 ? 0 : 4; }
  static std::size_t size_of(std::uint32_t chunk) { return chunk == 0 ? 4 : 2; }
  void execute(PeerId, const ExpectWeights&) {}
  void execute(PeerId, const CancelReceives&) {}
  void execute(PeerId peer, const SendChunk& wanted) {
    const std::vector<float> ones(floats_, 1);
    const auto& all = wanted.header.type == MessageType::push ? ones : processes_[peer].model;
    if (setup_.sync && wanted.header.type == MessageType::seed)
      check_weights(all, wanted.header.clock, "of a worker that seeds");
    if (setup_.sync && wanted.header.type == MessageType::push) {
      const std::uint64_t slice = wanted.header.offset >> 32;
      CHECK(processes_[peer].position == 4 * (wanted.header.clock * setup_.workers + slice));
    }
    const auto part = std::span(all).subspan(offset_of(wanted.header.key), size_of(wanted.header.key));
    send(peer, {wanted.to, wanted.header, PayloadWriter().raw(std::as_bytes(part)).bytes()});
  }
  void execute(PeerId peer, const StoreWeights& wanted) {
    Process& process = processes_[peer];
    auto& target = setup_.sync ? process.next : process.model;
    const auto* values = reinterpret_cast<const float*>(received_->payload.data());
    std::copy_n(values, size_of(wanted.chunk),
                target.begin() + static_cast<std::ptrdiff_t>(offset_of(wanted.chunk)));
  }
  void execute(PeerId peer, const UseNextWeights&) { processes_[peer].model = processes_[peer].next; }
  void execute(PeerId, const TurnClock&) {}
  void execute(PeerId, const ForgetTimes&) {}
  void execute(PeerId, const AbandonOfflineStep&) {}
  void execute(PeerId, const ForgetOfflineSteps&) {}
  void execute(PeerId, const NoteCheckpoint&) {}
  void execute(PeerId, const NoteProgress&) {}
  void execute(PeerId peer, const ReportStep& wanted) {
    if (setup_.sync) check_weights(processes_[peer].model, wanted.step, "of a report");
  }
  void execute(PeerId peer, const OfflineSlice& wanted) {
    CHECK((!setup_.sync || wanted.position == 4 * setup_.workers * wanted.step));
    for (float& weight : processes_[peer].model) weight -= rate;
    const std::uint64_t samples = 4 * (setup_.sync ? setup_.workers : 1);
    works(peer, [wanted, samples](WorkerMachine& machine, WorkerTurn& turn) {
      machine.offline_advanced(true, wanted.step + 1, wanted.position + samples, turn);
    });
  }
  void execute(PeerId peer, const Evaluate& wanted) {
    evaluated_ = wanted.step;
    if (setup_.sync) check_weights(processes_[peer].model, wanted.step, "of the last report");
    works(peer,
          [](WorkerMachine& machine, WorkerTurn& turn) { machine.evaluated(true, "the result", turn); });
  }
  void execute(PeerId peer, const ComputeSlice& wanted) {
    processes_[peer].position = wanted.position;
    works(peer, [](WorkerMachine& machine, WorkerTurn& turn) { machine.computed(1, turn); });
  }
  void execute(PeerId peer, const CountStep&) {
    act(peer, [](WorkerMachine& machine, WorkerTurn& turn) { machine.step_counted(0.05, turn); });
  }
  void execute(PeerId peer, const EndTrained&) { ends(peer, ExitCode::trained, ""); }
  void execute(PeerId peer, const EndWithFound&) {
    evaluated_ = saved_->step;
    ends(peer, ExitCode::trained, "with the checkpoint that it found");
  }
  void execute(PeerId peer, const EndTerminated&) { ends(peer, ExitCode::terminated, ""); }

  // Lets the time of a slice pass, and then calls `answer`. Meanwhile the worker handles no message.
  void works(PeerId peer, std::function<void(WorkerMachine&, WorkerTurn&)> answer) {
    processes_[peer].busy = true;
    later(peer, Milliseconds(20 + below(300)), [this, peer, answer = std::move(answer)](Process& process) {
      process.busy = false;
      act(peer, answer);
      take_in(peer, process);
    });
  }

  void check_weights(std::span<const float> weights, std::uint64_t step, const char* what) {
    for (const float weight : weights) {
      INFO(story_);
      INFO("weights ", what, " at step ", step);
      REQUIRE(weight == -rate * static_cast<float>(step));
    }
  }
  void tell(PeerId peer, const std::string& text) {
    story_ += std::to_string(std::chrono::duration_cast<Milliseconds>(now_ - start_).count()) + " " +
              to_string(peer) + " " + text + "\n";
  }

  static constexpr std::size_t floats_ = 6;
  const Setup setup_;
  const std::vector<TensorInfo> tensors_ = {{"w", {4}, 0, 4}, {"b", {2}, 4, 2}};
  std::mt19937_64 random_;
  const SteadyTime start_{std::chrono::hours(1)};
  SteadyTime now_ = start_;
  std::multimap<SteadyTime, std::function<void()>> queue_;
  std::unique_ptr<kernels::Ops> ops_ = kernels::make_reference_ops();
  std::map<PeerId, Process> processes_;
  std::map<std::pair<PeerId, PeerId>, SteadyTime> last_arrival_;
  std::uint64_t incarnations_ = 0, asides_ = 0, evaluated_ = 0;
  std::map<std::string, TrainingState> asides_made_;
  std::optional<TrainingState> saved_;  // the newest checkpoint
  std::map<PeerId, ExitCode> ended_;
  const Event* received_ = nullptr;
  std::string story_;
};

}  // namespace mlk::rt::world
