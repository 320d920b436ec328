#include "cli/image/code.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t large_file = 10 << 20;

std::string largest_of(const Tree& tree) {
  std::vector<const TreeEntry*> entries;
  for (const TreeEntry& entry : tree.entries) {
    if (entry.size > 0) entries.push_back(&entry);
  }
  constexpr std::ptrdiff_t most_shown = 3;
  const auto end = entries.begin() + std::min(most_shown, std::ssize(entries));
  std::partial_sort(entries.begin(), end, entries.end(),
                    [](const TreeEntry* a, const TreeEntry* b) { return a->size > b->size; });
  std::vector<std::string> out;
  for (auto each = entries.begin(); each != end; ++each)
    out.push_back(fmt::format("{} ({})", printable((*each)->of_tar.path), human_size((*each)->size)));
  return join(out, ", ");
}

[[noreturn]] void refuse_size(const fs::path& folder, const std::string& size, std::size_t most_bytes,
                              const Tree& tree) {
  throw Error(ExitCode::usage,
              fmt::format("code: {} has {}, and {} can travel with a run; the largest files are {}",
                          printable(folder.string()), size, human_size(most_bytes), largest_of(tree)),
              "leave files out with exclude: or a file .mlkignore, put data on a volume (data:), or build an "
              "image that holds the code");
}

class Descriptor {
 public:
  // Nobody may put a link or a pipe in the place of the file meanwhile.
  explicit Descriptor(const fs::path& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

std::string content_of(const fs::path& path, std::uint64_t size) {
  const std::string shown = printable(path.string());
  const auto fail = [&] {
    throw Error(ExitCode::failure,
                fmt::format("code: {}: {}", shown, std::generic_category().message(errno)));
  };
  const Descriptor file(path);
  struct stat now{};
  if (file.number() < 0 || fstat(file.number(), &now) != 0) fail();
  std::string out(size + 1, '\0');  // one more, to see whether it grows
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t count = read(file.number(), out.data() + have, out.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  if (!S_ISREG(now.st_mode) || have != size)
    throw Error(ExitCode::failure, fmt::format("code: {} changes while it is read", shown),
                "type the command again when nothing writes there, or leave it out with exclude:");
  out.resize(size);
  return out;
}

std::string tar_of(const fs::path& folder, const Tree& tree) {
  std::string tar;
  for (const TreeEntry& entry : tree.entries) {
    const bool is_file = entry.of_tar.kind == TarEntry::Kind::file;
    append_to_tar(tar, entry.of_tar, is_file ? content_of(folder / entry.of_tar.path, entry.size) : "");
  }
  end_tar(tar);
  return tar;
}

}  // namespace

Code pack_code(const fs::path& folder, const TreeRules& rules, std::size_t most_bytes) {
  const Tree tree = list_tree(folder, rules);
  Code out;
  std::uint64_t bytes = 0;
  for (const TreeEntry& entry : tree.entries) {
    if (entry.of_tar.kind == TarEntry::Kind::folder) continue;
    out.files.push_back(entry.of_tar.path);
    bytes += entry.size;
    if (entry.size > large_file)
      out.warnings.push_back(
          fmt::format("code: {} has {}; leave it out with exclude: if the program does not need it",
                      printable(entry.of_tar.path), human_size(entry.size)));
  }
  if (out.files.empty())
    throw Error(ExitCode::usage, fmt::format("code: {} has no files that travel", printable(folder.string())),
                "see what .gitignore, .mlkignore and exclude: leave out");
  for (const std::string& path : tree.no_files)
    out.warnings.push_back(
        fmt::format("code: {} is a socket, a pipe or a device, and does not travel", printable(path)));
  for (const std::string& pattern : tree.vain)
    out.warnings.push_back(fmt::format("code.include: nothing matches {}", printable(pattern)));
  if (bytes > most_unpacked_code) refuse_size(folder, human_size(bytes), most_bytes, tree);
  const std::string tar = tar_of(folder, tree);
  if (tar.size() > longest_tar) refuse_size(folder, human_size(tar.size()), most_bytes, tree);
  out.digest = sha256_hex(tar);
  out.archive = gzip(tar);
  if (out.archive.size() > most_bytes)
    refuse_size(folder, human_size(out.archive.size()) + " when it is compressed", most_bytes, tree);
  return out;
}

}  // namespace mlk::image
