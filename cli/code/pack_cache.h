// What a folder of code was packed into the last time, so that files that have not changed are not read
// again: a stat cache, as git has one. If the record is missing or unreadable, everything is read.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/code/tree.h"

namespace mlk::image {

struct PackedCode {
  std::string digest;   // sha256 of the archive before it is compressed, hexadecimal
  std::string archive;  // empty if it has more bytes than it may have
};

struct ArchiveBounds {
  std::size_t archive, content;  // bytes of an archive; of the files that are tried to make one of
};

class KeptCode {
 public:
  // `cache`: the folder of all records; empty: nothing is kept. A record is that of one folder, one set
  // of rules and the same bounds.
  KeptCode(std::filesystem::path cache, const std::filesystem::path& folder, const TreeRules& rules,
           const ArchiveBounds& bounds);

  // What was kept for a tree with the same paths, sizes, times and inodes; it counts as used now. nullopt too
  // if the record is of another version or user, or was damaged. Never throws an Error.
  std::optional<PackedCode> find(const Tree& tree) const;

  // `listed`: when the listing of the tree began. Keeps nothing if a file is so young that it may change once
  // more within the same tick of the file system's clock, and nothing if it cannot be written. Records over
  // `most_records` go, those first that have not been used for longest.
  void keep(const Tree& tree, const PackedCode& packed, std::chrono::system_clock::time_point listed) const;

  static constexpr std::size_t most_records = 64;

 private:
  std::string head_of(const Tree& tree) const;

  const std::filesystem::path cache_;
  const std::size_t most_bytes_;  // of an archive
  std::filesystem::path record_;  // empty if nothing is kept
};

}  // namespace mlk::image
