// Compresses the text of a test.
#pragma once

#include <string>
#include <string_view>

#include "cli/image/gzip.h"

namespace mlk::test {

inline std::string gzip(std::string_view bytes) {
  constexpr int usual = 6;
  std::string out;
  image::GzipStream stream(usual, [&](std::string_view part) { out += part; });
  stream.add(bytes);
  stream.finish();
  return out;
}

}  // namespace mlk::test
