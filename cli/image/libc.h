// Which C library the programs of an image are linked with: wheels are built for one of them. Its manifest
// and configuration do not say.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace mlk::image {

enum class Libc { glibc, musl };

// What a file of an image tells of it: the loader of programs, or a file by which a distribution is known.
// Pure.
std::optional<Libc> libc_by(std::string_view path);

// Looks for it in a layer, whose bytes come in parts. A layer that cannot be read tells nothing. Pure.
class LibcOfLayer {
 public:
  LibcOfLayer();
  ~LibcOfLayer();
  LibcOfLayer(const LibcOfLayer&) = delete;
  LibcOfLayer& operator=(const LibcOfLayer&) = delete;

  // Bytes of a tar, which may be compressed with gzip. False: no more are needed.
  bool take(std::string_view bytes);
  std::optional<Libc> found() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::image
