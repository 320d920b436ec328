// The name of an image: [REGISTRY/]REPOSITORY[:TAG][@DIGEST]. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk::image {

inline constexpr char docker_hub[] = "docker.io";  // the registry of names without a registry

struct Reference {
  std::string registry;    // host[:port]
  std::string repository;  // "library/python"
  std::string tag{};       // empty if the name has only a digest
  std::string digest{};    // "sha256:" and 64 hexadecimal digits; has priority over the tag

  std::string name() const { return registry + "/" + repository; }
  // What mlk requests from a registry: the digest, or else the tag.
  const std::string& version() const { return digest.empty() ? tag : digest; }
  std::string text() const;
};

// Reads a name as Docker does. The default registry is docker.io, where a repository without a slash
// gets the prefix library/. If there is no tag and no digest, the tag is "latest". Throws Error{usage}; the
// message repeats no part that may be a password.
Reference parse_reference(std::string_view text);

// Reads a name with neither tag nor digest, such as "registry.example/team". The tag and the digest of the
// result are empty.
Reference parse_repository(std::string_view text);

// Whether the text is "sha256:" and 64 lower-case hexadecimal digits. mlk supports no other algorithm.
bool is_digest(std::string_view text);
bool is_tag(std::string_view text);

}  // namespace mlk::image
