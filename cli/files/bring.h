// Brings files of a source to a folder of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/files/pull_plan.h"

namespace mlk {

struct Brought {
  std::size_t files = 0, there_already = 0;
  std::uint64_t bytes = 0;            // that came now
  std::vector<std::string> problems;  // what did not come, and why; for people
};

// Writes the entries below `destination`, which exists. A file that is there with the same size and time is
// not read again, and one that was cut off is continued. Nothing is written outside of the destination: a
// link on the way is a problem. `progress` is called for each part of a file. Throws Error{failure} if the
// disk refuses a file, and what the source and `progress` throw.
Brought bring(FileSource& source, const std::vector<ShownEntry>& entries,
              const std::filesystem::path& destination, const std::function<void(const Brought&)>& progress);

}  // namespace mlk
