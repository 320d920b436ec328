// The rules that must hold after every event of a simulated run with parameter servers.
//
// *Commit*: sync: the last slice of a clock makes a chunk's weights those of the next clock. async: server 0
// counts a finished lease. Offline steps count when a worker that made some of them has seeded the servers.
//
// Gradients are small whole numbers that follow from the position of a slice, so sums are exact, and with
// sync the weights of step s follow from s alone: exact_weights(). If weights are not those of their step, a
// slice was left out, or counted twice, or applied to other weights than those it was computed with. So one
// comparison checks all of this: each sample is in one committed step of the history; no (clock, slice,
// chunk) counts twice; a step that is committed twice has the same result in every history; equal versions
// mean equal state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/ps/machines/protocol.h"
#include "runtime/transport/event.h"
#include "tests/sim/clock.h"
#include "tests/sim/invariants.h"
#include "tests/sim/ps_scenario.h"

namespace mlk::sim {

inline constexpr std::size_t model_floats = 6;
std::vector<rt::TensorInfo> model_tensors();
// A gradient, as the mean over a slice.
float gradient_at(std::uint64_t position, std::size_t parameter);

class PsInvariants {
 public:
  explicit PsInvariants(const PsScenario& scenario) : scenario_(scenario), exact_(1) {
    exact_[0].assign(model_floats, 0);
  }

  // 1. sync: all weights of a step, in memory, in messages or on disk, are equal to exact_weights() of it.
  void weights(std::span<const float> weights, std::uint64_t step, std::size_t offset,
               const std::string& what);
  const std::vector<float>& exact_weights(std::uint64_t step);

  // 2. sync: a lease covers the samples of its slice. async: samples whose lease is void and that are not
  //    done are at most as many as the samples that are counted as lost. Bounded: no worker gets work that
  //    is further ahead of the slowest worker than the bound.
  void granted(std::uint64_t coordinator, std::uint32_t worker, const rt::Header& header,
               const rt::WorkMessage& work);

  // 3. async: no (worker, incarnation, clock, chunk) is applied twice by servers of one history.
  void applied(std::uint64_t server, std::uint64_t worker, std::uint64_t clock, std::uint32_t chunk);

  // 4. The chunks that a server gets in a round of seeds come from one process at one step.
  struct Source {
    std::uint64_t process = 0, step = 0;
    bool operator==(const Source&) const = default;
  };
  void seeding_opened(std::uint64_t server) { sources_.erase(server); }
  void seeded(std::uint64_t server, std::uint32_t chunk, const Source& source);

  // 5. A process that has heard of a successor of a peer no longer hears the peer itself. (If the process met
  //    the successor first, it may regard the old process as the successor, since incarnations have no
  //    order.)
  void heard(std::uint64_t process, rt::PeerId peer, std::uint64_t incarnation);

  // 6. A checkpoint appears only when all of its parts are written, and it has the part of each server.
  void committing(const rt::Manifest& manifest, const std::set<std::string>& whole, std::uint64_t step);

  // 7. If a worker exits with 0, the run is trained. If there is a disk, the last checkpoint was made. The
  //    last report was made, unless this worker cannot make it, because it has no report and does not see
  //    that checkpoint.
  void worker_ends(bool was_saved, bool can_report);
  void evaluated(std::uint64_t step);
  bool is_evaluated() const { return evaluated_; }

  // A process has ended.
  void gone(std::uint64_t process);
  std::uint64_t grants() const { return grants_; }

 private:
  const PsScenario& scenario_;
  std::vector<std::vector<float>> exact_;
  struct Leased {
    std::uint64_t lost_before = 0, lost = 0;
  };
  std::map<std::uint64_t, Leased> leased_;  // by incarnation of server 0
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>> applied_;
  std::map<std::uint64_t, std::map<std::uint32_t, Source>> sources_;  // of seeds since the round began
  struct Heard {
    std::uint64_t last = 0;
    std::set<std::uint64_t> before;  // all incarnations heard so far, including the last
  };
  std::map<std::pair<std::uint64_t, rt::PeerId>, Heard> heard_;
  bool evaluated_ = false;
  std::uint64_t grants_ = 0;
};

}  // namespace mlk::sim
