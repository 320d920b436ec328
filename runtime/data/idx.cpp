// Reads IDX files (big-endian: 0, 0, type, dimensions, sizes, data), plain or gzipped. Does not trust their
// content.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

#if MLK_ZLIB
#include <zlib.h>
#endif

#include "runtime/data/image_dataset.h"
#include "runtime/data/mapped_file.h"

namespace mlk::rt {
namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{4} << 30;  // of one file's data
constexpr std::uint64_t max_inputs = 1 << 20;                // of one sample

// A file as a stream of bytes, decompressed if need be.
class Source {
 public:
  virtual ~Source() = default;
  // Reads up to `size` bytes; fewer only at the end. Throws Failure{bad_data}.
  virtual std::size_t read(std::uint8_t* out, std::size_t size) = 0;
};

class PlainSource : public Source {
 public:
  explicit PlainSource(std::string path)
      : path_(std::move(path)), fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) refuse_data(path_, std::strerror(errno));
  }
  ~PlainSource() override { close(fd_); }

  std::size_t read(std::uint8_t* out, std::size_t size) override {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n = ::read(fd_, out + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse_data(path_, std::strerror(errno));
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

 private:
  std::string path_;
  int fd_;
};

#if MLK_ZLIB
// Does not use zlib's gzread(), which accepts a file that ends before the checksum.
class GzipSource : public Source {
 public:
  explicit GzipSource(const std::string& path) : path_(path), file_(path), packed_(128 * 1024) {
    constexpr int gzip_only = 15 + 16;
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::uint8_t* out, std::size_t size) override {
    std::size_t done = 0;
    while (done < size && more()) {
      const auto room = static_cast<unsigned>(std::min<std::size_t>(size - done, 1 << 30));
      stream_.next_out = out + done;
      stream_.avail_out = room;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (code == Z_STREAM_END) between_ = true;
      if (code == Z_STREAM_END || code == Z_OK || code == Z_BUF_ERROR) continue;
      if (members_ == 1 && stream_.total_out == 0) refuse_data(path_, "not a gzip file");
      refuse_data(path_,
                  std::string("not a whole gzip file: ") + (stream_.msg ? stream_.msg : "it is damaged"));
    }
    return done;
  }

 private:
  // Whether there is something to unpack. A file may have several members. Bytes after a member that are
  // not another member are ignored, as by gzip.
  bool more() {
    if (over_) return false;
    if (stream_.avail_in == 0) {
      stream_.next_in = packed_.data();
      stream_.avail_in = static_cast<unsigned>(file_.read(packed_.data(), packed_.size()));
    }
    if (stream_.avail_in == 0) {
      if (members_ == 0) refuse_data(path_, "not a gzip file");
      if (!between_) refuse_data(path_, "not a whole gzip file: unexpected end of file");
      over_ = true;
    } else if (between_) {
      over_ = members_ > 0 && *stream_.next_in != 0x1f;
      if (!over_ && members_++ > 0) inflateReset(&stream_);
      between_ = over_;
    }
    return !over_;
  }

  std::string path_;
  PlainSource file_;
  std::vector<std::uint8_t> packed_;
  z_stream stream_{};
  bool between_ = true, over_ = false;  // between two members; after the last member
  int members_ = 0;                     // members that were begun
};
#endif

bool exists(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0;
}

// Opens the plain file if it exists, otherwise the file with .gz. Sets `path` to the file that was opened.
std::unique_ptr<Source> open_source(std::string& path) {
  const bool gzip = !exists(path) && exists(path + ".gz");
  if (gzip) path += ".gz";
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    const std::string what = std::string(std::strerror(errno)) + ", nor is there a .gz of it";
    const bool held_out = path.substr(path.rfind('/') + 1).starts_with("t10k");
    refuse_data(
        path,
        what + (held_out ? "; it is of the held-out set: take a part of the training samples for it, or "
                           "link it to its train- file to measure on these"
                         : ""));
  }
  if (!S_ISREG(info.st_mode)) refuse_data(path, "not a regular file");
  if (!gzip) return std::make_unique<PlainSource>(path);
#if MLK_ZLIB
  return std::make_unique<GzipSource>(path);
#else
  refuse_data(path, "compressed, and this build has no zlib: unpack it first");
#endif
}

struct IdxFile {
  std::string path;  // the file that was opened, for messages
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint8_t> data;
};

