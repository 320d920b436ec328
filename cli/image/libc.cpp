#include "cli/image/libc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <string>

#include <zlib.h>

#include "cli/image/tar.h"

namespace mlk::image {
namespace {

std::uint64_t size_in(std::string_view header) {
  constexpr std::size_t at = 124, width = 12;
  constexpr unsigned char is_binary = 0x80;  // in the first byte: a binary number, for 8 GiB or more
  const std::string_view field = header.substr(at, width);
  std::uint64_t size = 0;
  if ((static_cast<unsigned char>(field[0]) & is_binary) != 0) {
    for (const char byte : field.substr(width - sizeof size))
      size = size << 8 | static_cast<unsigned char>(byte);
    return size;
  }
  for (const char digit : field) {
    if (digit >= '0' && digit <= '7') size = size * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return size;
}

std::string path_in(std::string_view header) {
  constexpr std::size_t longest_name = 100, at_magic = 257, at_prefix = 345, longest_prefix = 155;
  const auto text = [&](std::size_t at, std::size_t width) {
    const std::string_view field = header.substr(at, width);
    return std::string(field.substr(0, field.find('\0')));
  };
  const std::string name = text(0, longest_name);
  // GNU's archives, whose magic ends with a blank, have other fields in the place of the prefix.
  const bool has_prefix = header.substr(at_magic, 6) == std::string_view("ustar\0", 6);
  const std::string prefix = has_prefix ? text(at_prefix, longest_prefix) : "";
  return prefix.empty() ? name : prefix + "/" + name;
}

constexpr std::uint64_t most_unpacked = std::uint64_t{4} << 30;  // against a decompression bomb

// Whether the entry is a GNU long name or a pax record, which describes the next entry.
bool is_about_next(char type) { return std::string_view("LKxg").find(type) != std::string_view::npos; }

}  // namespace

std::optional<Libc> libc_by(std::string_view path) {
  while (path.starts_with("./")) path.remove_prefix(2);
  if (path.starts_with('/')) path.remove_prefix(1);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (path == "etc/alpine-release" || (name.starts_with("ld-musl-") && name.ends_with(".so.1")))
    return Libc::musl;
  if (path == "etc/debian_version" || path == "etc/redhat-release" || name == "libc.so.6" ||
      name.starts_with("ld-linux"))
    return Libc::glibc;
  return std::nullopt;
}

struct LibcOfLayer::State {
  enum class Form { unknown, plain, gzip };

  Form form = Form::unknown;
  std::string begin{};   // the first bytes, until `form` is known
  std::string header{};  // the received part of a header
  std::uint64_t skip = 0, unpacked = 0;
  z_stream stream{};
  std::optional<Libc> found{};
  bool is_over = false;

  ~State() {
    if (form == Form::gzip) ::inflateEnd(&stream);
  }

  void see_form() {
    constexpr std::string_view gzip_magic("\x1f\x8b");
    constexpr int with_gzip_header = 16;
    if (begin.size() < gzip_magic.size()) return;
    form = Form::plain;
    if (!begin.starts_with(gzip_magic)) return;
    if (::inflateInit2(&stream, MAX_WBITS + with_gzip_header) != Z_OK) throw std::bad_alloc();
    form = Form::gzip;
  }

  void take_compressed(std::string_view bytes) {
    std::array<char, 64 << 10> out;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = out.size();
      const int state = ::inflate(&stream, Z_NO_FLUSH);
      if (state == Z_BUF_ERROR) return;  // inflate() needs more bytes
      const std::size_t size = out.size() - stream.avail_out;
      unpacked += size;
      take_tar({out.data(), size});
      const bool goes_on = state == Z_OK || (state == Z_STREAM_END && ::inflateReset(&stream) == Z_OK);
      is_over = is_over || !goes_on || unpacked > most_unpacked;
    } while (!is_over && (stream.avail_in > 0 || stream.avail_out == 0));
  }

  void take_tar(std::string_view bytes) {
    while (!is_over && !bytes.empty()) {
      const std::uint64_t passed = std::min<std::uint64_t>(skip, bytes.size());
      skip -= passed;
      bytes.remove_prefix(passed);
      const std::size_t more = std::min(tar_block - header.size(), bytes.size());
      header += bytes.substr(0, more);
      bytes.remove_prefix(more);
      if (header.size() == tar_block) take_header();
    }
  }

  void take_header() {
    constexpr std::size_t at_magic = 257, at_type = 156;
    constexpr std::uint64_t too_large = std::uint64_t{1} << 50;
    const std::uint64_t size = size_in(header);
    is_over = std::string_view(header).substr(at_magic, 5) != "ustar" || size > too_large;  // end or no tar
    if (is_over) return;
    if (!is_about_next(header[at_type])) found = libc_by(path_in(header));
    is_over = found.has_value();
    skip = (size + tar_block - 1) / tar_block * tar_block;
    header.clear();
  }
};

LibcOfLayer::LibcOfLayer() : state_(std::make_unique<State>()) {}
LibcOfLayer::~LibcOfLayer() = default;

bool LibcOfLayer::feed(std::string_view bytes) {
  State& state = *state_;
  std::string first;
  if (state.form == State::Form::unknown) {
    state.begin += bytes;
    state.see_form();
    if (state.form == State::Form::unknown) return true;
    first.swap(state.begin);
    bytes = first;
  }
  if (state.form == State::Form::gzip) {
    state.take_compressed(bytes);
  } else {
    state.take_tar(bytes);
  }
  return !state.is_over;
}

std::optional<Libc> LibcOfLayer::found() const { return state_->found; }

}  // namespace mlk::image
