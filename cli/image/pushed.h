// Which images this machine has sent a moment ago. A run names its image only after it was sent.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace mlk::image {

// Remembers it for an hour, and forgets older ones. `cache`: a folder of mlk's. Never throws an Error.
void note_pushed(const std::filesystem::path& cache, const std::string& digest);

bool is_just_pushed(const std::filesystem::path& cache, const std::string& digest);

inline constexpr std::chrono::hours just_now{1};

}  // namespace mlk::image
