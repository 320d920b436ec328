// The rooms of cmake/rooms.txt, and the sources in them.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

namespace mlk::test {

struct Room {
  std::set<std::string> may_include;  // folders; a room may also include its own folder
  std::string what;
};

// The lines of cmake/rooms.txt by folder. The line of a room must come after the lines of the rooms that the
// room may include.
inline const std::map<std::string, Room>& rooms() {
  static const std::map<std::string, Room> all = [] {
    std::map<std::string, Room> read;
    std::ifstream in(std::filesystem::path(source_dir()) / "cmake/rooms.txt");
    const std::regex form("^([a-z][^ |]*) *\\|([^|]*)\\| *(.+)$");
    for (std::string line; std::getline(in, line);) {
      std::smatch parts;
      if (line.empty() || line[0] == '#') continue;
      REQUIRE_MESSAGE(std::regex_match(line, parts, form), line);
      Room room{{}, parts[3]};
      std::istringstream folders(parts[2]);
      for (std::string folder; folders >> folder;) {
        CHECK_MESSAGE(read.count(folder) == 1, parts[1].str(), " may not include ", folder,
                      ", which does not stand above it");
        room.may_include.insert(folder);
      }
      read[parts[1]] = std::move(room);
    }
    return read;
  }();
  return all;
}

// The folders in which all rooms lie: cli, kernels, mpi, runtime, sweeps.
inline std::vector<std::string> roots_of_rooms() {
  std::set<std::string> roots;
  for (const auto& [folder, room] : rooms()) roots.insert(folder.substr(0, folder.find('/')));
  return {roots.begin(), roots.end()};
}

// The roots of all rooms, and the simulator, which developers read and change like the product.
inline std::vector<std::string> roots_of_long_lived_code() {
  std::vector<std::string> roots = roots_of_rooms();
  roots.emplace_back("tests/sim");
  return roots;
}

// The room that contains the file; empty if the file is in no room.
inline std::string room_of(const std::string& path) {
  std::string folder = path;
  do {
    const std::size_t up = folder.rfind('/');
    folder = up == std::string::npos ? "" : folder.substr(0, up);
  } while (!folder.empty() && rooms().count(folder) == 0);
  return folder;
}

struct SourceFile {
  std::filesystem::path path;  // relative to the checkout
  std::vector<std::string> lines;
};

// All sources at or below these folders of the checkout. Ignores folders that do not exist.
inline std::vector<SourceFile> sources_below(const std::vector<std::string>& roots) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> found;
  const fs::path top = source_dir();
  for (const std::string& root : roots) {
    if (!fs::exists(top / root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      SourceFile source{entry.path().lexically_relative(top), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  return found;
}

}  // namespace mlk::test
