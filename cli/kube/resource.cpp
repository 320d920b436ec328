#include "cli/kube/resource.h"

#include <string_view>

namespace mlk::kube {

std::string percent_encode(std::string_view text) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  return out;
}

std::string path_of(const Resource& resource, const std::string& name_space, const std::string& name) {
  std::string path = resource.group.empty() ? "/api/" + resource.version
                                            : "/apis/" + resource.group + "/" + resource.version;
  if (!name_space.empty()) path += "/namespaces/" + percent_encode(name_space);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + percent_encode(name);
  return path;
}

std::string api_version_of(const Resource& resource) {
  return resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
}

}  // namespace mlk::kube
