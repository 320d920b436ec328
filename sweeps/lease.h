// Who drives a sweep: one process at a time, by a Lease. After client-go's leader election: a holder that has
// not renewed for 15 s, as seen from here, is taken for dead; clocks of machines are not compared.
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

// Others than these are for tests.
struct LeaseTimes {
  std::chrono::milliseconds duration{15'000};  // without a renewal, after which its holder is taken for dead
  std::chrono::milliseconds renew_deadline{10'000};  // the holder gives it up itself
  std::chrono::milliseconds renew_every{4'000}, ask_every{2'000};
  // A server that has just started does not know yet who may do what.
  std::chrono::milliseconds longest_refusal{30'000};
};

class DriverLease {
 public:
  using Clock = std::chrono::steady_clock;

  // `name`: of the Lease, the sweep's; it belongs to the owner with that uid. `now`: another clock is for
  // tests. The client must outlive it. For one thread.
  DriverLease(kube::Client& client, const std::string& name_space, std::string name, std::string owner_uid,
              LeaseTimes times = {}, std::function<Clock::time_point()> now = Clock::now);

  ~DriverLease() { release(); }
  DriverLease(const DriverLease&) = delete;
  DriverLease& operator=(const DriverLease&) = delete;

  // Takes or renews it. True while it is ours. Call once a second; most calls ask nothing of the server. What
  // the server cannot answer costs the Lease when it lasts for renew_deadline. Throws ApiError for 401 and
  // 403, to who was let in before when they last for longest_refusal.
  bool hold();
  void release();  // so that another may take it at once; best effort

  const std::string& holder() const { return holder_; }  // somebody else, when it is not ours

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
  Clock::time_point renewed_{}, asked_{};      // last time that it was ours for certain, that we asked
  std::optional<Clock::time_point> answered_;  // last time that the server said who holds it
  nlohmann::json seen_;                        // the record of another holder
  Clock::time_point seen_since_{};             // since when it has not changed
};

// Whether anybody drives a sweep, for those who only look on.
class DriverWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // References must outlive it.
  DriverWatch(kube::Client& client, const std::string& name_space, std::string sweep)
      : client_(client), name_space_(name_space), sweep_(std::move(sweep)) {}

  // Whether nobody has renewed or taken the Lease for 15 s, as seen from here: a driver that hands over to
  // another is not missed. Call often; most calls ask nothing of the server. What the server does not answer,
  // or does not let us know, is nobody's absence.
  bool nobody_drives(Clock::time_point now = Clock::now());

 private:
  kube::Client& client_;
  const std::string& name_space_;
  const std::string sweep_;
  std::optional<nlohmann::json> seen_;  // null: there is no Lease
  Clock::time_point seen_since_{}, asked_{};
};

}  // namespace mlk::sweeps
