// Ensures that one process at a time drives a sweep, by a Lease. After client-go's leader election: a holder
// that has not renewed it for 15 s, measured here, counts as dead; clocks of machines are not compared.
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

// Other values are for tests.
struct LeaseTimes {
  std::chrono::milliseconds duration{15'000};  // without a renewal for so long, its holder counts as dead
  std::chrono::milliseconds renew_deadline{10'000};  // after which the holder gives it up
  std::chrono::milliseconds renew_every{4'000}, ask_every{2'000};
  // A server that has just started does not know the roles yet.
  std::chrono::milliseconds longest_refusal{30'000};
};

// The Lease of a sweep; null if there is none, nothing if the server fails or refuses.
std::optional<nlohmann::json> read_lease(kube::Client& client, const std::string& name_space,
                                         const std::string& sweep);

class DriverLease {
 public:
  using Clock = std::chrono::steady_clock;

  // `name`: of the Lease, which is the sweep's; it belongs to the owner with that uid. `now`: another clock
  // for tests. The client must outlive this. For one thread.
  DriverLease(kube::Client& client, const std::string& name_space, std::string name, std::string owner_uid,
              LeaseTimes times = {}, std::function<Clock::time_point()> now = Clock::now);

  ~DriverLease() { release(); }
  DriverLease(const DriverLease&) = delete;
  DriverLease& operator=(const DriverLease&) = delete;

  // Takes or renews the Lease. True while it is ours. Call once a second; most calls do not ask the server.
  // If the server fails for renew_deadline, the Lease is given up. Throws ApiError for 401 and 403; if they
  // were allowed before, only after longest_refusal.
  bool hold();
  void release();  // so that another process may take it at once; best effort

  const std::string& holder() const { return holder_; }  // another process, if it is not ours

 private:
  bool take(Clock::time_point now);
  nlohmann::json spec() const;

  kube::Client& client_;
  const std::string& name_space_;
  const std::string name_, owner_uid_, me_;
  const LeaseTimes times_;
  const std::function<Clock::time_point()> now_;
  std::string holder_;
  bool ours_ = false;
  Clock::time_point renewed_{}, asked_{};      // the last time that it was certainly ours, that we asked
  std::optional<Clock::time_point> answered_;  // the last time that the server told the holder
  nlohmann::json seen_;                        // the record of another holder
  Clock::time_point seen_since_{};             // since when it has not changed
};

// Tells other processes whether a sweep has a driver.
class DriverWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // References must outlive it.
  DriverWatch(kube::Client& client, const std::string& name_space, std::string sweep)
      : client_(client), name_space_(name_space), sweep_(std::move(sweep)) {}

  // True if the Lease was neither renewed nor taken for 15 s, measured here; so a hand-over between drivers
  // does not count. Call often; most calls do not ask the server. If the server fails or refuses, the answer
  // is false.
  bool nobody_drives(Clock::time_point now = Clock::now());

 private:
  kube::Client& client_;
  const std::string& name_space_;
  const std::string sweep_;
  std::optional<nlohmann::json> seen_;  // null: there is no Lease
  Clock::time_point seen_since_{}, asked_{};
};

}  // namespace mlk::sweeps
