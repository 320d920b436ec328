// One process of a simulated run with parameter servers: the real machine, in a shell that executes its
// decisions as ps/server.cpp and ps/worker.cpp do. The model is six floats; computing and writing only take
// time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/ops.h"
#include "runtime/ps/machines/server_machine.h"
#include "runtime/ps/machines/worker_machine.h"
#include "tests/sim/ps_invariants.h"

namespace mlk::sim {

// The folder of checkpoints, which all servers share. If a process dies while it writes, its part stays
// incomplete.
struct PsDisk {
  struct Checkpoint {
    std::uint64_t step = 0, position = 0;
    rt::RunHistory history;
    std::vector<float> weights = std::vector<float>(model_floats, 0);
    std::set<std::string> whole;  // the complete parts
    bool lost = false;            // some parts are lost
    SteadyTime made{};
  };
  bool there = true, full = false, has_failed = false;
  int slowness = 1;
  bool had_last = false;  // the checkpoint of the last step was made at some time
  std::map<std::string, Checkpoint> aside;
  std::map<std::uint64_t, Checkpoint> made;  // by step

  bool has(std::uint64_t step) const { return made.contains(step); }
};

// The parts of the world that a process needs.
struct PsWorld {
  Clock& clock;
  Random& random;
  Network& network;
  PsDisk& disk;
  PsInvariants& invariants;
  kernels::Ops& ops;
  const PsScenario& scenario;
  std::function<void(Network::Place place, rt::ExitCode code, const std::string& why)> ended;
  std::function<void(Network::Place place, std::string_view probe)> passed;
  std::function<void(Network::Place place, const std::string& line)> trace;  // may be empty
};

class PsProcess {
 public:
  PsProcess(const PsWorld& world, Network::Place place, rt::PeerId id) : s_(world), place_(place), id_(id) {}

  void start(std::uint64_t incarnation, int failures);
  void stop();  // the process is gone, with all of its memory
  void terminate();
  bool running() const { return server_ || worker_; }
  bool knew_of_end() const { return trained_; }  // of a server, also after its end
  std::uint64_t incarnation() const { return incarnation_; }
  void freeze() { frozen_ = true; }
  void thaw();
  void deliver(rt::Event&& event);
  // How long a worker has heard nothing from server 0, if it is connected with all servers, has no work and
  // does not know of the end.
  Duration unheard() const;
  std::string describe() const;

 private:
  void plan(Duration time, Clock::Action action);
  void plan_tick(Duration time);
  void tick();
  void tick_server();
  void start_worker();
  bool sees_last() const;
  void tick_worker();
  bool goes_on_offline() const;
  void take_in();
  void handle_server(const rt::Event& event);
  void handle_worker(const rt::Event& event);
  bool ends_with(const rt::Event& event);
  void receive_in_place(rt::Event& event);
  void end(rt::ExitCode code, const std::string& why);
  void send(rt::PeerId to, const rt::Header& header, const rt::Bytes& payload);
  void check_shard(const std::string& what) const;
  void trace(const std::string& line) const {
    if (s_.trace) s_.trace(place_, line);
  }
  bool sync() const { return s_.scenario.consistency.sync; }
  Duration writing_time() const;
  void tell_passed() const;
  template <typename Call>
  void act_server(Call call);
  template <typename Call>
  void act_worker(Call call);
  // Takes the time of a slice, and then calls `answer`. Meanwhile the process handles no message.
  void work(std::function<void(rt::WorkerMachine&, rt::WorkerTurn&)> answer);

  void execute(const rt::Effects::Effect& effect);
  void execute(const rt::Failure& failure) { end(failure.code, failure.what()); }
  void execute(const rt::CountLate&) { late_ = true; }
  // For servers.
  void execute(const rt::OpenSeeding& wanted);
  void execute(const rt::LoadCheckpoint&);
  void execute(const rt::SeedFromCheckpoint& wanted);
  void execute(const rt::CapturePart& wanted);
  void execute(const rt::CommitCheckpoint& wanted);
  void execute(const rt::DiscardAside& wanted);
  void execute(const rt::ShowRun&) {}
  void execute(const rt::SendMark& wanted);
  void execute(const rt::RequireShared&) {}
  void execute(const rt::FlushWeights& wanted);
  void execute(const rt::RunIsTrained&) { trained_ = true; }
  void execute(const rt::End& wanted) { end(wanted.code, wanted.message); }
  // For workers.
  void execute(const rt::ExpectWeights& wanted);
  void execute(const rt::CancelReceives&) { expected_.clear(); }
  void execute(const rt::SendChunk& wanted);
  void execute(const rt::StoreWeights& wanted);
  void execute(const rt::UseNextWeights&);
  void execute(const rt::TurnClock&) {}
  void execute(const rt::ForgetTimes&) {}
  void execute(const rt::OfflineSlice& wanted);
  void execute(const rt::AbandonOfflineStep&) { offline_slice_ = 0; }
  void execute(const rt::ForgetOfflineSteps&) { offline_slice_ = 0; }
  void execute(const rt::NoteCheckpoint&) {}
  void execute(const rt::NoteProgress&) {}
  void execute(const rt::ReportStep& wanted);
  void execute(const rt::Evaluate& wanted);
  void execute(const rt::ComputeSlice& wanted);
  void execute(const rt::CountStep&);
  void execute(const rt::EndTrained&);
  void execute(const rt::EndWithFound&);
  void execute(const rt::EndTerminated&) { end(rt::ExitCode::terminated, "terminated"); }

  const PsWorld& s_;
  const Network::Place place_;
  const rt::PeerId id_;
  std::uint64_t incarnation_ = 0;
  bool frozen_ = false, busy_ = false, trained_ = false, stopping_ = false;
  std::uint64_t tick_ = 0;                // the number of the planned tick
  std::vector<Clock::Action> postponed_;  // actions postponed while the process is frozen
  std::deque<rt::Event> inbox_;           // events that came while the process is busy
  std::unique_ptr<rt::ServerMachine> server_;
  bool writing_ = false;  // whether the server writes its part of a checkpoint
  bool late_ = false;     // the last message was of no use
  std::unique_ptr<rt::WorkerMachine> worker_;
  std::vector<rt::Chunk> chunks_;
  std::vector<float> model_, next_;  // next: sync: weights of the next clock
  std::uint64_t position_ = 0;       // of the slice
  std::uint64_t offline_slice_ = 0;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>> expected_;  // generation, tag, chunk
  const rt::Event* handled_ = nullptr;
  std::set<std::uint32_t> up_;  // a worker's servers
  SteadyTime heard_;            // when the worker last heard server 0, or was busy
};

}  // namespace mlk::sim
