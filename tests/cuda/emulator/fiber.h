// Functions that run on stacks of their own, and that can be left in the middle and entered again. x86-64.
#pragma once

#include <cstddef>

namespace mlk::emulator {

// Runs one function after the other. To ThreadSanitizer all of them are one thread, which takes most of the
// time: with MLK_EMULATED_RACES=0 in the environment they belong to the thread that runs the fiber. A fiber
// that is destroyed while its function is under way leaves that where it is: nothing on its stack is
// destroyed.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls `body`, which must not return: it ends with leave().
  void begin(void (*body)());
  // To be called before begin() if `body` was left in the middle: it has left the marks of AddressSanitizer
  // on the stack.
  void abandon();
  // Runs the fiber, and those that it is left for, until one leaves. Called outside of fibers, by one thread
  // at a time.
  void resume();
  // Back to where resume() was called. Called by the fiber itself.
  void leave();
  // Goes on with another fiber. Called by the fiber itself. Half as many switches as over leave() and
  // resume().
  void leave_for(Fiber& next);

 private:
  std::size_t number_;
  void* stack_;
  void* stack_pointer_ = nullptr;
  void* tsan_ = nullptr;  // what ThreadSanitizer takes the fiber for
};

// ThreadSanitizer's view, nothing where it is not linked: what happened before release(object) happens before
// what follows acquire(object).
bool is_thread_sanitized();
void release(const void* object);
void acquire(const void* object);

}  // namespace mlk::emulator
