// This file is compiled without sanitizers: its own memory is not the kernel's.
#include "tests/cuda/emulator/grid.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/emulator/fiber.h"

namespace mlk::emulator {
namespace {

// The copies that a thread has begun, in a ring: fibers must not allocate memory that others free.
struct Copies {
  static constexpr unsigned most = 128;
  Copy begun[most];
  unsigned group_of[most] = {};
  unsigned first = 0, last = 0;  // of those under way; counted without end
  unsigned groups = 0;           // ended so far

  void clear() { first = last = groups = 0; }
};

struct Thread {
  enum class State { ready, at_barrier, in_warp_operation, ended };
  Index index;
  State state = State::ready;
  Where where;  // of what it waits for
  Copies copies;
};

// One warp operation, from its first lane to its last.
struct WarpOperation {
  unsigned mask = 0, arrived = 0, left = 0;
  Where where;
  Lanes lanes;
  WarpNumbers numbers;
};

bool same_line(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::string line_of(const Where& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string to_string(const Index& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

Order order_in_use = Order::ascending;
std::mt19937_64 random_order;

std::vector<unsigned> in_order(std::size_t count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (order_in_use == Order::descending) std::ranges::reverse(numbers);
  if (order_in_use == Order::seeded) std::ranges::shuffle(numbers, random_order);
  return numbers;
}

Index index_in(const Extent& extent, unsigned number) {
  return {number % extent.x, number / extent.x % extent.y, number / (extent.x * extent.y)};
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using SharedMemory = std::unique_ptr<void, FreeMemory>;

// The grid that runs, and of it the block that runs.
class Grid {
 public:
  Grid(const Launch& launch, const std::function<void()>& kernel)
      : launch_(launch), kernel_(kernel), threads_(launch.threads.count()), fibers_(threads_.size()) {
    for (unsigned i = 0; i < threads_.size(); ++i) threads_[i].index = index_in(launch.threads, i);
  }
  ~Grid() {
    for (const auto& open : operations_) {
      for (const auto& operation : open) acquire(operation.get());  // after a fault
    }
    running_ = nullptr;
  }

  void run() {
    running_ = this;
    bool second = false;
    for (const unsigned block : in_order(launch_.blocks.count())) {
      block_ = index_in(launch_.blocks, block);
      take_fibers(second);
      second = !second;
      run_block();
    }
    acquire(&end_);
  }

  static Grid& running() { return *running_; }
  Thread& thread() { return threads_[current_]; }
  const Index& block() const { return block_; }
  const Launch& launch() const { return launch_; }
  void* shared() const { return shared_.back().get(); }
  unsigned lane() const { return current_ % warp_size; }

  void barrier(const Where& where);
  Lanes exchange(unsigned mask, std::uint64_t value, const Where& where);
  WarpNumbers exchange_numbers(unsigned count, const std::uint32_t* numbers, const Where& where);
  [[noreturn]] void fail(const std::string& what, const Where& where) {
    fault_ = line_of(where) + ": block " + to_string(block_) + ", thread " + to_string(thread().index) +
             ": " + what;
    release(&end_);
    while (true) fibers_[current_]->leave();
  }

 private:
  void take_fibers(bool second);
  void run_block();
  static void run_thread();
  void wait(Thread::State state, const Where& where) {
    thread().state = state;
    thread().where = where;
    fibers_[current_]->leave();
  }
  std::string who_waits() const;
  WarpOperation& join_operation(unsigned mask, const Where& where);
  void meet(WarpOperation& operation, const Where& where);
  void leave(WarpOperation& operation);

  inline static Grid* running_ = nullptr;

  const Launch launch_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::vector<Fiber*> fibers_;
  std::vector<SharedMemory> shared_;  // the last: of the block that runs
  Index block_;
  unsigned current_ = 0;
  std::size_t at_barrier_ = 0, ended_ = 0;
  Where barrier_;       // of those that wait
  bool round_ = false;  // which of the two barrier objects: a thread is at most one barrier ahead
  std::vector<std::vector<std::unique_ptr<WarpOperation>>> operations_;  // by warp
  std::optional<std::string> fault_;
  char begin_ = 0, end_ = 0, barriers_[2] = {};  // objects of release() and acquire()
};

void Grid::run_thread() {
  Grid& grid = running();
  acquire(&grid.begin_);
  grid.kernel_();
  release(&grid.end_);
  grid.thread().state = Thread::State::ended;
  ++grid.ended_;
  while (true) grid.fibers_[grid.current_]->leave();
}

// Making a fiber takes long with ThreadSanitizer, so they are kept. Two blocks that run one after the other
// have different ones: what one fiber does is ordered, and no race.
void Grid::take_fibers(bool second) {
  static std::vector<std::unique_ptr<Fiber>> kept[2];
  auto& fibers = kept[second ? 1 : 0];
  while (fibers.size() < threads_.size()) fibers.push_back(std::make_unique<Fiber>());
  for (std::size_t i = 0; i < threads_.size(); ++i) fibers_[i] = fibers[i].get();
}

void Grid::run_block() {
  // With ThreadSanitizer the memory stays until the end: freeing it is an access that nothing orders.
  if (!is_thread_sanitized()) shared_.clear();
  shared_.emplace_back(std::malloc(std::max<std::size_t>(launch_.shared_bytes, 1)));
  std::memset(shared_.back().get(), 0xff, launch_.shared_bytes);
  operations_.clear();
  operations_.resize((threads_.size() + warp_size - 1) / warp_size);
  for (auto& open : operations_) open.reserve(warp_size);  // no lane is in two: they never grow in a fiber
  at_barrier_ = ended_ = 0;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].state = Thread::State::ready;
    threads_[i].copies.clear();
    fibers_[i]->begin(&run_thread);
  }
  release(&begin_);
  while (ended_ < threads_.size()) {
    bool any = false;
    for (const unsigned thread : in_order(threads_.size())) {
      if (threads_[thread].state != Thread::State::ready) continue;
      any = true;
      current_ = thread;
      fibers_[thread]->resume();
      if (fault_) {
        acquire(&end_);
        throw KernelFault(*fault_);
      }
    }
    if (!any) throw KernelFault("block " + to_string(block_) + ": all threads wait" + who_waits());
  }
}

// The first thread that waits at each line, for the message.
std::string Grid::who_waits() const {
  std::string said;
  std::vector<std::string> lines;
  for (const Thread& thread : threads_) {
    if (thread.state == Thread::State::ended) continue;
    const std::string line = line_of(thread.where);
    if (std::ranges::find(lines, line) != lines.end()) continue;
    lines.push_back(line);
    said += "; " + to_string(thread.index) + " at " + line;
  }
  return said;
}

void Grid::barrier(const Where& where) {
  if (ended_ > 0) fail("waits at a barrier, and a thread of its block has left the kernel", where);
  if (at_barrier_ == 0) barrier_ = where;
  if (!same_line(barrier_, where))
    fail("waits at a barrier, and a thread of its block at another: " + line_of(barrier_), where);
  char* const object = &barriers_[round_ ? 1 : 0];
  release(object);
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    round_ = !round_;
    for (Thread& other : threads_) other.state = Thread::State::ready;
  } else {
    wait(Thread::State::at_barrier, where);
  }
  acquire(object);
}

WarpOperation& Grid::join_operation(unsigned mask, const Where& where) {
  const unsigned bit = 1u << lane();
  auto& open = operations_[current_ / warp_size];
  if ((mask & bit) == 0) fail("is not in the mask of its own warp operation", where);
  for (const auto& operation : open) {
    if (operation->arrived == operation->mask || (operation->mask & mask) == 0) continue;
    if (operation->mask != mask || !same_line(operation->where, where))
      fail("is in a warp operation, and a lane of its mask in another: " + line_of(operation->where), where);
    acquire(operation.get());  // of the lane that has made it
    return *operation;
  }
  const unsigned first = current_ / warp_size * warp_size;
  for (unsigned other = 0; other < warp_size; ++other) {
    if ((mask >> other & 1) == 0) continue;
    if (first + other >= threads_.size() || threads_[first + other].state == Thread::State::ended)
      fail("waits in a warp operation for lane " + std::to_string(other) + ", which is not there", where);
  }
  open.push_back(std::make_unique<WarpOperation>());
  open.back()->mask = mask;
  open.back()->where = where;
  return *open.back();
}

// Waits for the lanes of the mask, each of which has put down what it brings.
void Grid::meet(WarpOperation& operation, const Where& where) {
  const unsigned first = current_ / warp_size * warp_size;
  operation.arrived |= 1u << lane();
  release(&operation);
  if (operation.arrived == operation.mask) {
    for (unsigned other = 0; other < warp_size; ++other) {
      if (operation.mask >> other & 1) threads_[first + other].state = Thread::State::ready;
    }
  } else {
    wait(Thread::State::in_warp_operation, where);
  }
  acquire(&operation);
}

// The last lane frees what all have read. Between meet() and here there is nothing of the kernel that this
// could order.
void Grid::leave(WarpOperation& operation) {
  operation.left |= 1u << lane();
  release(&operation);
  if (operation.left != operation.mask) return;
  acquire(&operation);
  std::erase_if(operations_[current_ / warp_size],
                [&](const auto& entry) { return entry.get() == &operation; });
}

Lanes Grid::exchange(unsigned mask, std::uint64_t value, const Where& where) {
  WarpOperation& operation = join_operation(mask, where);
  operation.lanes.values[lane()] = value;
  meet(operation, where);
  const Lanes lanes = operation.lanes;
  leave(operation);
  return lanes;
}

WarpNumbers Grid::exchange_numbers(unsigned count, const std::uint32_t* numbers, const Where& where) {
  WarpOperation& operation = join_operation(0xffffffff, where);
  std::memcpy(operation.numbers.values + lane() * count, numbers, count * sizeof *numbers);
  meet(operation, where);
  const WarpNumbers all = operation.numbers;
  leave(operation);
  return all;
}

}  // namespace

void use_order(Order order, std::uint64_t seed) {
  order_in_use = order;
  random_order.seed(seed);
}

void run_grid(const Launch& launch, const std::function<void()>& kernel) {
  if (launch.shared_bytes > most_shared_bytes)
    throw KernelFault("a block wants " + std::to_string(launch.shared_bytes) +
                      " bytes of shared memory, and some devices have " + std::to_string(most_shared_bytes));
  if (const unsigned across = std::max(launch.blocks.y, launch.blocks.z); across > most_blocks_across)
    throw KernelFault("a grid has " + std::to_string(across) + " blocks along y or z, and devices take " +
                      std::to_string(most_blocks_across));
  Grid(launch, kernel).run();
}

Index thread_index() { return Grid::running().thread().index; }
Index block_index() { return Grid::running().block(); }
Extent block_extent() { return Grid::running().launch().threads; }
Extent grid_extent() { return Grid::running().launch().blocks; }
void* shared_memory() { return Grid::running().shared(); }
void barrier(const Where& where) { Grid::running().barrier(where); }
Lanes exchange(unsigned mask, std::uint64_t value, const Where& where) {
  return Grid::running().exchange(mask, value, where);
}
WarpNumbers exchange_numbers(unsigned count, const std::uint32_t* numbers, const Where& where) {
  return Grid::running().exchange_numbers(count, numbers, where);
}
unsigned lane() { return Grid::running().lane(); }

void begin_copy(const Copy& copy, const Where& where) {
  Copies& copies = Grid::running().thread().copies;
  if (copies.last - copies.first == Copies::most) fail("begins a copy, and too many are under way", where);
  copies.begun[copies.last % Copies::most] = copy;
  copies.group_of[copies.last++ % Copies::most] = copies.groups;
}
void end_group_of_copies() { ++Grid::running().thread().copies.groups; }
bool await_copies(unsigned open, Copy& copy) {
  Copies& copies = Grid::running().thread().copies;
  if (copies.first == copies.last || copies.group_of[copies.first % Copies::most] + open >= copies.groups)
    return false;
  copy = copies.begun[copies.first++ % Copies::most];
  return true;
}

void fail(const char* what, const Where& where) { Grid::running().fail(what, where); }

}  // namespace mlk::emulator
