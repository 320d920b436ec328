// gzip, RFC 1952.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mlk::image {

// Without a name and a time, so that the same bytes give the same result with one version of zlib.
std::string gzip(std::string_view bytes);

// The same of bytes that come in parts.
class GzipStream {
 public:
  // level: 1 (fast) to 9; take: gets the compressed bytes.
  GzipStream(int level, std::function<void(std::string_view)> take);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  void add(std::string_view bytes);
  void finish();  // last

 private:
  void turn(int flush);
  struct State;
  const std::unique_ptr<State> state_;
};

// Throws Error{failure} for what is no gzip file, is cut off, or has more than `most_bytes` when unpacked.
std::string gunzip(std::string_view bytes, std::size_t most_bytes);

}  // namespace mlk::image
