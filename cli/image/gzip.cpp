#include "cli/image/gzip.h"

#include <algorithm>
#include <limits>

#include <zlib.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {

namespace {
constexpr int with_gzip_header = 16;  // added to the size of the window
}  // namespace

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + with_gzip_header, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(ExitCode::failure, "zlib cannot be started");
  gz_header header{};
  header.os = 255;  // unknown: not that of this machine
  deflateSetHeader(&stream, &header);
  std::string out;
  std::string buffer(64 << 10, '\0');
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0 && !bytes.empty()) {
      const std::size_t part = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(part);
      bytes.remove_prefix(part);
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(buffer, 0, buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

std::string gunzip(std::string_view bytes, std::size_t most_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + with_gzip_header) != Z_OK)
    throw Error(ExitCode::failure, "zlib cannot be started");
  std::string out;
  std::string buffer(64 << 10, '\0');
  int state = Z_OK;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
  while (state == Z_OK && out.size() <= most_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, 0, buffer.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (out.size() > most_bytes)
    throw Error(ExitCode::failure,
                "the archive has more than " + human_size(most_bytes) + " when it is unpacked");
  if (state != Z_STREAM_END) throw Error(ExitCode::failure, "the archive is no gzip file, or is cut off");
  return out;
}

}  // namespace mlk::image
