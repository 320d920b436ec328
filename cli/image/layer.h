// A layer of an image: a compressed archive in a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/image/manifest.h"
#include "cli/image/open_file.h"
#include "cli/image/tar.h"

namespace mlk::image {

struct Layer {
  Descriptor blob;      // of the compressed file; the media type is OCI's
  std::string diff_id;  // the digest of the uncompressed archive
  std::filesystem::path file;
};

// Writes a layer to a temporary file in the folder of the final file. finish() renames the temporary file,
// and writes a note for find_layer(). Throws Error{failure}, also if the disk is full.
class LayerWriter {
 public:
  // `file`: the final path, or any path in the same folder if finish(file_of) chooses the final path.
  // `go_on`: returns false when the user wants to stop; then the functions below throw Error{interrupted}.
  explicit LayerWriter(std::filesystem::path file, std::function<bool()> go_on = {});
  ~LayerWriter();  // removes the temporary file if no finish() has renamed it
  LayerWriter(const LayerWriter&) = delete;
  LayerWriter& operator=(const LayerWriter&) = delete;

  // Callers add entries in the byte order of their paths, so that the digest is the same on every machine.
  void add(const TarEntry& entry, std::string_view content = "");
  // Adds the content of the file `from`.
  void add_file(const TarEntry& entry, const std::filesystem::path& from, std::uint64_t size);
  // Does the same for a file in an open folder, and also passes the content to `also`. `shown`: the path of
  // the file, for messages; the last part is the name of the file.
  void add_file(const TarEntry& entry, const OpenFile& folder, const std::filesystem::path& shown,
                std::uint64_t size, const std::function<void(std::string_view)>& also = {});
  Layer finish();
  // Does the same as finish(), but `file_of` returns the final path. `digits`: the hexadecimal digits of
  // diff_id.
  Layer finish(const std::function<std::filesystem::path(const std::string& digits)>& file_of);
  // Does the same as finish() if the digest of the uncompressed archive is `diff_id`. Otherwise returns
  // nullopt, and the destructor removes the temporary file.
  std::optional<Layer> finish_as(const std::string& diff_id);

 private:
  Layer store(const std::filesystem::path& file);
  void end();
  void put(std::string_view bytes);
  struct State;
  const std::unique_ptr<State> state_;
};

// The folder in which mlk stores all layers, ~/.cache/mlk/layers. Throws as cache_home().
std::filesystem::path layer_cache();

// Returns the Layer that finish() has returned for this file, as the note beside the file describes it.
// Returns nullopt if the file or the note is missing, was cut off or renamed, or could have been written by
// other users. Marks the layer as used now. Throws Error{failure} for a folder of another user.
std::optional<Layer> find_layer(const std::filesystem::path& file);

// Does the same as find_layer(), but also checks that the layer has this `diff_id`, and that the bytes of the
// file match the digest. Otherwise removes the layer and returns nullopt.
std::optional<Layer> find_whole_layer(const std::filesystem::path& file, const std::string& diff_id,
                                      const std::function<bool()>& go_on = {});

// Call it before the layer is used. Reads the whole layer and compares its bytes with the digest. If they
// differ, removes the layer, so that the next build makes the layer again, and throws Error{failure}.
void check_layer(const Layer& layer, const std::function<bool()>& go_on = {});

// The layers, notes and folders in a cache that were last used more than `age` ago.
std::vector<std::filesystem::path> unused_layers(const std::filesystem::path& cache,
                                                 std::chrono::seconds age);
bool is_unused(const std::filesystem::path& entry, std::chrono::seconds age);
// The bytes of a file, or of all files in a folder.
std::uint64_t size_on_disk(const std::filesystem::path& path);

}  // namespace mlk::image