// The memory grows as bytes arrive, so a header that promises gigabytes does not allocate them.
std::vector<std::uint8_t> read_data(Source& source, const std::string& path, std::uint64_t size) {
  constexpr std::uint64_t piece = 16 << 20;
  std::vector<std::uint8_t> data;
  while (data.size() < size) {
    const std::uint64_t before = data.size(), want = std::min(piece, size - before);
    data.resize(before + want);
    const std::size_t got = source.read(data.data() + before, want);
    if (got < want) {
      refuse_data(path, "truncated: " + std::to_string(before + got) + " of " + std::to_string(size) +
                            " bytes of data");
    }
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0) refuse_data(path, "bytes after the end of its data");
  return data;
}

// The sizes of the dimensions.
std::vector<std::uint32_t> read_header(Source& source, const std::string& path, std::size_t dimensions) {
  std::vector<std::uint8_t> header(4 + 4 * dimensions);
  const std::size_t got = source.read(header.data(), header.size());
  const std::array<std::uint8_t, 4> magic = {0, 0, 0x08, static_cast<std::uint8_t>(dimensions)};  // 8: bytes
  if (got >= 4 && !std::equal(magic.begin(), magic.end(), header.begin())) {
    refuse_data(path, "not an IDX file of bytes in " + std::to_string(dimensions) + " dimension" +
                          (dimensions == 1 ? "" : "s"));
  }
  if (got < header.size()) refuse_data(path, "truncated: its header is not complete");
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::uint8_t* bytes = header.data() + 4 + 4 * i;
    sizes.push_back(std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
                    std::uint32_t{bytes[2]} << 8 | bytes[3]);
    if (sizes.back() == 0) refuse_data(path, "one of its dimensions is 0");
  }
  return sizes;
}

IdxFile read_idx(std::string path, std::size_t dimensions) {
  const std::unique_ptr<Source> source = open_source(path);
  IdxFile file;
  file.sizes = read_header(*source, path, dimensions);
  std::uint64_t size = 1;
  for (const std::uint32_t extent : file.sizes) {
    // Divides instead of multiplying, because the product of three sizes of 32 bits can overflow 64 bits.
    if (extent > max_bytes / size) refuse_data(path, "more than 4 GiB of data");
    size *= extent;
  }
  file.data = read_data(*source, path, size);
  file.path = std::move(path);
  return file;
}

struct Pair {
  IdxFile images, labels;
};

Pair read_pair(const std::string& folder, const std::string& name) {
  Pair pair{read_idx(folder + "/" + name + "-images-idx3-ubyte", 3),
            read_idx(folder + "/" + name + "-labels-idx1-ubyte", 1)};
  const std::uint32_t images = pair.images.sizes[0], labels = pair.labels.sizes[0];
  if (images != labels) {
    refuse_data(pair.labels.path,
                std::to_string(labels) + " labels for " + std::to_string(images) + " images");
  }
  return pair;
}

}  // namespace

std::uint64_t count_idx(const std::string& folder) {
  std::string path = folder + "/train-labels-idx1-ubyte";
  const std::unique_ptr<Source> source = open_source(path);
  return read_header(*source, path, 1).front();
}

ImageSplit load_idx(const std::string& folder) {
  Pair train = read_pair(folder, "train"), held_out = read_pair(folder, "t10k");
  if (!std::equal(train.images.sizes.begin() + 1, train.images.sizes.end(),
                  held_out.images.sizes.begin() + 1)) {
    refuse_data(held_out.images.path, "its images have another size than those of " + train.images.path);
  }
  const std::uint64_t inputs = std::uint64_t{train.images.sizes[1]} * train.images.sizes[2];
  if (inputs > max_inputs) refuse_data(train.images.path, "more than 1048576 pixels in an image");
  const std::uint8_t largest = *std::max_element(train.images.data.begin(), train.images.data.end());
  if (largest == 0) refuse_data(train.images.path, "all pixels are 0");
  const int classes = *std::max_element(train.labels.data.begin(), train.labels.data.end()) + 1;
  const std::vector<std::uint64_t> counts = count_labels(train.labels.data, classes);
  if (has_stray_label(counts))
    refuse_data(train.labels.path, describe_empty_classes(counts) + ": number them from 0");
  if (*std::max_element(held_out.labels.data.begin(), held_out.labels.data.end()) >= classes) {
    refuse_data(held_out.labels.path,
                "has a label above " + std::to_string(classes - 1) + ", the largest in training");
  }
  const float scale = 1.0f / static_cast<float>(largest);
  const SampleShape shape{
      .inputs = static_cast<int>(inputs),
      .classes = classes,
      .image = {1, static_cast<int>(train.images.sizes[1]), static_cast<int>(train.images.sizes[2]), 1}};
  return {ImageDataset(std::move(train.images.data), std::move(train.labels.data), shape, scale),
          ImageDataset(std::move(held_out.images.data), std::move(held_out.labels.data), shape, scale)};
}

}  // namespace mlk::rt
