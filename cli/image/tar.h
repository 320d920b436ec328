// Writes tar archives in GNU's format. The same entries give the same bytes everywhere: that is why it is not
// a library's. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk::image {

struct TarEntry {
  enum class Kind { file, folder, link };

  std::string path;  // relative, without "..", with '/' between its parts; of any length
  Kind kind = Kind::file;
  bool executable = false;
  std::string target{};  // of a link
};

// Appends an entry: owner and group are 0, the time is the first second of 1980, which zip archives can hold
// too. `content`: of a file.
void append_to_tar(std::string& tar, const TarEntry& entry, std::string_view content);

// Appends the end of the archive.
void end_tar(std::string& tar);

}  // namespace mlk::image
