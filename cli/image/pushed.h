// Remembers the images that this machine has just pushed. Such an image looks unused until a run names it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace mlk::image {

// Remembers the image for an hour, and forgets images that were pushed more than an hour ago. `cache`: a
// folder of mlk's own. Never throws an Error.
void note_pushed(const std::filesystem::path& cache, const std::string& digest);

bool is_just_pushed(const std::filesystem::path& cache, const std::string& digest);

inline constexpr std::chrono::hours just_now{1};

}  // namespace mlk::image
