#include "runtime/collectives/device_sum.h"

#include <algorithm>
#include <utility>

namespace mlk::rt {
namespace {

// The places of the values of a report in the floats that write_report() fills. From id_at on, each float
// holds three bytes of the group's id, which a float represents exactly.
constexpr std::size_t can_at = 0, version_at = 1, ready_at = 2, failed_at = 3, id_at = 4;

constexpr std::chrono::seconds join_patience{30};
constexpr Milliseconds part_patience{500};
constexpr std::size_t slowest_floats = 16 << 10;  // the floats that a slow network carries in 1 ms
constexpr int most_faults = 3;
constexpr std::size_t sums_of_good_group = 1000;

void put_id(const kernels::GroupId& id, std::span<float> talk) {
  for (std::size_t at = 0; at < id.size(); at += 3) {
    unsigned value = 0;
    for (std::size_t i = at; i < std::min(at + 3, id.size()); ++i) value = value << 8 | id[i];
    talk[id_at + at / 3] = static_cast<float>(value);
  }
}

kernels::GroupId read_id(std::span<const float> talk) {
  kernels::GroupId id{};
  for (std::size_t at = 0; at < id.size(); at += 3) {
    auto value = static_cast<unsigned>(talk[id_at + at / 3]);
    for (std::size_t i = std::min(at + 3, id.size()); i > at; --i, value >>= 8)
      id[i - 1] = static_cast<unsigned char>(value & 0xff);
  }
  return id;
}

}  // namespace

DeviceSum::DeviceSum(kernels::Collectives* collectives, std::size_t largest_part, const Log& log)
    : log_(log),
      collectives_(collectives),
      patience_(part_patience + Milliseconds(largest_part / slowest_floats)) {
  if (collectives_ && collectives_->version() == 0)
    log_.line("NCCL cannot be used, so sums go through the hosts: " + collectives_->why_none());
}

bool DeviceSum::can() const { return collectives_ && collectives_->version() > 0 && faults_ < most_faults; }

void DeviceSum::begin(std::size_t members, std::size_t index) {
  members_ = members;
  index_ = index;
  phase_ = members > 1 ? Phase::offers : Phase::off;
  group_.reset();
  told_ = {};
  joins_since_.reset();
  still_since_.reset();
}

void DeviceSum::write_report(std::span<float> talk) {
  std::ranges::fill(talk, 0.0f);
  if (phase_ == Phase::offers && can()) {
    const auto id = index_ == 0 ? collectives_->new_group() : kernels::GroupId();
    talk[can_at] = id ? 1 : 0;
    if (index_ == 0) talk[version_at] = static_cast<float>(collectives_->version());
    if (id) put_id(*id, talk);
  }
  if (phase_ == Phase::joins) {
    using State = kernels::Communicator::State;
    const State state = group_ ? group_->state() : State::failed;
    talk[ready_at] = state == State::done ? 1 : 0;
    talk[failed_at] = state == State::failed ? 1 : 0;
  }
}

void DeviceSum::read_reports(std::span<const float> sum, SteadyTime now) {
  const auto all = static_cast<float>(members_);
  if (phase_ == Phase::offers) {
    const bool agreed = can() && sum[can_at] == all;
    phase_ = agreed ? Phase::joins : Phase::off;
    if (!agreed) return;
    joins_since_ = now;
    if (sum[version_at] !=
        static_cast<float>(collectives_->version())) {  // the next sum reports this to the other members
      log_.line("NCCL is of another version than that of the first worker");
      return;
    }
    group_ = collectives_->join(read_id(sum), static_cast<int>(members_), static_cast<int>(index_));
  } else if (phase_ == Phase::joins && sum[ready_at] == all) {
    // If all members are ready, this member changes to the devices, even if its time limit is over: the
    // clocks of members differ, and all members must decide the same.
    phase_ = Phase::in_use;
    if (index_ == 0) log_.line("sums go by NCCL, over " + std::to_string(members_) + " GPUs");
  } else if (phase_ == Phase::joins && (sum[failed_at] > 0 || now - *joins_since_ > join_patience)) {
    static_cast<void>(give_up(now - *joins_since_ > join_patience));
  }
}

DeviceSum::Progress DeviceSum::progress(SteadyTime now) {
  switch (group_->state()) {
    case kernels::Communicator::State::failed:
      return Progress::failed;
    case kernels::Communicator::State::done:
      still_since_.reset();
      return Progress::done;
    default:
      break;
  }
  if (!still_since_ || group_->sums_done() != sums_done_) {
    still_since_ = now;
    sums_done_ = group_->sums_done();
  }
  return now - *still_since_ < patience_ ? Progress::under_way : Progress::stands_still;
}

// In a ring, each of n members sends 2 (n - 1) / n times the bytes of the vector. Like nccl-tests, this
// function uses that factor whatever algorithm NCCL chooses. So the bus bandwidth can be compared with the
// bandwidth of the links.
BusTraffic DeviceSum::take_traffic() {
  if (!group_ || phase_ != Phase::in_use) return {};
  const auto now = group_->traffic(), before = std::exchange(told_, now);
  const auto members = static_cast<double>(members_);
  return {(now.bytes - before.bytes) * 2 * (members - 1) / members, now.seconds - before.seconds};
}

bool DeviceSum::give_up(bool hangs) {
  phase_ = Phase::off;
  if (!group_) return true;
  // In a long run, NCCL may fail at many changes of the members. So a group that has made many sums resets
  // the count of failures.
  if (group_->sums_done() >= sums_of_good_group) faults_ = 0;
  const std::string why = hangs ? "it does not come to an end" : group_->failure();
  if (!why.empty()) {
    ++faults_;
    log_.line("NCCL is given up for now: " + why);
  }
  return group_->abort();
}

}  // namespace mlk::rt
