// Finds the C library with which the programs of an image are linked. Each wheel is built for one C library.
// The manifest and the configuration of an image do not name the C library.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace mlk::image {

enum class Libc { glibc, musl };

// The C library that a file of an image implies: the file is the loader of programs, or a file that
// identifies a distribution. Pure.
std::optional<Libc> libc_by(std::string_view path);

// Looks for such a file in a layer, whose bytes come in parts. For an unreadable layer found() is nullopt.
// Pure.
class LibcOfLayer {
 public:
  LibcOfLayer();
  ~LibcOfLayer();
  LibcOfLayer(const LibcOfLayer&) = delete;
  LibcOfLayer& operator=(const LibcOfLayer&) = delete;

  // Takes bytes of a tar, which may be compressed with gzip. Returns false if it needs no more bytes.
  bool take(std::string_view bytes);
  std::optional<Libc> found() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::image
