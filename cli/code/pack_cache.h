// Stores the last packed result of a folder of code, so that mlk does not read unchanged files again. This is
// a stat cache like git's. If the record is missing or unreadable, mlk reads all files.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/code/tree.h"

namespace mlk::image {

struct PackedCode {
  std::string digest;   // sha256 of the uncompressed archive, hexadecimal
  std::string archive;  // empty if the archive or the files are too large
};

struct ArchiveBounds {
  std::size_t archive, content;  // most bytes of an archive, and of the files in an archive
};

class KeptCode {
 public:
  // `cache`: the folder of all records; empty: no records. Each record belongs to one folder, one set of
  // rules and one set of bounds.
  KeptCode(std::filesystem::path cache, const std::filesystem::path& folder, const TreeRules& rules,
           const ArchiveBounds& bounds);

  // Finds the record of a tree that has the same entries, with the same values in all fields, and marks the
  // record as used. nullopt if there is no such record, or if it is damaged, has another version, or could
  // have been written by another user. Throws no Error.
  std::optional<PackedCode> find(const Tree& tree) const;

  // `listed`: when the listing of the tree began. Stores no record if a file is so young that it may change
  // again within the same tick of the file system's clock, or if the record cannot be written. If there are
  // then more than `most_records` records, removes the least recently used ones.
  void store(const Tree& tree, const PackedCode& packed, std::chrono::system_clock::time_point listed) const;

  static constexpr std::size_t most_records = 64;

 private:
  std::string head_of(const Tree& tree) const;

  const std::filesystem::path cache_;
  const std::size_t most_bytes_;  // of an archive
  std::filesystem::path record_;  // empty: no records
};

}  // namespace mlk::image
