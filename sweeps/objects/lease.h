// Uses a Lease to ensure that only one process at a time drives a sweep. Follows client-go's leader election:
// a holder that has not renewed the Lease for 15 s counts as dead. Each process measures the 15 s with its
// own clock, and does not compare the clocks of machines.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/kube/resource.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

extern const kube::Resource lease_resource;

// The times of the Lease. Only tests use other values than these.
struct LeaseTimes {
  std::chrono::milliseconds duration{15'000};  // the holder counts as dead after this time without a renewal
  std::chrono::milliseconds renew_deadline{10'000};  // the holder gives up after this time without a renewal
  std::chrono::milliseconds renew_every{4'000}, ask_every{2'000};
  // An API server that has just started has not loaded the RBAC roles yet, so hold() tolerates 401 and 403
  // for this time.
  std::chrono::milliseconds longest_refusal{30'000};
};

// The Lease of a sweep. JSON null if the sweep has no Lease. nullopt if the server fails or refuses.
std::optional<nlohmann::json> read_lease(kube::Client& client, const std::string& name_space,
                                         const std::string& sweep);

class DriverLease {
 public:
  using Clock = std::chrono::steady_clock;

  // `name`: the name of the sweep and of its Lease. The Lease belongs to the owner with this uid. `now`:
  // another clock for tests. The client and `name_space` must outlive this object. Not thread-safe.
  DriverLease(kube::Client& client, const std::string& name_space, std::string name, std::string owner_uid,
              LeaseTimes times = {}, std::function<Clock::time_point()> now = Clock::now);

  ~DriverLease() { release(); }
  DriverLease(const DriverLease&) = delete;
  DriverLease& operator=(const DriverLease&) = delete;

  // Acquires or renews the Lease. Returns true while this process holds the Lease. Call this function at
  // least every 5 s; if the last request is recent, a call sends none. Gives up the Lease if the server fails
  // for renew_deadline. Throws ApiError for 401 and 403. If the server has allowed requests before, throws
  // only if it has refused all requests for longest_refusal.
  bool hold();
  void release();  // so that another process may acquire the Lease at once; best effort

  const std::string& holder() const { return holder_; }  // the name of the holder, as last known

 private:
  bool acquire(Clock::time_point now);
  nlohmann::json spec() const;

  kube::Client& client_;
  const std::string& name_space_;
  const std::string name_, owner_uid_, me_;
  const LeaseTimes times_;
  const std::function<Clock::time_point()> now_;
  std::string holder_;
  bool ours_ = false;
  Clock::time_point renewed_{}, asked_{};      // when the last renewal and the last request were sent
  std::optional<Clock::time_point> answered_;  // when the server last answered about the Lease
  nlohmann::json seen_;                        // the spec of the Lease as last read
  Clock::time_point seen_since_{};             // when seen_ changed last
};

// For a process that does not drive a sweep: detects whether the sweep has a driver.
class DriverWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // The client and the name of the namespace must outlive this object.
  DriverWatch(kube::Client& client, const std::string& name_space, std::string sweep)
      : client_(client), name_space_(name_space), sweep_(std::move(sweep)) {}

  // Whether no process has acquired or renewed the Lease for 15 s, by the clock of this process. So the
  // result is false while one driver hands over to another. Also false if the server fails or refuses. Call
  // this function often; most calls send no request.
  bool nobody_drives(Clock::time_point now = Clock::now());

 private:
  kube::Client& client_;
  const std::string& name_space_;
  const std::string sweep_;
  std::optional<nlohmann::json> seen_;  // the spec of the Lease; JSON null: there is no Lease
  Clock::time_point seen_since_{}, asked_{};
};

}  // namespace mlk::sweeps
