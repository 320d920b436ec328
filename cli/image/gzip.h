// gzip, RFC 1952.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlk::image {

// Without a name and a time, so that the same bytes give the same result with one version of zlib.
std::string gzip(std::string_view bytes);

// Throws Error{failure} for what is no gzip file, is cut off, or has more than `most_bytes` when unpacked.
std::string gunzip(std::string_view bytes, std::size_t most_bytes);

}  // namespace mlk::image
