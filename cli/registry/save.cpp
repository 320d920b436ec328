#include "cli/registry/save.h"

#include <cerrno>
#include <fcntl.h>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/image/open_file.h"
#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/output_file.h"
#include "cli/util/text.h"

namespace mlk::registry {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Take = std::function<bool(std::string_view)>;

constexpr std::size_t prefix = 7;  // "sha256:"

class File {
 public:
  explicit File(fs::path path)
      : path_(std::move(path)), file_(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666) {
    if (file_.number() < 0) image::fail_with(path_, errno);
  }
  void put(std::string_view bytes) { image::write_whole(file_, path_, bytes); }

 private:
  const fs::path path_;
  const image::OpenFile file_;
};

// Calls `put` once for each blob of the image, with the descriptor of the blob and a function that passes on
// the bytes of the blob.
template <typename Put>
void each_blob(const image::Composed& composed, const std::optional<FoundImage>& base,
               const std::function<bool()>& go_on, const Put& put) {
  std::set<std::string> done;
  const auto check = [&] {
    if (go_on && !go_on()) throw Error(ExitCode::interrupted, "interrupted");
  };
  for (const image::Descriptor& layer : composed.of_base) {
    if (!done.insert(layer.digest).second) continue;
    put(layer, [&](const Take& take) { base->registry->read_blob(base->reference.repository, layer, take); });
  }
  for (const image::Layer& layer : composed.own) {
    if (!done.insert(layer.blob.digest).second) continue;
    check();
    image::check_layer(layer, go_on);
    put(layer.blob, [&](const Take& take) {
      image::read_whole(layer.file, layer.blob.size, [&](std::string_view part) {
        check();
        take(part);
      });
    });
  }
  put(composed.configuration_blob, [&](const Take& take) { take(composed.configuration); });
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) image::fail_with(folder, error.value());
}

}  // namespace

void save_oci(const fs::path& folder, const std::string& name, const image::Composed& composed,
              const std::optional<FoundImage>& base, const std::function<bool()>& go_on) {
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    throw Error(ExitCode::usage, fmt::format("{} holds something already", printable(folder.string())),
                "name a folder that is empty or not there: --output oci:DIR");
  const fs::path goal = folder.has_filename() ? folder : folder.parent_path();  // "folder/" becomes "folder"
  const FolderToRemove aside(beside(goal));
  const fs::path blobs = aside.path() / "blobs" / "sha256";
  make_folder(blobs);
  each_blob(composed, base, go_on, [&](const image::Descriptor& blob, const auto& bytes) {
    File out(blobs / blob.digest.substr(prefix));
    bytes([&](std::string_view part) {
      out.put(part);
      return true;
    });
  });
  File(blobs / composed.digest.substr(prefix)).put(composed.manifest);
  File(aside.path() / "oci-layout").put(R"({"imageLayoutVersion":"1.0.0"})");
  const json manifest = {{"mediaType", composed.manifest_type},
                         {"digest", composed.digest},
                         {"size", composed.manifest.size()},
                         {"annotations", {{"org.opencontainers.image.ref.name", name}}}};
  File(aside.path() / "index.json")
      .put(json_text(
          {{"schemaVersion", 2}, {"mediaType", image::oci_types.index}, {"manifests", {manifest}}}));
  fs::remove(folder, error);  // it is empty, or a link to an empty folder, which rename() would not replace
  fs::rename(aside.path(), goal, error);
  if (error) image::fail_with(goal, error.value());
}

void save_docker_archive(const fs::path& file, const std::string& name, const image::Composed& composed,
                         const std::optional<FoundImage>& base, const std::function<bool()>& go_on) {
  const auto entry = [](const image::Descriptor& blob, bool is_layer) {
    return blob.digest.substr(prefix) + (is_layer ? ".tar.gz" : ".json");
  };
  OutputFile out(file);
  each_blob(composed, base, go_on, [&](const image::Descriptor& blob, const auto& bytes) {
    const bool is_layer = blob.digest != composed.configuration_blob.digest;
    out.put(image::tar_header({.path = entry(blob, is_layer)}, blob.size));
    bytes([&](std::string_view part) {
      out.put(part);
      return true;
    });
    out.put(std::string(image::tar_padding(blob.size), '\0'));
  });
  json layers = json::array();
  for (const image::Descriptor& layer : composed.of_base) layers.push_back(entry(layer, true));
  for (const image::Layer& layer : composed.own) layers.push_back(entry(layer.blob, true));
  const json manifest = {{{"Config", entry(composed.configuration_blob, false)},
                          {"RepoTags", name.empty() ? json::array() : json::array({name})},
                          {"Layers", layers}}};
  std::string end;
  image::append_to_tar(end, {.path = "manifest.json"}, json_text(manifest));
  out.put(end + image::tar_end());
  out.finish();
}

}  // namespace mlk::registry
