// Finds the C library with which the programs of an image are linked. Each wheel is built for one C library.
// The manifest and the configuration of an image do not name the C library.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace mlk::image {

enum class Libc { glibc, musl };

// The C library that the path of a file in an image implies: the path of a dynamic loader, of libc.so.6 or of
// a file that identifies a distribution. nullopt for other paths. Pure.
std::optional<Libc> libc_by(std::string_view path);

// Searches a layer, whose bytes come in parts, for a file that implies a C library. If the layer is
// unreadable, found() returns nullopt. Pure.
class LibcOfLayer {
 public:
  LibcOfLayer();
  ~LibcOfLayer();
  LibcOfLayer(const LibcOfLayer&) = delete;
  LibcOfLayer& operator=(const LibcOfLayer&) = delete;

  // Reads the next bytes of a tar archive, which may be compressed with gzip. Returns false when the search
  // has ended.
  bool feed(std::string_view bytes);
  std::optional<Libc> found() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::image
