// The runtime reads each kind of external input in one place of the code. This test finds code that bypasses
// this place.

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("project/runtime_doors");

namespace fs = std::filesystem;

TEST_CASE("only runtime/base/json.cpp parses JSON in the runtime and the kernels") {
  const std::regex parses(
      "json::(parse|accept|sax_parse|from_(cbor|msgpack|ubjson|bson|bjdata))\\b|>>\\s*json|\"_json\\b");
  const fs::path top = mlk::test::source_dir();
  int doors = 0;
  for (const char* root : {"runtime", "kernels"}) {
    for (const auto& entry : fs::recursive_directory_iterator(top / root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string path = entry.path().lexically_relative(top).string();
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (!std::regex_search(line.substr(0, line.find("//")), parses)) continue;
        const bool is_door = path == "runtime/base/json.cpp";
        CHECK_MESSAGE(is_door, path, ": ", line, " goes around parse_json() of runtime/base/json.h");
        ++doors;
      }
    }
  }
  CHECK(doors == 1);
}
