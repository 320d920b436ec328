// What `mlk submit` does with a folder of code before it asks anyone: the digest, and the archive if it is
// small enough to travel without an image. For `make bench`: bench_code FOLDER [CACHE] prints the digest.
#include <cstdio>

#include "cli/image/code.h"

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  constexpr std::size_t most_bytes = 900 << 10;
  const mlk::image::Code code = mlk::image::pack_code(argv[1], {},
                                                      {.most_bytes = most_bytes,
                                                       .too_large = mlk::image::TooLarge::has_no_archive,
                                                       .cache = argc > 2 ? argv[2] : ""});
  std::printf("%s %zu files, %zu bytes of archive\n", code.digest.c_str(), code.files.size(),
              code.archive.size());
}
