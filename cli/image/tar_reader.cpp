#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ExitCode::failure, "the archive of the code cannot be read: " + why);
}

std::string_view text_in(std::string_view header, std::size_t at, std::size_t width) {
  const std::string_view field = header.substr(at, width);
  return field.substr(0, field.find('\0'));
}

// The octal number in a field. The number ends at a NUL or a blank.
std::size_t number_in(std::string_view header, std::size_t at, std::size_t width) {
  std::size_t value = 0;
  for (const char digit : text_in(header, at, width)) {
    if (digit == ' ') break;
    if (digit < '0' || digit > '7') refuse("a number in a header is not octal");
    value = value * 8 + static_cast<std::size_t>(digit - '0');
  }
  return value;
}

bool is_safe(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  const std::vector<std::string> parts = split(path, '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

class Reader {
 public:
  Reader(std::string_view tar, const std::function<void()>& before_each)
      : left_(tar), before_each_(before_each) {}

  std::vector<TarFile> read() {
    std::vector<TarFile> out;
    while (std::optional<TarFile> file = next()) {
      if (before_each_) before_each_();
      if (!out.empty() && file->entry.path <= out.back().entry.path) refuse("its entries have no order");
      check_place(file->entry);
      out.push_back(std::move(*file));
    }
    return out;
  }

 private:
  // The entries are sorted by path. So mlk has added each link and file to `no_folders_` before it checks an
  // entry below this link or file.
  void check_place(const TarEntry& entry) {
    for (std::size_t at = entry.path.find('/'); at != entry.path.npos; at = entry.path.find('/', at + 1)) {
      if (no_folders_.contains(entry.path.substr(0, at))) refuse("an entry lies below a file or a link");
    }
    if (entry.kind == TarEntry::Kind::folder) return;
    no_folders_.insert(entry.path);
    if (entry.kind == TarEntry::Kind::link && !leads_inside(entry.path, entry.target))
      refuse("a link leads out of its folder");
  }

  std::string_view take(std::size_t size) {
    if (size > left_.size()) refuse("it is cut off");
    const std::string_view out = left_.substr(0, size);
    left_.remove_prefix(size);
    return out;
  }
  std::string_view take_content(std::size_t size) {
    if (size > left_.size()) refuse("it is cut off");
    return take((size + tar_block - 1) / tar_block * tar_block).substr(0, size);
  }

  std::optional<TarFile> next() {
    std::string name, target;
    while (true) {
      const std::string_view header = take(tar_block);
      if (header.find_first_not_of('\0') == header.npos) return std::nullopt;
      constexpr std::size_t at_mode = 100, at_size = 124, at_type = 156, at_target = 157;
      const std::string_view content = take_content(number_in(header, at_size, 12));
      const char type = header[at_type];
      if (type == 'L' || type == 'K') {
        (type == 'L' ? name : target) = content.substr(0, content.find('\0'));
        continue;
      }
      TarFile out;
      out.entry.path = name.empty() ? std::string(text_in(header, 0, 100)) : name;
      out.entry.executable = type == '0' && (number_in(header, at_mode, 8) & 0100) != 0;
      if (type == '0') {
        out.content = content;
      } else if (type == '5' && out.entry.path.ends_with('/')) {
        out.entry.kind = TarEntry::Kind::folder;
        out.entry.path.pop_back();
      } else if (type == '2') {
        out.entry.kind = TarEntry::Kind::link;
        out.entry.target = target.empty() ? std::string(text_in(header, at_target, 100)) : target;
      } else {
        refuse("an entry is of another kind");
      }
      if (out.entry.path.size() > longest_path || out.entry.target.size() > longest_path)
        refuse(fmt::format("a path in it has more than {} bytes", longest_path));
      if (!is_safe(out.entry.path)) refuse("an entry leads out of its folder");
      return out;
    }
  }

  std::string_view left_;
  const std::function<void()>& before_each_;
  std::set<std::string> no_folders_;
};

}  // namespace

bool leads_inside(const std::string& path, const std::string& target) {
  if (target.empty() || target.front() == '/') return false;
  const std::vector<std::string> parts = split(target, '/');
  const auto is_up = [](const std::string& part) { return part == ".."; };
  const auto down = std::find_if_not(parts.begin(), parts.end(), [&](const std::string& part) {
    return is_up(part) || part == "." || part.empty();
  });
  const auto ups = std::count_if(parts.begin(), down, is_up);
  return ups <= std::count(path.begin(), path.end(), '/') && std::none_of(down, parts.end(), is_up);
}

std::vector<TarFile> read_tar(std::string_view tar, const std::function<void()>& before_each) {
  return Reader(tar, before_each).read();
}

}  // namespace mlk::image
