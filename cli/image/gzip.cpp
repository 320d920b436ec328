#include "cli/image/gzip.h"

#include <algorithm>
#include <deque>
#include <future>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include <libdeflate.h>
#include <zlib.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {

namespace {

constexpr int with_gzip_header = 16;  // added to the window size: selects gzip's format
constexpr std::size_t member_bytes = 512 << 10;
constexpr unsigned most_at_once = 8;

struct Free {
  void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
};

}  // namespace

// GzipStream reuses the memory of a member, because fresh memory is slow.
struct GzipStream::Member {
  explicit Member(int level)
      : compressor(libdeflate_alloc_compressor(level)),
        room(libdeflate_gzip_compress_bound(compressor.get(), member_bytes)),
        packed(std::make_unique_for_overwrite<char[]>(room)) {
    if (!compressor) throw std::bad_alloc();
  }

  void pack() {
    packed_size = libdeflate_gzip_compress(compressor.get(), bytes.get(), size, packed.get(), room);
  }

  const std::unique_ptr<libdeflate_compressor, Free> compressor;
  const std::unique_ptr<char[]> bytes = std::make_unique_for_overwrite<char[]>(member_bytes);
  std::size_t size = 0;
  const std::size_t room;
  const std::unique_ptr<char[]> packed;
  std::size_t packed_size = 0;
};

struct GzipStream::State {
  const int level;
  const std::function<void(std::string_view)> take;
  const std::size_t at_once = std::clamp(std::thread::hardware_concurrency(), 1U, most_at_once);
  std::unique_ptr<Member> current{};
  std::deque<std::future<std::unique_ptr<Member>>> ahead{};
  std::vector<std::unique_ptr<Member>> idle{};
};

GzipStream::GzipStream(int level, std::function<void(std::string_view)> take)
    : state_(new State{.level = level, .take = std::move(take)}) {
  state_->current = fresh_member();
}

GzipStream::~GzipStream() = default;

std::unique_ptr<GzipStream::Member> GzipStream::fresh_member() {
  if (state_->idle.empty()) return std::make_unique<Member>(state_->level);
  std::unique_ptr<Member> out = std::move(state_->idle.back());
  state_->idle.pop_back();
  out->size = 0;
  return out;
}

void GzipStream::write_first() {
  state_->idle.push_back(state_->ahead.front().get());
  state_->ahead.pop_front();
  const Member& member = *state_->idle.back();
  state_->take({member.packed.get(), member.packed_size});
}

void GzipStream::add(std::string_view bytes) {
  while (!bytes.empty()) {
    if (state_->current->size == member_bytes) {
      if (state_->ahead.size() == state_->at_once) write_first();
      // If no more threads can start, get() compresses the member in the calling thread.
      state_->ahead.push_back(std::async(std::launch::async | std::launch::deferred,
                                         [member = std::move(state_->current)]() mutable {
                                           member->pack();
                                           return std::move(member);
                                         }));
      state_->current = fresh_member();
    }
    Member& member = *state_->current;
    const std::size_t part = bytes.copy(member.bytes.get() + member.size, member_bytes - member.size);
    member.size += part;
    bytes.remove_prefix(part);
  }
}

void GzipStream::finish() {
  state_->current->pack();
  while (!state_->ahead.empty()) write_first();
  state_->take({state_->current->packed.get(), state_->current->packed_size});
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
    const bool has_next_member = state == Z_STREAM_END && stream.avail_in > 0;
    if (has_next_member) state = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (out.size() > most_bytes)
    throw Error(ExitCode::failure,
                "the archive has more than " + human_size(most_bytes) + " when it is unpacked");
  if (state != Z_STREAM_END) throw Error(ExitCode::failure, "the archive is no gzip file, or is cut off");
  return out;
}

}  // namespace mlk::image
