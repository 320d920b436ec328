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
  Descriptor blob;      // compressed; its media type is that of OCI
  std::string diff_id;  // the digest of the uncompressed archive
  std::filesystem::path file;
};

// Writes a layer beside its final place. finish() moves the file to its final place. Throws Error{failure},
// also if the disk is full.
class LayerWriter {
 public:
  // `file`: the final place, or, for a layer that is named at the end, any other place in the same folder.
  // `go_on`: returns false when the user wants to stop; then add() and add_file() throw Error{interrupted}.
  explicit LayerWriter(std::filesystem::path file, std::function<bool()> go_on = {});
  ~LayerWriter();  // without finish(), it removes the file
  LayerWriter(const LayerWriter&) = delete;
  LayerWriter& operator=(const LayerWriter&) = delete;

  // Callers add entries in the byte order of their paths, so that the digest is the same on every machine.
  void add(const TarEntry& entry, std::string_view content = "");
  // `also` is called with the content too.
  void add_file(const TarEntry& entry, const std::filesystem::path& from, std::uint64_t size,
                const std::function<void(std::string_view)>& also = {});
  // The same for a file in an open folder. `shown`: the path of the file, for messages.
  void add_file(const TarEntry& entry, const OpenFile& folder, const std::filesystem::path& shown,
                std::uint64_t size, const std::function<void(std::string_view)>& also = {});
  Layer finish();
  // The same, but the caller names the file by its content. `digits`: the digits of diff_id.
  Layer finish(const std::function<std::filesystem::path(const std::string& digits)>& file_of);
  // The same as finish() if the uncompressed archive has this digest; otherwise returns nullopt, and no file
  // stays.
  std::optional<Layer> finish_as(const std::string& diff_id);

 private:
  Layer keep(const std::filesystem::path& file);
  void end();
  void put(std::string_view bytes);
  struct State;
  const std::unique_ptr<State> state_;
};

// The folder in which mlk stores all layers, ~/.cache/mlk/layers. Throws as cache_home().
std::filesystem::path layer_cache();

// Returns what finish() returned for this file, from the note beside the file. Returns nullopt if the file or
// the note is missing, was cut off or renamed, or could have been written by other users. Marks the layer as
// used now. Throws Error{failure} for a folder of another user.
std::optional<Layer> find_layer(const std::filesystem::path& file);

// The same, but also reads the bytes and compares them with the digest. If the digest or `diff_id` differs,
// removes the layer and returns nullopt.
std::optional<Layer> find_whole_layer(const std::filesystem::path& file, const std::string& diff_id,
                                      const std::function<bool()>& go_on = {});

// Reads the whole layer before it is used. If the bytes do not match the digest, removes the layer, so that
// the next build makes it again, and throws Error{failure}.
void check_layer(const Layer& layer, const std::function<bool()>& go_on = {});

// The time of the newest use of an entry of a cache: the newest time of the entry, its note, or the files
// directly in it.
std::filesystem::file_time_type last_use(const std::filesystem::path& entry);

// The entries of a folder of layers that nobody has used for `age`: files with their notes, and folders.
std::vector<std::filesystem::path> unused_layers(const std::filesystem::path& cache,
                                                 std::chrono::seconds age);
bool is_unused(const std::filesystem::path& entry, std::chrono::seconds age);
// The bytes of a file, or of all files in a folder.
std::uint64_t size_on_disk(const std::filesystem::path& path);

}  // namespace mlk::image
