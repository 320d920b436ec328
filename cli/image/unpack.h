// Writes the entries of an archive into a folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace mlk::image {

// The folder must exist and must not contain a file of the archive. Throws Error{failure} for an archive that
// read_tar() refuses, and for a file that cannot be written or already exists. `before_each` is called at
// least once for each entry; its exceptions pass through.
void unpack(std::string_view tar, const std::filesystem::path& folder,
            const std::function<void()>& before_each = {});

// Writes a file that does not exist yet, and makes the folders above it. Throws Error{failure}.
void write_new_file(const std::filesystem::path& path, std::string_view content, bool executable = false);

}  // namespace mlk::image
