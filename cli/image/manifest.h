// The documents that registries store for an image: manifests, indexes of manifests, and configurations (OCI
// image specification 1.1, and Docker's version 2 of schema 2, which has the same members). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::image {

inline constexpr std::size_t longest_manifest = 4 << 20;        // the limit of registries
inline constexpr std::size_t longest_configuration = 16 << 20;  // it contains the history of the image
inline constexpr std::size_t most_layers = 500;

struct MediaTypes {
  const char *manifest, *index, *configuration, *layer;  // layer: a tar in gzip
};
inline constexpr MediaTypes oci_types{
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"};
inline constexpr MediaTypes docker_types{"application/vnd.docker.distribution.manifest.v2+json",
                                         "application/vnd.docker.distribution.manifest.list.v2+json",
                                         "application/vnd.docker.container.image.v1+json",
                                         "application/vnd.docker.image.rootfs.diff.tar.gzip"};

struct Platform {
  std::string os = "linux", architecture{}, variant{};  // as Go names them: amd64
  std::vector<std::string> features{};                  // what the programs need from the operating system
  bool is_unsaid = false;                               // true for an index entry without a platform
  std::string text() const;
};

// Parses "linux/arm64/v8", "linux/arm64" or "arm64". Throws Error{usage}.
Platform parse_platform(std::string_view text);

// The annotation by which mlk marks the purpose of its own layers: "code", "python".
inline constexpr char purpose_annotation[] = "dev.mlk.layer";

struct Descriptor {
  std::string media_type, digest;
  std::uint64_t size = 0;  // bytes
  std::string purpose{};   // only for a layer that mlk has made
};

struct Manifest {
  std::string media_type;
  Descriptor configuration;
  std::vector<Descriptor> layers;  // the lowest first

  bool is_docker() const { return media_type == docker_types.manifest; }
};

struct Index {
  struct Entry {
    Descriptor manifest;
    Platform platform;  // the architecture is empty if the index has none or "unknown" (a signature)
  };
  std::vector<Entry> entries;
};

// content_type: the type in the registry's answer; a type in the document itself has priority. Throws
// Error{failure}, with `name` in the message, if the document is neither a manifest nor an index, has an
// obsolete type, or points outside of its own repository.
std::variant<Manifest, Index> parse_manifest(std::string_view bytes, const std::string& content_type,
                                             const std::string& name);

// Returns the entry for the platform. First choice is an entry of the same variant, where amd64 is amd64/v1,
// arm64 is arm64/v8 and arm is arm/v7. Second choice is the newest of the older variants. Third choice, if
// `wanted` has no variant, is the oldest of the newer variants. Among equal entries, returns the first entry.
// An entry that needs features of the system is chosen only if no other entry fits. If no entry has an
// architecture, and `is_unsaid` is true for exactly one entry, returns this entry. Throws Error{not_found},
// with the available platforms in the hint.
const Index::Entry& choose(const Index& index, const Platform& wanted, const std::string& name);

struct Configuration {
  Platform platform;
  std::vector<std::string> diff_ids;  // digests of the uncompressed layers
  nlohmann::json whole;
};

// Throws Error{failure} if `bytes` are no configuration with `layers` layers.
Configuration parse_configuration(std::string_view bytes, std::size_t layers, const std::string& name);

// The value of a variable in the configuration's environment, or "" if the variable is not set.
std::string variable_of(const Configuration& configuration, const std::string& name);

}  // namespace mlk::image
