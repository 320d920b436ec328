// This file is compiled without sanitizers, because its own memory does not belong to the kernel.
#include "tests/cuda/emulator/grid.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bfloat16.h"
#include "tests/cuda/emulator/fiber.h"

namespace mlk::emulator {
namespace {

// The copies that a thread has begun, in a ring, because a fiber must not allocate memory that another frees.
struct Copies {
  static constexpr unsigned most = 128;
  Copy begun[most];
  unsigned group_of[most] = {};
  unsigned first = 0, last = 0;  // of the copies in progress; both only increase
  unsigned groups = 0;           // ended so far

  void clear() { first = last = groups = 0; }
};

enum class State { ready, at_barrier, in_warp_operation, ended };

// The fiber and the copies of a thread. It takes long to make a fiber, above all with ThreadSanitizer, so
// runners are used again.
struct Runner {
  Fiber fiber;
  Copies copies;
};

struct Thread {
  Index index;
  Where where;  // the line at which the thread waits
};

constexpr unsigned whole_warp = 0xffffffff;

// The matrices of an operation of the tensor cores: sums += left * right.
struct Matrices {
  float left[16][16], right[16][8], sums[16][8];
};

// One warp operation, from its first lane to its last. The object then serves the next operation of these
// lanes.
struct WarpOperation {
  unsigned mask = 0, arrived = 0, left = 0;
  Where where;
  Lanes lanes = {};
  Matrices matrices;
};

bool same_line(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
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

template <typename Triple>
unsigned along(const Triple& triple, Axis axis) {
  return axis == Axis::x ? triple.x : axis == Axis::y ? triple.y : triple.z;
}

Index index_in(const Extent& extent, unsigned number) {
  return {number % extent.x, number / extent.x % extent.y, number / (extent.x * extent.y)};
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using SharedMemory = std::unique_ptr<void, FreeMemory>;

// The running grid, and its running block.
class Grid {
 public:
  Grid(const Launch& launch, const std::function<void()>& kernel)
      : launch_(launch),
        kernel_(kernel),
        threads_(launch.threads.count()),
        states_(threads_.size()),
        order_(in_order(threads_.size())),
        runners_(threads_.size()),
        operations_((threads_.size() + warp_size - 1) / warp_size) {
    for (unsigned i = 0; i < threads_.size(); ++i) threads_[i].index = index_in(launch.threads, i);
  }
  ~Grid() {
    if (ended_ < threads_.size()) abandon();
    running_ = nullptr;
  }

  void run() {
    running_ = this;
    bool second = false;
    for (const unsigned block : in_order(launch_.blocks.count())) {
      block_ = index_in(launch_.blocks, block);
      take_runners(second);
      second = !second;
      run_block();
    }
    acquire(&end_);
  }

  static Grid& running() { return *running_; }
  Thread& thread() { return threads_[current_]; }
  Copies& copies() { return runners_[current_]->copies; }
  const Index& block() const { return block_; }
  const Launch& launch() const { return launch_; }
  void* shared() const { return shared_.back().get(); }
  unsigned lane() const { return current_ % warp_size; }

  void barrier(const Where& where);
  // `bring` stores the values of a lane. `complete`, called by the last lane, computes the result from all
  // values. `take` reads the result.
  template <typename Bring, typename Complete, typename Take>
  auto exchange(unsigned mask, const Where& where, const Bring& bring, const Complete& complete,
                const Take& take) {
    WarpOperation& operation = join_operation(mask, where);
    bring(operation);
    operation.arrived |= 1u << lane();
    if (operation.arrived == mask) complete(operation);
    meet(operation, where);
    const auto taken = take(operation);
    leave(operation);
    return taken;
  }
  [[noreturn]] void fail(const std::string& what, const Where& where) {
    fault_ = line_of(where) + ": block " + to_string(block_) + ", thread " + to_string(thread().index) +
             ": " + what;
    release(&end_);
    runners_[current_]->fiber.leave();
    std::abort();  // not reached: this fiber is not resumed
  }

 private:
  void take_runners(bool second);
  void run_block();
  static void run_thread();
  void wait(State state, const Where& where) {
    states_[current_] = state;
    thread().where = where;
    go_on_with_next();
  }
  unsigned next_ready();
  void go_on_with_next();
  std::string who_waits() const;
  WarpOperation& join_operation(unsigned mask, const Where& where);
  void meet(WarpOperation& operation, const Where& where);
  void leave(WarpOperation& operation);
  void abandon() {  // after a fault
    for (Runner* const runner : runners_) runner->fiber.abandon();
    forget_operations();
  }
  void forget_operations() {
    for (auto& of_warp : operations_) {
      for (const WarpOperation& operation : of_warp) acquire(&operation);  // from the lane that has made it
      of_warp.clear();
    }
  }

  inline static Grid* running_ = nullptr;

  const Launch launch_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::vector<State> states_;    // of the threads
  std::vector<unsigned> order_;  // of the threads, in each round
  // The range of order_ whose threads run until all of them wait. It has as many threads as a warp, since
  // their stacks fit into the processor's nearest cache. In a seeded order each thread runs once in a round,
  // for more different orders.
  std::size_t first_ = 0, behind_ = 0;
  std::size_t next_ = 0;      // the place in order_ at which next_ready() continues
  bool any_of_them_ = false;  // whether a thread of the range has run
  std::vector<Runner*> runners_;
  std::vector<SharedMemory> shared_;  // the last belongs to the running block
  Index block_;
  unsigned current_ = 0;
  std::size_t at_barrier_ = 0;
  std::size_t ended_ = threads_.size();  // before the first block no thread runs
  Where barrier_;                        // the line of the threads that wait
  bool round_ = false;  // which of the two barrier objects: a thread is at most one barrier ahead
  std::vector<std::list<WarpOperation>> operations_;  // by warp
  std::optional<std::string> fault_;
  char begin_ = 0, end_ = 0, barriers_[2] = {};  // objects of release() and acquire()
};

void Grid::run_thread() {
  Grid& grid = running();
  acquire(&grid.begin_);
  grid.kernel_();
  grid.states_[grid.current_] = State::ended;
  // The next block gets new operations: to ThreadSanitizer the same operations would order the two blocks.
  if (++grid.ended_ == grid.threads_.size() && is_thread_sanitized()) grid.forget_operations();
  release(&grid.end_);
  grid.go_on_with_next();
}

// Two consecutive blocks have different runners: to ThreadSanitizer the accesses of one fiber are ordered, so
// that two blocks on the same fibers would have no races.
void Grid::take_runners(bool second) {
  static std::vector<std::unique_ptr<Runner>> kept[2];
  auto& runners = kept[second ? 1 : 0];
  while (runners.size() < threads_.size()) runners.push_back(std::make_unique<Runner>());
  for (std::size_t i = 0; i < threads_.size(); ++i) runners_[i] = runners[i].get();
}

void Grid::run_block() {
  // With ThreadSanitizer the memory stays until the end, because freeing it would be an unordered access.
  if (!is_thread_sanitized()) shared_.clear();
  shared_.emplace_back(std::malloc(std::max<std::size_t>(launch_.shared_bytes, 1)));
  std::memset(shared_.back().get(), 0xff, launch_.shared_bytes);
  at_barrier_ = ended_ = 0;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    runners_[i]->copies.clear();
    runners_[i]->fiber.begin(&run_thread);
  }
  std::ranges::fill(states_, State::ready);
  release(&begin_);
  while (ended_ < threads_.size()) {
    if (order_in_use == Order::seeded) std::ranges::shuffle(order_, random_order);
    first_ = behind_ = next_ = 0;
    current_ = next_ready();
    if (current_ == threads_.size())
      throw KernelFault("block " + to_string(block_) + ": all threads wait" + who_waits());
    runners_[current_]->fiber.resume();
    if (fault_) {
      acquire(&end_);
      throw KernelFault(*fault_);
    }
  }
}

// Returns the number of threads at the end of a round.
unsigned Grid::next_ready() {
  while (true) {
    for (; next_ < behind_; ++next_) {
      if (states_[order_[next_]] != State::ready) continue;
      any_of_them_ = true;
      return order_[next_++];
    }
    if (!std::exchange(any_of_them_, false) || order_in_use == Order::seeded) {
      first_ = behind_;
      behind_ = std::min(first_ + warp_size, order_.size());
    }
    next_ = first_;
    if (first_ == order_.size()) return static_cast<unsigned>(first_);
  }
}

void Grid::go_on_with_next() {
  const unsigned from = current_, next = next_ready();  // not this thread, which is not ready
  if (next == threads_.size()) return runners_[from]->fiber.leave();
  current_ = next;
  runners_[from]->fiber.leave_for(runners_[next]->fiber);
}

// The first thread that waits at each line, for the message.
std::string Grid::who_waits() const {
  std::string said;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (states_[i] == State::ended) continue;
    const Thread& thread = threads_[i];
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
    std::ranges::fill(states_, State::ready);
  } else {
    wait(State::at_barrier, where);
  }
  acquire(object);
}

WarpOperation& Grid::join_operation(unsigned mask, const Where& where) {
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0) fail("is not in the mask of its own warp operation", where);
  WarpOperation* own = nullptr;  // the operation of these lanes, if no lane is in it
  for (WarpOperation& operation : operations_[current_ / warp_size]) {
    if (operation.arrived == 0 && operation.mask == mask) own = &operation;
    const bool is_open = operation.arrived != 0 && operation.arrived != operation.mask;
    if (!is_open || (operation.mask & mask) == 0) continue;
    if (operation.mask != mask || !same_line(operation.where, where))
      fail("is in a warp operation, and a lane of its mask in another: " + line_of(operation.where), where);
    return operation;
  }
  const unsigned first = current_ / warp_size * warp_size;
  for (unsigned other = 0; other < warp_size; ++other) {
    if ((mask >> other & 1) == 0) continue;
    if (first + other >= threads_.size() || states_[first + other] == State::ended)
      fail("waits in a warp operation for lane " + std::to_string(other) + ", which is not there", where);
  }
  if (!own) {
    own = &operations_[current_ / warp_size].emplace_back();
    own->mask = mask;
  }
  own->where = where;
  return *own;
}

// Waits until all lanes of the mask have arrived and stored their values.
void Grid::meet(WarpOperation& operation, const Where& where) {
  const unsigned first = current_ / warp_size * warp_size;
  release(&operation);
  if (operation.arrived == operation.mask) {
    for (unsigned other = 0; other < warp_size; ++other) {
      if (operation.mask >> other & 1) states_[first + other] = State::ready;
    }
  } else {
    wait(State::in_warp_operation, where);
  }
  acquire(&operation);
}

// The next operation of these lanes begins only when all of them have read the result.
void Grid::leave(WarpOperation& operation) {
  operation.left |= 1u << lane();
  if (operation.left == operation.mask) operation.arrived = operation.left = 0;
}

// The two numbers of a pair: the lower half is the first number.
std::array<float, 2> numbers_of(std::uint32_t pair) {
  return {kernels::BFloat16{static_cast<std::uint16_t>(pair)}.value(),
          kernels::BFloat16{static_cast<std::uint16_t>(pair >> 16)}.value()};
}

void multiply_add(Matrices& matrices) {
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned column = 0; column < 8; ++column)
        matrices.sums[row][column] += matrices.left[row][k] * matrices.right[k][column];
    }
  }
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

