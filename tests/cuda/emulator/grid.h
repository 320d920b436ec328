// Runs grids of CUDA threads on a CPU. The threads of a block are fibers, which wait for each other only at
// barriers and in warp operations. Blocks run one after the other.
//
// The emulator reports a fault if a thread of the block misses a barrier, reaches it at another line, or has
// left the kernel before; if a lane of a warp operation is missing or is in another operation; and if threads
// wait for each other for ever. ThreadSanitizer finds unordered accesses of two threads, of the same block or
// not. AddressSanitizer finds accesses outside of an allocation, also of shared memory. Shared memory is
// filled with NaN (all bits set) for each block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>

namespace mlk::emulator {

inline constexpr unsigned warp_size = 32;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Extent {
  unsigned x = 1, y = 1, z = 1;
  std::size_t count() const { return std::size_t{x} * y * z; }
};

struct Launch {
  Extent blocks, threads;
  std::size_t shared_bytes = 0;
};
// The shared memory that a block may have on every device with a compute capability of 8.0 or more. Devices
// of 8.6, 8.9 and 12.0 have the least.
inline constexpr std::size_t most_shared_bytes = 99 * 1024;
// How many blocks a grid may have along y, and along z; along x there may be 2^31 - 1.
inline constexpr unsigned most_blocks_across = 65535;

// A kernel is wrong. The message says which rule the kernel breaks, in which thread and at which line.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

// In which order the threads of a block run between two waits, and the blocks of a grid.
enum class Order { ascending, descending, seeded };
void use_order(Order order, std::uint64_t seed = 0);

// Calls `kernel` once for each thread of the grid. Throws KernelFault. For one thread of the host at a time.
void run_grid(const Launch& launch, const std::function<void()>& kernel);

// ---- For the kernel, about the calling thread. The numbers of a thread never change, so the compiler may
// call these functions once, before a loop.
enum class Axis { x, y, z };
[[gnu::const]] unsigned thread_number(Axis axis);
[[gnu::const]] unsigned block_number(Axis axis);
[[gnu::const]] unsigned threads_along(Axis axis);
[[gnu::const]] unsigned blocks_along(Axis axis);
[[gnu::const]] void* shared_memory();  // of the block: Launch::shared_bytes
[[gnu::const]] unsigned lane();

inline Index thread_index() {
  return {thread_number(Axis::x), thread_number(Axis::y), thread_number(Axis::z)};
}
inline Index block_index() { return {block_number(Axis::x), block_number(Axis::y), block_number(Axis::z)}; }
inline Extent block_extent() {
  return {threads_along(Axis::x), threads_along(Axis::y), threads_along(Axis::z)};
}
inline Extent grid_extent() { return {blocks_along(Axis::x), blocks_along(Axis::y), blocks_along(Axis::z)}; }

using Where = std::source_location;

// Waits until all threads of the block are here.
void barrier(const Where& where);

// The next three functions wait until all lanes of the mask are in the same operation at the same line.
// Returns the value that lane `source` of the mask passed.
std::uint64_t value_of_lane(unsigned mask, std::uint64_t value, unsigned source, const Where& where);
// The value that each lane of the mask passed; 0 for lanes outside of the mask.
struct Lanes {
  std::uint64_t values[warp_size];
};
Lanes values_of_lanes(unsigned mask, std::uint64_t value, const Where& where);

// mma.sync.m16n8k16: d[16][8] += a[16][16] * b[16][8]. The matrices are spread over the lanes; the numbers of
// a and b are in pairs of bfloat16. The hardware adds in an order of its own.
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const Where& where);

// A copy to shared memory that the thread has begun (cp.async). The emulator copies when the thread waits:
// each call of await_copies() removes the oldest copy that does not belong to the last `open` groups. It
// returns false if there is no such copy.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned bytes = 0, available = 0;  // those beyond `available` become 0
};
void begin_copy(const Copy& copy, const Where& where);
void end_group_of_copies();
bool await_copies(unsigned open, Copy& copy);

// Ends the run of the grid with a KernelFault, and does not return. It is not declared [[noreturn]], because
// AddressSanitizer then examines the stack, and it does not know the stack of a fiber.
void fail(const char* what, const Where& where);

}  // namespace mlk::emulator
