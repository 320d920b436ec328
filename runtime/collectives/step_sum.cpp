#include "runtime/collectives/step_sum.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

// While devices compute the sums, the host polls them without a pause for 200 us, and after that every 50 us.
constexpr std::chrono::microseconds eager{200}, look_interval{50};
constexpr Milliseconds hang_interval{250};

}  // namespace

StepSum::StepSum(Transport& transport, kernels::Ops& ops, std::span<const TensorInfo> tensors,
                 std::size_t front, const Log& log)
    : transport_(transport),
      ops_(ops),
      front_(front),
      talk_end_(front + DeviceSum::talk_floats),
      buckets_(plan_buckets(tensors, talk_end_)),
      ring_(transport, buckets_.front().offset + buckets_.front().size),
      device_sum_(ops.collectives(), std::ranges::max(buckets_, {}, &Bucket::size).size, log) {
  renew_buffer();
}

void StepSum::renew_buffer() {
  sum_ = ops_.allocate<float>(buckets_.front().offset + buckets_.front().size);
  summed_ = ops_.place(sum_);
}

bool StepSum::run(const Ring::Group& group, const Step& step) {
  by_devices_ = device_sum_.is_in_use();
  weighed_ = 0;
  ready_ = 0;
  failed_ = false;
  if (!by_devices_) device_sum_.write_report(summed_.subspan(front_, DeviceSum::talk_floats));
  bool summed = false;
  if (by_devices_ || (buckets_.size() > 1 && group.ranks.size() > 1)) {
    // Until both parts are done, only the thread that sums receives events. This thread computes (part 0),
    // because each thread chooses its own GPU, and this thread has chosen its GPU.
    overlap_.run(2, [&](int part) {
      if (part == 0) return compute(step);
      summed = by_devices_ ? sum_by_devices(step) : sum_by_hosts(group, step);
    });
  } else {
    compute(step);
    summed = sum_by_hosts(group, step);
  }
  if (spoilt_) {  // this memory is never freed, since the device may still write to it
    new kernels::Buffer<float>(std::move(sum_));
    renew_buffer();
    spoilt_ = false;
  }
  if (!summed) return false;
  if (by_devices_) {
    ops_.read(std::span<float>(sum_).first(front_));
  } else {
    device_sum_.read_reports(summed_.subspan(front_, DeviceSum::talk_floats), steady_clock::now());
  }
  return true;
}

std::span<float> StepSum::gradients_of(const Bucket& bucket) {
  const std::size_t from = std::max(bucket.offset, talk_end_);
  return std::span<float>(sum_).subspan(from, bucket.offset + bucket.size - from);
}

void StepSum::weigh(const Step& step) {
  const Bucket& bucket = buckets_[weighed_++];
  const auto summand = gradients_of(bucket);
  const auto from = static_cast<std::size_t>(summand.data() - sum_.data());
  ops_.scale(step.weight, step.gradients.subspan(from - talk_end_, summand.size()), summand);
  if (by_devices_) {
    if (bucket.offset == 0) ops_.write(summed_.first(talk_end_), std::span<float>(sum_).first(talk_end_));
    device_sum_.add(std::span<float>(sum_).subspan(bucket.offset, bucket.size));
  } else {
    ops_.start_read(summand);
  }
  // The device continues to compute while a bucket is copied. So the host waits for the copy of a bucket only
  // when the gradients of the next bucket are final.
  const bool copies = !by_devices_ && summed_.data() != sum_.data();
  while (ready_ + (copies ? 1 : 0) < weighed_) make_ready();
}

void StepSum::make_ready() {
  if (!by_devices_) ops_.read(gradients_of(buckets_[ready_]));
  ++ready_;
  if (buckets_.size() > 1) transport_.nudge();
}

void StepSum::compute(const Step& step) {
  try {
    const Model::Final final = [&](std::size_t from) {
      while (weighed_ + 1 < buckets_.size() && buckets_[weighed_].offset >= talk_end_ + from) weigh(step);
    };
    step.compute(buckets_.size() > 1 ? final : Model::Final());
    while (weighed_ < buckets_.size()) weigh(step);
    while (ready_ < buckets_.size()) make_ready();
  } catch (...) {
    failed_ = true;
    transport_.nudge();
    throw;
  }
}

bool StepSum::sum_by_hosts(const Ring::Group& group, const Step& step) {
  return ring_.sum(
      summed_, buckets_, [&] { return ready_.load(); }, group,
      [&](std::optional<Event>& event, Milliseconds time) { return step.pump(event, time) && !failed_; });
}

bool StepSum::sum_by_devices(const Step& step) try {
  const auto begin = steady_clock::now();
  auto next_question = begin;
  for (;;) {
    std::optional<Event> event;
    if (!step.pump(event, Milliseconds(0)) || failed_) return give_up_devices(false);
    if (event) ring_.store_early(std::move(*event));
    const bool all_begun = ready_ == buckets_.size();
    const auto now = steady_clock::now();
    const auto progress = device_sum_.progress(now);
    if (progress == DeviceSum::Progress::done && all_begun) return true;
    if (progress == DeviceSum::Progress::failed) return give_up_devices(false);
    if (progress == DeviceSum::Progress::stands_still && all_begun && now >= next_question) {
      if (step.hangs()) return give_up_devices(true);
      next_question = now + hang_interval;
    }
    if (now - begin > eager) std::this_thread::sleep_for(look_interval);
  }
} catch (...) {  // the pump has thrown, and memory that a sum still uses must not be freed
  give_up_devices(false);
  throw;
}

bool StepSum::give_up_devices(bool hangs) {
  spoilt_ = !device_sum_.give_up(hangs);
  return false;
}

void StepSum::scale_into(float factor, std::span<float> gradients) {
  const auto sum = std::span<float>(sum_).subspan(talk_end_);
  if (!by_devices_) ops_.write(summed_.subspan(talk_end_), sum);
  ops_.scale(factor, sum, gradients);
}

}  // namespace mlk::rt
