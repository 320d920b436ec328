// This file is compiled without sanitizers, because it changes the stack under them.
#include "tests/cuda/emulator/fiber.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

extern "C" {
// Functions of ThreadSanitizer; null if it is not linked.
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);

// A function of AddressSanitizer; null if it is not linked.
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);

// Saves the registers that a callee must preserve, and the stack pointer in *from. Then restores those of
// `to`.
void mlk_switch_stack(void** from, void* to);
}

asm(R"(
.text
.globl mlk_switch_stack
.type mlk_switch_stack,@function
mlk_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mlk_switch_stack,.-mlk_switch_stack
)");

namespace mlk::emulator {
namespace {

constexpr std::size_t stack_bytes = 64 * 1024;
// Tops of stacks at the same offset in their pages would evict each other from the processor's caches.
constexpr std::size_t places_of_tops = 32, between_tops = 128;
constexpr int saved_registers = 6;
std::size_t made = 0;                       // the number of fibers
void* outside = nullptr;                    // the stack pointer of the caller of resume()
void* tsan_outside = nullptr;               // the caller of resume() as a fiber of ThreadSanitizer
constexpr unsigned no_synchronisation = 1;  // a switch alone does not order accesses

bool are_races_looked_for() {
  const char* const text = std::getenv("MLK_EMULATED_RACES");
  return is_thread_sanitized() && (text == nullptr || std::strcmp(text, "0") != 0);
}

}  // namespace

bool is_thread_sanitized() { return __tsan_create_fiber != nullptr; }
void release(const void* object) {
  if (__tsan_release) __tsan_release(const_cast<void*>(object));
}
void acquire(const void* object) {
  if (__tsan_acquire) __tsan_acquire(const_cast<void*>(object));
}

Fiber::Fiber()
    : number_(made++),
      stack_(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  static const bool look_for_races = are_races_looked_for();
  if (look_for_races) tsan_ = __tsan_create_fiber(0);
}

void Fiber::abandon() {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(stack_, stack_bytes);
}

Fiber::~Fiber() {
  if (tsan_) __tsan_destroy_fiber(tsan_);
  munmap(stack_, stack_bytes);
}

void Fiber::begin(void (*body)()) {
  auto* top = static_cast<std::uintptr_t*>(stack_) +
              (stack_bytes - number_ % places_of_tops * between_tops) / sizeof(std::uintptr_t) - 8;
  *--top = 0;  // in the place of a return address of `body`, so that the stack is aligned as for any call
  *--top = reinterpret_cast<std::uintptr_t>(body);
  for (int i = 0; i < saved_registers; ++i) *--top = 0;
  stack_pointer_ = top;
}

void Fiber::resume() {
  if (tsan_) {
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, no_synchronisation);
  }
  mlk_switch_stack(&outside, stack_pointer_);
}

void Fiber::leave() {
  if (tsan_) __tsan_switch_to_fiber(tsan_outside, no_synchronisation);
  mlk_switch_stack(&stack_pointer_, outside);
}

void Fiber::leave_for(Fiber& next) {
  if (tsan_) __tsan_switch_to_fiber(next.tsan_, no_synchronisation);
  mlk_switch_stack(&stack_pointer_, next.stack_pointer_);
}

}  // namespace mlk::emulator
