// The ring in shared memory.
#include "runtime/transport/shared_lane.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlk::rt {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::uint64_t round_up(std::uint64_t position) { return (position + 63) / 64 * 64; }

// Where a payload begins if it is put or read at `position`, which is a multiple of 64. Payloads do not wrap.
constexpr std::uint64_t begin_of(std::uint64_t position, std::size_t length) {
  constexpr std::uint64_t capacity = SharedLane::capacity;
  return position % capacity + length <= capacity ? position : (position / capacity + 1) * capacity;
}

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock would belong to one process only");

std::unique_ptr<SharedLane> SharedLane::map(int fd) {
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedLane>(new SharedLane(static_cast<std::byte*>(memory)));
}

std::unique_ptr<SharedLane> SharedLane::create(int& fd) {
  fd = memfd_create("mlk-runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  auto lane = ftruncate(fd, mapped) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0 ? map(fd) : nullptr;
  if (lane) {
    lane->control().wanted = nothing_wanted;
  } else {
    ::close(fd);
  }
  return lane;
}

std::unique_ptr<SharedLane> SharedLane::open(int fd) {
  struct stat status{};
  const int found = fcntl(fd, F_GET_SEALS);
  if (found < 0 || (found & seals) != seals) return nullptr;
  if (fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(mapped)) return nullptr;
  return map(fd);
}

SharedLane::~SharedLane() { munmap(memory_, mapped); }

bool SharedLane::fits(std::uint64_t begin, std::size_t length) const {
  const std::uint64_t released = control().released;
  return released <= position_ && begin + length - released <= capacity;
}

bool SharedLane::put(std::span<const std::byte> payload) {
  if (payload.size() > capacity) return false;
  const std::uint64_t begin = begin_of(position_, payload.size());
  if (!fits(begin, payload.size())) return false;
  if (!payload.empty()) std::memcpy(at(begin), payload.data(), payload.size());
  position_ = round_up(begin + payload.size());
  return true;
}

bool SharedLane::has_room(std::size_t length) {
  const std::uint64_t begin = begin_of(position_, length);
  if (fits(begin, length)) return true;
  control().wanted = position_ - capacity / 2;
  return fits(begin, length);  // the reader may have released memory in the meantime
}

std::span<const std::byte> SharedLane::next(std::size_t length) {
  if (length > capacity) return {};
  const std::uint64_t begin = begin_of(position_, length);
  end_ = round_up(begin + length);
  return {at(begin), length};
}

bool SharedLane::release() {
  position_ = end_;
  control().released = position_;
  std::uint64_t wanted = control().wanted;
  return wanted <= position_ && control().wanted.compare_exchange_strong(wanted, nothing_wanted);
}

}  // namespace mlk::rt
