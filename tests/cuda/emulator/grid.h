// Runs grids of CUDA threads on a CPU: the threads of a block are fibers, which wait for each other at
// barriers and in warp operations, and nowhere else. Blocks run one after the other.
//
// Found are: a barrier that some threads of the block miss, reach at another line, or left the kernel before;
// a warp operation whose lanes are not all there, or are in different operations; threads that wait for each
// other for ever. With ThreadSanitizer: accesses of two threads, of the same block or not, that nothing
// orders. With AddressSanitizer: accesses outside of an allocation, of shared memory too, which is filled
// with NaN (all bits set) for each block.
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
// What a block may have on each device with a compute capability of 8.0 or more: 8.6, 8.9 and 12.0 have the
// least.
inline constexpr std::size_t most_shared_bytes = 99 * 1024;
// How many blocks a grid may have along y, and along z; along x there may be 2^31 - 1.
inline constexpr unsigned most_blocks_across = 65535;

// The kernel is wrong. Says which rule it breaks, with the thread and the line.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

// In which order the threads of a block run between two waits, and the blocks of a grid.
enum class Order { ascending, descending, seeded };
void use_order(Order order, std::uint64_t seed = 0);

// Calls `kernel` once for each thread of the grid. Throws KernelFault. For one thread of the host at a time.
void run_grid(const Launch& launch, const std::function<void()>& kernel);

// ---- For the kernel: the calling thread's own.
Index thread_index();
Index block_index();
Extent block_extent();
Extent grid_extent();
void* shared_memory();  // of the block: Launch::shared_bytes

using Where = std::source_location;

// Waits until all threads of the block are here.
void barrier(const Where& where);

// Waits until the lanes of the mask are here, all with the same operation at the same line, and returns what
// each of them brought. Lanes outside of the mask: 0.
struct Lanes {
  std::uint64_t values[warp_size] = {};
};
Lanes exchange(unsigned mask, std::uint64_t value, const Where& where);
unsigned lane();

// The same for all lanes of the warp, with `count` numbers of each: lane `i` gave numbers i * count and on of
// the result.
inline constexpr unsigned most_numbers_of_lane = 6;
struct WarpNumbers {
  std::uint32_t values[warp_size * most_numbers_of_lane] = {};
};
WarpNumbers exchange_numbers(unsigned count, const std::uint32_t* numbers, const Where& where);

// Copies to shared memory that the thread has begun (cp.async), the oldest first, and which are done when it
// waits for them: await_copies() takes those that have to be done until only `open` groups are left, one by
// one, and says false when there is none.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned bytes = 0, available = 0;  // those beyond `available` become 0
};
void begin_copy(const Copy& copy, const Where& where);
void end_group_of_copies();
bool await_copies(unsigned open, Copy& copy);

// Ends the run of the grid with a KernelFault: it does not return, and does not say so to the compiler, since
// AddressSanitizer then looks at the stack and does not know this one.
void fail(const char* what, const Where& where);

}  // namespace mlk::emulator
