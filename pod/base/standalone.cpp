// The helpers can be linked statically with musl and without the C++ library. Then this file replaces the
// parts of the C++ library that they need. Such a program catches no exceptions, so an exception ends the
// process.
#ifdef MLK_POD_STANDALONE

#include <cstdlib>
#include <new>

#include "pod/base/output.h"

namespace {

[[noreturn]] void fail() { mlk::pod::give_up(126, "out of memory, or a defect of this helper"); }

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) fail();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace std {

void __throw_length_error(const char*) { fail(); }
void __throw_logic_error(const char*) { fail(); }
void __throw_out_of_range_fmt(const char*, ...) { fail(); }
void __throw_bad_alloc() { fail(); }
void __throw_bad_array_new_length() { fail(); }

}  // namespace std

#endif
