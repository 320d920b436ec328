// A worker without its process: it joins, asks for work, computes and pushes. If a server is lost, the worker
// continues alone for a while, and joins again when that server is back. Pure: the process around it
// (worker.cpp) has the sockets, the clock, the disk and the model.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/launch/config.h"
#include "runtime/membership/bounded_wait.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/weight_tracker.h"
#include "runtime/ps/machines/worker_turn.h"

namespace mlk::rt {

// Each event, each tick and each answer is one call. After it, the machine is in one of its states and waits
// for the next call. The machine ends with the decision EndTrained, EndWithFound, EndTerminated or Failure.
// After that the caller must not call it.
class WorkerMachine {
 public:
  WorkerMachine(const Config& config, std::vector<TensorInfo> tensors, SteadyTime now,
                const std::optional<DataSummary>& data = {});

  void start(WorkerTurn& turn);
  void handle(const Event& event, WorkerTurn& turn);
  // Called when no event has come for the time of wait().
  void tick(WorkerTurn& turn);
  Milliseconds wait(SteadyTime now) const;
  // SIGTERM: takes effect at the next call.
  void stop() { stopping_ = true; }

  // Whether the caller should check for the checkpoint of the last step, because the servers may be gone for
  // good, or may be new servers that know nothing of the run.
  bool checks_for_last(SteadyTime now) const;
  bool knows_of_end() const { return finished_; }  // the run is trained
  void found_last(WorkerTurn& turn);

  // The answers to the decisions of worker_turn.h.
  void computed(double loss, WorkerTurn& turn);
  void step_counted(double own_seconds, WorkerTurn& turn);
  // step, position: the model's step and position now. made: whether the model has advanced by a step.
  void offline_advanced(bool made, std::uint64_t step, std::uint64_t position, WorkerTurn& turn);
  // result: the result of the run. done: false if the process had to stop before it could report.
  void evaluated(bool done, const std::string& result, WorkerTurn& turn);

 private:
  enum class State {
    awaiting_servers,
    asking,
    fetching,
    computing,
    pushing,
    counting,
    evaluating,
    reported,
    looking  // for the last checkpoint: the run is trained, but perhaps no worker has reported
  };
  struct Work {
    WorkMessage message;
    std::uint64_t clock = 0;
    std::uint32_t slice = 0;
  };
  struct Trained {
    TrainedMessage message;
    std::uint64_t clock = 0;
  };

  void on_message(const Event& event, WorkerTurn& turn);
  bool all_servers_up() const { return up_.size() == servers_; }
  std::vector<std::string> missing_servers() const;
  bool goes_on_offline(SteadyTime now) const;
  void end_exchange(WorkerTurn& turn);
  void await_servers(WorkerTurn& turn);
  void go_on_awaiting(WorkerTurn& turn);
  void have_servers(WorkerTurn& turn);
  void join(WorkerTurn& turn);
  void send_ready(WorkerTurn& turn);
  void next_slice(WorkerTurn& turn);
  void leave_slice(WorkerTurn& turn);
  void leave_trained(WorkerTurn& turn);
  void advance(bool idle, WorkerTurn& turn);
  bool goes_on(bool done, bool idle, WorkerTurn& turn);
  void miss(const std::vector<std::string>& who, WorkerTurn& turn);
  void work_on(WorkerTurn& turn);
  void compute(WorkerTurn& turn);
  void train_end(WorkerTurn& turn);
  void fetch(std::uint64_t clock, WorkerTurn& turn);
  void go_on_fetching(bool idle, WorkerTurn& turn);
  void have_weights(WorkerTurn& turn);
  bool too_old(const WorkMessage& work) const;
  void note(const NoteCheckpoint& checkpoint, const Progress& progress, WorkerTurn& turn);

  const Config config_;
  const std::vector<TensorInfo> tensors_;
  const std::optional<DataSummary> data_;
  const bool sync_;
  const std::uint32_t servers_;
  WeightBook book_;
  BoundedWait patience_;
  State state_ = State::awaiting_servers;
  bool stopping_ = false;

  std::set<std::uint32_t> up_;
  bool broken_ = false;    // since the last join: a server was lost, or asked for a new join
  bool finished_ = false;  // the run is trained, and its checkpoint is committed
  std::string result_;     // the reporter's result, once finished_; empty: server 0 knows of none
  SteadyTime looks_until_;
  bool must_pull_ = true;                   // no weights were received since the last join
  std::uint64_t clock_ = 0, position_ = 0;  // of the model's parameters
  // bounded: the parameters contain at least this many slices of every other worker.
  std::uint64_t held_slices_ = 0;
  RunView run_;  // from the last message of server 0
  // work_, trained_: received, but not begun. at_work_, at_end_: the current work of this worker.
  std::optional<Work> work_, at_work_;
  std::optional<Trained> trained_, at_end_;  // the request for the last report
  ReadyMessage ready_;

  SteadyTime told_to_wait_, awaiting_since_;
  // Whether the worker, in its current wait for servers, has logged that it trains offline, and has sent
  // `cut_off`.
  bool told_offline_ = false, told_coordinator_ = false;
  // The number of offline steps: in all, and before awaiting_since_.
  std::uint64_t offline_made_ = 0, offline_before_ = 0;

  std::uint64_t fetched_clock_ = 0;
  bool regress_ = false;  // sync: weights of a later step had arrived
  SteadyTime pull_again_;
  bool joined_ = false;  // at_work_ is the first slice since the last join
  double loss_ = 0;
};

}  // namespace mlk::rt
