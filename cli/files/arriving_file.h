// Writes a file that comes in parts, so that it is either complete or not there under its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "cli/files/file_source.h"
#include "cli/util/hash.h"

namespace mlk {

// For one thread. The bytes are in a file beside the final one, whose name depends on the name, the size and
// the time of the file. So a later attempt finds the bytes that have come, unless the file has changed.
class ArrivingFile {
 public:
  // `place`: the final path; its folder exists. All functions throw Error{failure} with the path if the disk
  // refuses something.
  ArrivingFile(std::filesystem::path place, const FileEntry& entry);
  ~ArrivingFile();
  ArrivingFile(const ArrivingFile&) = delete;
  ArrivingFile& operator=(const ArrivingFile&) = delete;

  std::uint64_t offset() const { return offset_; }  // the bytes that are there
  void add(std::string_view bytes);
  // Checks the digest of the whole file, and gives the file its name, permissions and time. If the digest
  // differs, removes the bytes and throws Error{failure}.
  void finish(const std::string& sha256, std::int64_t mtime_ns);
  // Removes the bytes, because they are of another state of the file.
  void discard();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  const std::filesystem::path place_, part_;
  const unsigned mode_;
  std::uint64_t offset_ = 0;
  Sha256 hash_;
  int file_ = -1;
};

// The path of the part of a file with this size and time.
std::filesystem::path part_of(const std::filesystem::path& place, const FileEntry& entry);

}  // namespace mlk
