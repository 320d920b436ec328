// Finds the C library with which the programs of an image are linked. Each wheel is built for one C library.
// The manifest and the configuration of an image do not name the C library.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace mlk::image {

enum class Libc { glibc, musl };

// The C library that a file of an image implies by its path. nullopt unless the file is the loader of
// programs or identifies a distribution. Pure.
std::optional<Libc> libc_by(std::string_view path);

// Searches a layer, whose bytes come in parts, for a file that implies a C library. For an unreadable layer
// found() is nullopt. Pure.
class LibcOfLayer {
 public:
  LibcOfLayer();
  ~LibcOfLayer();
  LibcOfLayer(const LibcOfLayer&) = delete;
  LibcOfLayer& operator=(const LibcOfLayer&) = delete;

  // Takes the next bytes of a tar archive, which may be compressed with gzip. False: the search has ended.
  bool feed(std::string_view bytes);
  std::optional<Libc> found() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::image
