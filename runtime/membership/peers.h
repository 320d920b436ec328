// What every process of a distributed run does with its peers: connect, wait with patience, pass on the end.
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

// Between two attempts to dial, with parameter servers. Servers are few, and all ranks wait for a lost one: a
// new one is found within half a second.
inline constexpr Milliseconds server_retry_max{500};
// Of ranks that compute on GPUs, with allreduce. All GPUs stand still while they wait for a rank that is
// stopped. A healthy rank has processors to spare, so its heartbeats come in time.
inline constexpr Milliseconds gpu_suspect_after{1500};

class Peers {
 public:
  // Listens, and knows the run's key. Throws Failure.
  explicit Peers(Job& job);

  Transport& transport() { return *transport_; }
  PeerId self() const { return transport_->self().id; }

  // The next event, or nothing after the time. Throws Failure with a peer's final exit code, and
  // Failure{peers_lost} if a newer incarnation of this process is known.
  std::optional<Event> next(Milliseconds time);

  void dial(Role role, std::uint32_t rank);

  // Sends, dials or writes to the log, never waiting: a peer that does not take a message is given up.
  void carry_out(const Effects::Effect& effect);
  void carry_out(Effects&& effects);  // in order

  // From now on next() does not throw: no peer's end changes how this process ends.
  void run_is_trained() { trained_ = true; }

  // Tells everyone how this process ends. With a final code it first waits a little for somebody to tell.
  void leave(ExitCode code);

 private:
  Job& job_;
  std::unique_ptr<Transport> transport_;
  int connected_ = 0;
  bool trained_ = false;
};

// Runs body; however it ends, the peers are told the exit code.
ExitCode run_among_peers(Job& job, const std::function<ExitCode(Peers&)>& body);

// Until when a process of a trained run stays for ranks that have not ended, never later than trained + late:
//   one of them is connected (somebody_is_there)   trained + late
//   one of them was lost                           last_loss + late, and 5 s after `trained` at least
//   neither                                        5 s after `trained`, enough to tell everyone
// Pure.
SteadyTime late_deadline(SteadyTime trained, std::optional<SteadyTime> last_loss, bool somebody_is_there,
                         std::chrono::seconds late);

}  // namespace mlk::rt
