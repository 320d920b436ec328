// Reads and writes the small payloads of control messages: little endian, bounds checked.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlk::rt {

static_assert(std::endian::native == std::endian::little,
              "floats and integers go over the wire as they lie in memory");

// Leaves new elements uninitialised: received bytes overwrite nearly all of them, and setting them to 0 first
// would cost another pass over the memory.
template <typename T>
struct UninitialisedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitialisedAllocator<U>;
  };
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Args>
  void construct(U* place, Args&&... args) {
    ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
  }
};

using Bytes = std::vector<std::byte, UninitialisedAllocator<std::byte>>;

// Adds bytes at the end, in one copy.
inline void append(Bytes& bytes, std::span<const std::byte> more) {
  if (more.empty()) return;
  const std::size_t before = bytes.size();
  bytes.resize(before + more.size());
  std::memcpy(bytes.data() + before, more.data(), more.size());
}

class PayloadWriter {
 public:
  template <typename... T>
    requires(std::is_arithmetic_v<T> && ...)
  PayloadWriter& put(T... values) {
    (raw(std::as_bytes(std::span(&values, 1))), ...);
    return *this;
  }
  PayloadWriter& raw(std::span<const std::byte> data) {
    append(bytes_, data);
    return *this;
  }
  // Longer text is cut to 65535 bytes.
  PayloadWriter& text(std::string_view value) {
    value = value.substr(0, 0xffff);
    put(static_cast<std::uint16_t>(value.size()));
    return raw(std::as_bytes(std::span(value.data(), value.size())));
  }
  const Bytes& bytes() const { return bytes_; }
  Bytes take() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// After the first read beyond the end, every read returns zero and ok() is false. Check ok() once, at the
// end.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
    requires std::is_arithmetic_v<T>
  T get() {
    T value{};
    if (take(sizeof(T))) std::memcpy(&value, taken_.data(), sizeof(T));
    return value;
  }
  std::string text() {
    const auto size = get<std::uint16_t>();
    if (!take(size)) return {};
    return {reinterpret_cast<const char*>(taken_.data()), taken_.size()};
  }
  // Reads numbers and texts into these variables, in order.
  template <typename... T>
  void read(T&... values) {
    (read_one(values), ...);
  }
  std::span<const std::byte> raw(std::size_t size) {
    return take(size) ? taken_ : std::span<const std::byte>();
  }
  std::size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  // ok(), and no bytes are left to read.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  template <typename T>
  void read_one(T& number) {
    number = get<T>();
  }
  void read_one(std::string& value) { value = text(); }
  bool take(std::size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return false;
    }
    taken_ = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }

  std::span<const std::byte> rest_, taken_;
  bool ok_ = true;
};

}  // namespace mlk::rt
