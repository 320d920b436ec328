#include "sweeps/objects/lease.h"

#include <algorithm>
#include <array>
#include <unistd.h>

#include "cli/kube/client.h"
#include "cli/render/own.h"
#include "cli/run/facts/labels.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"
#include "cli/util/time.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

// A text that identifies this process, readable for people.
std::string own_identity() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(host.data()) + "-" + std::to_string(::getpid()) + "-" + hex(random_bytes(4));
}

}  // namespace

const kube::Resource lease_resource{"coordination.k8s.io", "v1", "leases", "Lease"};

DriverLease::DriverLease(kube::Client& client, const std::string& name_space, std::string name,
                         std::string owner_uid, LeaseTimes times, std::function<Clock::time_point()> now)
    : client_(client),
      name_space_(name_space),
      name_(std::move(name)),
      owner_uid_(std::move(owner_uid)),
      me_(own_identity()),
      times_(times),
      now_(std::move(now)) {}

json DriverLease::spec() const {
  return {{"holderIdentity", me_},
          {"leaseDurationSeconds", std::max<long>(1, times_.duration / std::chrono::seconds(1))},
          {"renewTime", format_time_micro(std::chrono::system_clock::now())}};
}

bool DriverLease::hold() {
  const Clock::time_point now = now_();
  if (ours_ && now - renewed_ < times_.renew_every) return true;
  if (!ours_ && asked_ != Clock::time_point{} && now - asked_ < times_.ask_every) return false;
  asked_ = now;
  try {
    ours_ = acquire(now);
    answered_ = now;
    if (ours_) renewed_ = now;
  } catch (const kube::ApiError& error) {
    const bool refused = error.status() == 401 || error.status() == 403;
    if (refused && (!answered_ || now - *answered_ > times_.longest_refusal)) throw;
    ours_ = ours_ && now - renewed_ < times_.renew_deadline;
  }
  return ours_;
}

bool DriverLease::acquire(Clock::time_point now) {
  const std::optional<json> lease = client_.find(lease_resource, name_space_, name_);
  if (!lease) {
    json fresh = {{"apiVersion", "coordination.k8s.io/v1"},
                  {"kind", "Lease"},
                  {"metadata",
                   {{"name", name_},
                    {"labels", {{labels::managed_by, "mlk"}, {labels::sweep, name_}}},
                    {"ownerReferences", owner_references(name_, owner_uid_)}}},
                  {"spec", spec()}};
    try {
      client_.create(lease_resource, name_space_, fresh);
      return true;
    } catch (const kube::ApiError& error) {
      if (error.status() == 409) return false;
      throw;
    }
  }
  holder_ = text_of(*lease, {"spec", "holderIdentity"});
  const json& record = at_path(*lease, {"spec"});
  if (record != seen_) {
    seen_ = record;
    seen_since_ = now;
  }
  const bool free = holder_.empty() || holder_ == me_ || now - seen_since_ > times_.duration;
  if (!free) return false;
  json patch = {{"metadata", {{"resourceVersion", text_of(*lease, {"metadata", "resourceVersion"})}}},
                {"spec", spec()}};
  try {
    client_.patch(lease_resource, name_space_, name_, patch);
    holder_ = me_;
    return true;
  } catch (const kube::ApiError& error) {
    if (error.status() == 409 || error.status() == 404) return false;
    throw;
  }
}

std::optional<json> read_lease(kube::Client& client, const std::string& name_space,
                               const std::string& sweep) {
  try {
    std::optional<json> lease = client.find(lease_resource, name_space, sweep);
    if (!lease) lease.emplace();
    return lease;
  } catch (const kube::ApiError&) {
    return std::nullopt;
  }
}

bool DriverWatch::nobody_drives(Clock::time_point now) {
  constexpr LeaseTimes times;
  if (asked_ == Clock::time_point{} || now - asked_ >= times.ask_every) {
    asked_ = now;
    const std::optional<json> lease = read_lease(client_, name_space_, sweep_);
    std::optional<json> spec;
    if (lease) spec = at_path(*lease, {"spec"});
    if (!spec || !seen_ || *spec != *seen_) seen_since_ = now;
    seen_ = std::move(spec);
  }
  return seen_ && now - seen_since_ > times.duration;
}

void DriverLease::release() {
  if (!ours_) return;
  ours_ = false;
  try {
    const std::optional<json> lease = client_.find(lease_resource, name_space_, name_);
    if (!lease || text_of(*lease, {"spec", "holderIdentity"}) != me_) return;
    client_.patch(lease_resource, name_space_, name_,
                  {{"metadata", {{"resourceVersion", text_of(*lease, {"metadata", "resourceVersion"})}}},
                   {"spec", {{"holderIdentity", ""}}}});
  } catch (const Error&) {
    // An error does no harm, since a Lease that nobody renews expires.
  }
}

}  // namespace mlk::sweeps
