#include "cli/image/tar.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace mlk::image {
namespace {

constexpr std::uint64_t time_of_all = 315532800;  // 1980-01-01T00:00:00Z
constexpr std::size_t longest_name = 100;         // bytes in a header

void pad(std::string& tar) { tar.resize((tar.size() + tar_block - 1) / tar_block * tar_block, '\0'); }

// The fields of a header, in their order.
class Header {
 public:
  Header() { bytes_.reserve(tar_block); }
  Header& text(std::string_view value, std::size_t width) {
    bytes_ += value.substr(0, width);
    return skip(width - std::min(value.size(), width));
  }
  Header& skip(std::size_t width) {
    bytes_.append(width, '\0');
    return *this;
  }
  // Octal digits and a NUL. A number with too many octal digits is written in GNU's base 256.
  Header& number(std::uint64_t value, std::size_t width) {
    std::string digits(width - 1, '0');
    std::uint64_t rest = value;
    for (std::size_t i = digits.size(); i-- > 0; rest >>= 3) digits[i] = static_cast<char>('0' + (rest & 7));
    if (rest == 0) return text(digits, width);
    std::string bytes(width, '\0');
    for (std::size_t i = width; i-- > 1; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
    bytes[0] = '\x80';
    bytes_ += bytes;
    return *this;
  }
  std::string done() {
    bytes_.resize(tar_block, '\0');
    constexpr std::size_t at = 148, width = 8;
    bytes_.replace(at, width, width, ' ');
    const unsigned sum = std::accumulate(bytes_.begin(), bytes_.end(), 0U, [](unsigned total, char c) {
      return total + static_cast<unsigned char>(c);
    });
    bytes_.replace(at, width, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    return bytes_;
  }

 private:
  std::string bytes_;
};

std::string header(std::string_view name, unsigned mode, char type, std::string_view target,
                   std::uint64_t size) {
  return Header()
      .text(name, longest_name)
      .number(mode, 8)
      .number(0, 8)
      .number(0, 8)
      .number(size, 12)
      .number(time_of_all, 12)
      .skip(8)
      .text({&type, 1}, 1)
      .text(target, longest_name)
      .text("ustar  ", 8)
      .done();
}

// GNU's extra entry for a name or link target that is too long for the header of the next entry.
void append_long(std::string& tar, char type, const std::string& text) {
  if (text.size() <= longest_name) return;
  const std::string_view with_nul(text.c_str(), text.size() + 1);
  tar += header("././@LongLink", 0, type, "", with_nul.size());
  tar += with_nul;
  pad(tar);
}

}  // namespace

std::string tar_header(const TarEntry& entry, std::uint64_t size) {
  const bool is_folder = entry.kind == TarEntry::Kind::folder;
  const std::string name = is_folder ? entry.path + "/" : entry.path;
  std::string out;
  append_long(out, 'K', entry.target);
  append_long(out, 'L', name);
  const auto mode = [&](unsigned usual) { return entry.mode == 0 ? usual : entry.mode; };
  switch (entry.kind) {
    case TarEntry::Kind::file:
      out += header(name, mode(entry.executable ? 0755 : 0644), '0', "", size);
      break;
    case TarEntry::Kind::folder:
      out += header(name, mode(0755), '5', "", 0);
      break;
    case TarEntry::Kind::link:
      out += header(name, 0777, '2', entry.target, 0);
      break;
  }
  return out;
}

std::size_t tar_padding(std::uint64_t size) {
  return static_cast<std::size_t>((tar_block - size % tar_block) % tar_block);
}

void append_to_tar(std::string& tar, const TarEntry& entry, std::string_view content) {
  tar += tar_header(entry, content.size());
  tar += content;
  pad(tar);
}

std::string tar_end() { return std::string(2 * tar_block, '\0'); }

}  // namespace mlk::image
