// What every process of a distributed run does with its peers: connect, wait with a limit, report its end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"
#include "runtime/membership/effects.h"
#include "runtime/transport/transport.h"

namespace mlk::rt {

// The longest time between two rounds of dialling, with parameter servers. Servers are few, and all ranks
// wait for a lost server. So a short time is cheap, and ranks find a replacement within half a second.
inline constexpr Milliseconds server_retry_max{500};
// The suspect_after of allreduce ranks that compute on GPUs. It is short, because all GPUs are idle while
// their ranks wait for a stopped rank. A healthy rank has idle processors, so its heartbeats come in time.
inline constexpr Milliseconds gpu_suspect_after{1500};

class Peers {
 public:
  // Listens, and holds the key of the run. Throws Failure.
  explicit Peers(Job& job);

  Transport& transport() { return *transport_; }
  PeerId self() const { return transport_->self().id; }

  // The next event, or nothing if none comes within the time. If a peer ends with a final exit code, throws
  // Failure with this code. Throws Failure{peers_lost} if a peer knows a newer incarnation of this process.
  std::optional<Event> next(Milliseconds time);

  void dial(Role role, std::uint32_t rank);

  // Sends a message, dials a peer or writes a log line, and never waits. Closes the connection if the peer
  // reads no messages.
  void execute(const Effects::Effect& effect);

  // From now on next() does not throw, and this process ends as trained, however its peers end.
  void run_is_trained() { trained_ = true; }

  // Reports to all peers how this process ends. If the code is final and no peer was ever connected, first
  // waits up to 3 s for a peer.
  void leave(ExitCode code);

 private:
  Job& job_;
  std::unique_ptr<Transport> transport_;
  int connected_ = 0;
  bool trained_ = false;
};

// Runs body, and sends the exit code to the peers, also if body throws.
ExitCode run_among_peers(Job& job, const std::function<ExitCode(Peers&)>& body);

// How long a process of a trained run stays for ranks that have not ended, at most until trained + late:
//   one of them is connected (somebody_is_there)   trained + late
//   one of them was lost                           last_loss + late, and 5 s after `trained` at least
//   neither                                        5 s after `trained`, enough to tell everyone
// Pure.
SteadyTime late_deadline(SteadyTime trained, std::optional<SteadyTime> last_loss, bool somebody_is_there,
                         std::chrono::seconds late);

}  // namespace mlk::rt
