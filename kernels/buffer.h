// Memory for tensors, on the device that computes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace mlk::kernels {

// Memory with the function that frees it.
using Memory = std::unique_ptr<void, void (*)(void*)>;

// Memory for `size()` numbers; functions of Ops make it. Only operations of an Ops for the same device may
// dereference data(). The host reads and writes the numbers through Ops::read(), write() and place(), but
// may use a buffer of Ops::allocate_on_host() directly. A buffer that was moved from is empty.
template <typename Number>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}

  Number* data() { return static_cast<Number*>(memory_.get()); }
  const Number* data() const { return static_cast<const Number*>(memory_.get()); }
  std::size_t size() const { return memory_ ? size_ : 0; }
  bool empty() const { return size() == 0; }
  operator std::span<Number>() { return {data(), size()}; }
  operator std::span<const Number>() const { return {data(), size()}; }

 private:
  Memory memory_{nullptr, nullptr};
  std::size_t size_ = 0;
};

}  // namespace mlk::kernels
