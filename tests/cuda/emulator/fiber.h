// Functions that run on stacks of their own, and that can be suspended and resumed. For x86-64.
#pragma once

#include <cstddef>

namespace mlk::emulator {

// Runs one function after the other. To ThreadSanitizer all functions of a fiber are one thread of its own,
// which takes most of the time. With MLK_EMULATED_RACES=0 in the environment the functions belong to the
// thread that runs the fiber. If a fiber is destroyed while its function is suspended, the objects on its
// stack are not destroyed.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls `body`, which must not return: it ends with leave().
  void begin(void (*body)());
  // Call this before begin() if the last `body` has not ended. It removes the marks of AddressSanitizer that
  // this `body` has left on the stack.
  void abandon();
  // Runs the fiber, and the fibers that follow by leave_for(), until one of them calls leave(). Call this
  // outside of fibers, and from one thread at a time.
  void resume();
  // Returns to the caller of resume(). Only the fiber itself calls this.
  void leave();
  // Continues with another fiber. Only the fiber itself calls this. It needs half as many switches as leave()
  // and resume() together.
  void leave_for(Fiber& next);

 private:
  std::size_t number_;
  void* stack_;
  void* stack_pointer_ = nullptr;
  void* tsan_ = nullptr;  // the fiber as ThreadSanitizer knows it
};

// For ThreadSanitizer; without it release() and acquire() do nothing. Accesses before release(object) happen
// before the accesses after acquire(object).
bool is_thread_sanitized();
void release(const void* object);
void acquire(const void* object);

}  // namespace mlk::emulator
