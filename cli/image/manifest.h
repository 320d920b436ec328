// What registries keep of an image: manifests, indexes of them, and configurations (OCI image specification
// 1.1, and Docker's version 2 of schema 2, which has the same members). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::image {

inline constexpr std::size_t longest_manifest = 4 << 20;        // what registries take
inline constexpr std::size_t longest_configuration = 16 << 20;  // a history of builds makes them long
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
  std::string os = "linux", architecture{}, variant{};  // in Go's words: amd64, arm64
  std::vector<std::string> features{};                  // of the system, which its programs need
  bool is_unsaid = false;                               // of an entry that has no platform
  std::string text() const;
};

// "linux/arm64/v8", or the architecture alone. Throws Error{usage}.
Platform parse_platform(std::string_view text);

// The annotation of a layer that mlk has made, which says what it holds: "code", "python".
inline constexpr char purpose_annotation[] = "dev.mlk.layer";

struct Descriptor {
  std::string media_type, digest;
  std::uint64_t size = 0;  // bytes
  std::string purpose{};   // of a layer that mlk has made
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
    Platform platform;  // without an architecture: of no platform, as a signature
  };
  std::vector<Entry> entries;
};

// content_type: of the answer; what the document says of itself counts more. Throws Error{failure}, naming
// `name`, for what is neither, is of a kind that is not in use any more, or points to somewhere else than its
// own repository.
std::variant<Manifest, Index> parse_manifest(std::string_view bytes, const std::string& content_type,
                                             const std::string& name);

// The entry for the platform: of the same variant, where amd64 is amd64/v1, arm64 is arm64/v8 and arm is
// arm/v7; else the newest older one; else, if no variant is wanted, the oldest newer one. Of equal ones the
// first, and those that need features of the system last. Where no entry has a platform, the only one that
// leaves it open. Throws Error{not_found}, with those that there are.
const Index::Entry& choose(const Index& index, const Platform& wanted, const std::string& name);

struct Configuration {
  Platform platform;
  std::vector<std::string> diff_ids;  // digests of the layers before they are compressed
  nlohmann::json whole;
};

// Throws Error{failure} for what is no configuration with `layers` layers.
Configuration parse_configuration(std::string_view bytes, std::size_t layers, const std::string& name);

// The value of a variable in the configuration's environment; empty: there is none.
std::string variable_of(const Configuration& configuration, const std::string& name);

}  // namespace mlk::image