unsigned thread_number(Axis axis) { return along(Grid::running().thread().index, axis); }
unsigned block_number(Axis axis) { return along(Grid::running().block(), axis); }
unsigned threads_along(Axis axis) { return along(Grid::running().launch().threads, axis); }
unsigned blocks_along(Axis axis) { return along(Grid::running().launch().blocks, axis); }
void* shared_memory() { return Grid::running().shared(); }
unsigned lane() { return Grid::running().lane(); }

void barrier(const Where& where) { Grid::running().barrier(where); }

constexpr auto nothing = [](WarpOperation&) {};

std::uint64_t value_of_lane(unsigned mask, std::uint64_t value, unsigned source, const Where& where) {
  return Grid::running().exchange(
      mask, where, [&](WarpOperation& operation) { operation.lanes.values[lane()] = value; }, nothing,
      [&](const WarpOperation& operation) { return operation.lanes.values[source]; });
}

Lanes values_of_lanes(unsigned mask, std::uint64_t value, const Where& where) {
  return Grid::running().exchange(
      mask, where, [&](WarpOperation& operation) { operation.lanes.values[lane()] = value; }, nothing,
      [](const WarpOperation& operation) { return operation.lanes; });
}

void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  const Where& where) {
  // A lane has parts of two rows of `left` and of `sums`, and parts of one column of `right`.
  const unsigned line = lane() / 4, along = lane() % 4 * 2;
  const auto bring = [&](WarpOperation& operation) {
    Matrices& all = operation.matrices;
    for (unsigned second = 0; second < 2; ++second) {
      for (unsigned i = 0; i < 4; ++i)
        all.left[line + i % 2 * 8][along + i / 2 * 8 + second] = numbers_of(a[i])[second];
      for (unsigned i = 0; i < 2; ++i) all.right[along + i * 8 + second][line] = numbers_of(b[i])[second];
    }
    for (unsigned i = 0; i < 4; ++i) all.sums[line + i / 2 * 8][along + i % 2] = d[i];
  };
  const auto sums = Grid::running().exchange(
      whole_warp, where, bring, [](WarpOperation& operation) { multiply_add(operation.matrices); },
      [&](const WarpOperation& operation) {
        std::array<float, 4> own;
        for (unsigned i = 0; i < 4; ++i) own[i] = operation.matrices.sums[line + i / 2 * 8][along + i % 2];
        return own;
      });
  for (unsigned i = 0; i < 4; ++i) d[i] = sums[i];
}

void begin_copy(const Copy& copy, const Where& where) {
  Copies& copies = Grid::running().copies();
  if (copies.last - copies.first == Copies::most) fail("begins a copy, and too many are under way", where);
  copies.begun[copies.last % Copies::most] = copy;
  copies.group_of[copies.last++ % Copies::most] = copies.groups;
}
void end_group_of_copies() { ++Grid::running().copies().groups; }
bool await_copies(unsigned open, Copy& copy) {
  Copies& copies = Grid::running().copies();
  if (copies.first == copies.last || copies.group_of[copies.first % Copies::most] + open >= copies.groups)
    return false;
  copy = copies.begun[copies.first++ % Copies::most];
  return true;
}

void fail(const char* what, const Where& where) { Grid::running().fail(what, where); }

}  // namespace mlk::emulator
