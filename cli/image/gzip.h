// gzip, RFC 1952.
#pragma once

#include <string>
#include <string_view>

namespace mlk::image {

// Without a name and a time, so that the same bytes give the same result with one version of zlib.
std::string gzip(std::string_view bytes);

}  // namespace mlk::image
