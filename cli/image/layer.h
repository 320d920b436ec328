// A layer of an image: an archive, compressed, in a file.
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
  std::string diff_id;  // the digest before it is compressed
  std::filesystem::path file;
};

// Writes a layer beside its final place; it is there when finish() has returned. Throws Error{failure}, of a
// disk that is full too.
class LayerWriter {
 public:
  // `file`: its final place, or, for one that is named at the end, any other in the same folder. `go_on`:
  // false when the user wants to stop; then what is added throws Error{interrupted}.
  explicit LayerWriter(std::filesystem::path file, std::function<bool()> go_on = {});
  ~LayerWriter();  // without finish(), nothing stays
  LayerWriter(const LayerWriter&) = delete;
  LayerWriter& operator=(const LayerWriter&) = delete;

  // In the order of the bytes of their paths, for the same digest everywhere.
  void add(const TarEntry& entry, std::string_view content = "");
  // `also` gets the content too.
  void add_file(const TarEntry& entry, const std::filesystem::path& from, std::uint64_t size,
                const std::function<void(std::string_view)>& also = {});
  // The same of a file in a folder; `shown`: its path, for messages.
  void add_file(const TarEntry& entry, const OpenFile& folder, const std::filesystem::path& shown,
                std::uint64_t size, const std::function<void(std::string_view)>& also = {});
  Layer finish();
  // Into a file that is named by what was written; `digits`: of diff_id.
  Layer finish(const std::function<std::filesystem::path(const std::string& digits)>& file_of);
  // The same as finish() if the archive has this digest before it is compressed; else nothing stays.
  std::optional<Layer> finish_as(const std::string& diff_id);

 private:
  Layer keep(const std::filesystem::path& file);
  void end();
  void put(std::string_view bytes);
  struct State;
  const std::unique_ptr<State> state_;
};

// The folder of all layers that mlk keeps, ~/.cache/mlk/layers. Throws as cache_home().
std::filesystem::path layer_cache();

// What finish() has returned for this file, from a note beside it; nullopt if either is missing, was cut off,
// renamed, or could have been written by others. It counts as used now. Throws Error: failure for a folder of
// another user.
std::optional<Layer> find_layer(const std::filesystem::path& file);

// The same, with its bytes read and compared with their digest; nullopt for another content than `diff_id`
// too, which is removed.
std::optional<Layer> find_whole_layer(const std::filesystem::path& file, const std::string& diff_id,
                                      const std::function<bool()>& go_on = {});

// Reads a layer whole before it is used. Throws Error{failure} if its bytes are not those of its digest, and
// removes it, so that it is made anew.
void check_layer(const Layer& layer, const std::function<bool()>& go_on = {});

// The newest use of what lies in a cache: of the entry, its note, or what is directly in it.
std::filesystem::file_time_type last_use(const std::filesystem::path& entry);

// What lies in a folder of layers and has not been used for so long: files with their notes, and folders.
std::vector<std::filesystem::path> unused_layers(const std::filesystem::path& cache,
                                                 std::chrono::seconds age);
bool is_unused(const std::filesystem::path& entry, std::chrono::seconds age);
// Bytes of a file, or of all that is in a folder.
std::uint64_t size_on_disk(const std::filesystem::path& path);

}  // namespace mlk::image
