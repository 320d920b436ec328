// The time of the last change of a file.
#pragma once

#include <cstdint>
#include <sys/stat.h>

namespace mlk {

// In nanoseconds since 1970.
inline std::int64_t mtime_ns_of(const struct stat& info) {
#ifdef __APPLE__
  const timespec& time = info.st_mtimespec;
#else
  const timespec& time = info.st_mtim;
#endif
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace mlk
