// What the address sanitizer does in all programs of the presets asan and dev, unless ASAN_OPTIONS says
// otherwise.

// Undefined behaviour is a trap (cmake/options.cmake): it is told with its stack. Ten frames of where memory
// came from are enough to find the place, and cheaper than thirty.
extern "C" const char*
__asan_default_options();  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "handle_sigill=1:malloc_context_size=10";
}
