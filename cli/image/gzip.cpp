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

struct GzipStream::State {
  std::function<void(std::string_view)> take;
  z_stream stream{};
  gz_header header{};
  std::string buffer = std::string(64 << 10, '\0');
};

GzipStream::GzipStream(int level, std::function<void(std::string_view)> take)
    : state_(std::make_unique<State>()) {
  state_->take = std::move(take);
  if (deflateInit2(&state_->stream, level, Z_DEFLATED, MAX_WBITS + with_gzip_header, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(ExitCode::failure, "zlib cannot be started");
  state_->header.os = 255;  // unknown: not that of this machine
  deflateSetHeader(&state_->stream, &state_->header);
}

GzipStream::~GzipStream() { deflateEnd(&state_->stream); }

void GzipStream::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
    state_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    state_->stream.avail_in = static_cast<uInt>(part);
    bytes.remove_prefix(part);
    turn(Z_NO_FLUSH);
  }
}

void GzipStream::finish() { turn(Z_FINISH); }

void GzipStream::turn(int flush) {
  int result = Z_OK;
  do {
    state_->stream.next_out = reinterpret_cast<Bytef*>(state_->buffer.data());
    state_->stream.avail_out = static_cast<uInt>(state_->buffer.size());
    result = deflate(&state_->stream, flush);
    if (const std::size_t have = state_->buffer.size() - state_->stream.avail_out; have > 0)
      state_->take({state_->buffer.data(), have});
  } while (flush == Z_FINISH ? result != Z_STREAM_END : state_->stream.avail_out == 0);
}

std::string gzip(std::string_view bytes) {
  std::string out;
  GzipStream stream(Z_DEFAULT_COMPRESSION, [&](std::string_view part) { out += part; });
  stream.add(bytes);
  stream.finish();
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
