// What `mlk submit` does with a folder of code before it asks anyone: its digest, and its archive if that is
// small enough to travel without an image. For `make bench`: bench_code FOLDER CACHE prints the milliseconds
// of one call.
#include <chrono>
#include <cstdio>

#include "cli/code/code.h"

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  constexpr std::size_t most_bytes = 900 << 10;
  const auto start = std::chrono::steady_clock::now();
  const mlk::image::Code code = mlk::image::pack_code(
      argv[1], {},
      {.most_bytes = most_bytes, .too_large = mlk::image::TooLarge::has_no_archive, .cache = argv[2]});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%g\n", took.count());
  return code.digest.empty() ? 1 : 0;
}
