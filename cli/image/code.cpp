#include "cli/image/code.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "cli/image/gzip.h"
#include "cli/image/open_file.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t large_file = 10 << 20;
constexpr std::uint64_t most_of_a_layer = std::uint64_t{16} << 30;

using Take = std::function<void(std::string_view)>;

void read_code_file(const fs::path& path, std::uint64_t size, const Take& take) {
  try {
    read_whole(path, size, take);
  } catch (const Error& error) {
    throw Error(error.code(), std::string("code: ") + error.what(), error.hint());
  }
}

void write_tar(const fs::path& folder, const Tree& tree, const Take& take) {
  for (const TreeEntry& entry : tree.entries) {
    take(tar_header(entry.of_tar, entry.size));
    if (entry.of_tar.kind != TarEntry::Kind::file) continue;
    read_code_file(folder / entry.of_tar.path, entry.size, take);
    take(std::string(tar_padding(entry.size), '\0'));
  }
  std::string end;
  end_tar(end);
  take(end);
}

std::string largest_files(const Code& code) {
  std::vector<const TreeEntry*> entries;
  for (const TreeEntry& entry : code.tree.entries) {
    if (entry.size > 0) entries.push_back(&entry);
  }
  constexpr std::ptrdiff_t most_shown = 3;
  const auto end = entries.begin() + std::min(most_shown, std::ssize(entries));
  std::partial_sort(entries.begin(), end, entries.end(),
                    [](const TreeEntry* a, const TreeEntry* b) { return a->size > b->size; });
  std::vector<std::string> out;
  for (auto each = entries.begin(); each != end; ++each)
    out.push_back(fmt::format("{} ({})", printable((*each)->of_tar.path), human_size((*each)->size)));
  return "the largest files are " + join(out, ", ");
}

[[noreturn]] void refuse_change(const fs::path& folder) {
  throw Error(ExitCode::failure, fmt::format("code: {} changes while it is read", printable(folder.string())),
              "type the command again when nothing writes there, or leave it out with exclude:");
}

// In a layer such a name deletes the file with the rest of it, or all of the folder.
void refuse_marks_of_deletion(const fs::path& folder, const Tree& tree) {
  constexpr char mark[] = ".wh.";
  for (const TreeEntry& entry : tree.entries) {
    const std::string& path = entry.of_tar.path;
    if (!path.substr(path.rfind('/') + 1).starts_with(mark)) continue;
    throw Error(ExitCode::usage,
                fmt::format("code: {} has a name by which layers of images delete files",
                            printable((folder / path).string())),
                fmt::format("rename it, or leave it out with exclude: [/{}]", printable(path)));
  }
}

[[noreturn]] void refuse_size(const fs::path& folder, const std::string& size, std::size_t most_bytes,
                              const Code& code) {
  throw Error(ExitCode::usage,
              fmt::format("code: {} has {}, and {} can travel without an image; {}",
                          printable(folder.string()), size, human_size(most_bytes), largest_files(code)),
              "leave files out with exclude: or a file .mlkignore, put data on a volume (data:), or name a "
              "registry, where it becomes a layer of an image: registry: in the file, or MLK_REGISTRY");
}

}  // namespace

Code pack_code(const fs::path& folder, const TreeRules& rules, std::size_t most_bytes, TooLarge too_large) {
  Code out;
  out.tree = list_tree(folder, rules);
  for (const TreeEntry& entry : out.tree.entries) {
    if (entry.of_tar.kind == TarEntry::Kind::folder) continue;
    out.files.push_back(entry.of_tar.path);
    out.size += entry.size;
    if (entry.size > large_file)
      out.warnings.push_back(
          fmt::format("code: {} has {}; leave it out with exclude: if the program does not need it",
                      printable(entry.of_tar.path), human_size(entry.size)));
  }
  if (out.files.empty())
    throw Error(ExitCode::usage, fmt::format("code: {} has no files that travel", printable(folder.string())),
                "see what .gitignore, .mlkignore and exclude: leave out");
  for (const std::string& path : out.tree.no_files)
    out.warnings.push_back(
        fmt::format("code: {} is a socket, a pipe or a device, and does not travel", printable(path)));
  for (const std::string& pattern : out.tree.vain)
    out.warnings.push_back(fmt::format("code.include: nothing matches {}", printable(pattern)));
  if (out.size > most_of_a_layer)
    throw Error(ExitCode::usage,
                fmt::format("code: {} has {}, more than the {} that an image should hold; {}",
                            printable(folder.string()), human_size(out.size), human_size(most_of_a_layer),
                            largest_files(out)),
                "leave files out with exclude: or a file .mlkignore, and put data on a volume (data:)");
  const bool refuses = too_large == TooLarge::is_refused;
  if (refuses && out.size > most_unpacked_code) refuse_size(folder, human_size(out.size), most_bytes, out);
  Sha256 digest;
  std::size_t length = 0;
  bool fits = out.size <= most_unpacked_code;
  GzipStream gzip(6, [&](std::string_view part) {
    out.archive += part;
    fits = fits && out.archive.size() <= most_bytes;
  });
  write_tar(folder, out.tree, [&](std::string_view part) {
    digest.add(part);
    length += part.size();
    fits = fits && length <= longest_tar;
    if (fits) gzip.add(part);
  });
  if (fits) gzip.finish();
  fits = fits && out.archive.size() <= most_bytes;
  if (!fits && refuses) refuse_size(folder, "more when it is compressed", most_bytes, out);
  if (!fits) out.archive.clear();
  out.digest = digest.hex();
  return out;
}

Layer write_code_layer(const fs::path& folder, const Code& code, const std::string& prefix,
                       const fs::path& file) {
  constexpr unsigned for_all_to_read_and_write = 0666, for_all_to_execute = 0777;
  refuse_marks_of_deletion(folder, code.tree);
  LayerWriter writer(file);
  Sha256 digest;  // of the archive that is not a layer, which the run is named by
  const Take also = [&](std::string_view part) { digest.add(part); };
  for (std::size_t at = prefix.find('/'); at != prefix.npos; at = prefix.find('/', at + 1))
    writer.add({.path = prefix.substr(0, at), .kind = TarEntry::Kind::folder});
  writer.add({.path = prefix, .kind = TarEntry::Kind::folder, .mode = for_all_to_execute});
  for (const TreeEntry& entry : code.tree.entries) {
    TarEntry in_layer = entry.of_tar;
    in_layer.path = prefix + "/" + entry.of_tar.path;
    const bool is_file = entry.of_tar.kind == TarEntry::Kind::file;
    in_layer.mode = is_file && !entry.of_tar.executable ? for_all_to_read_and_write : for_all_to_execute;
    also(tar_header(entry.of_tar, entry.size));
    if (is_file) {
      writer.add_file(in_layer, folder / entry.of_tar.path, entry.size, also);
      also(std::string(tar_padding(entry.size), '\0'));
    } else {
      writer.add(in_layer);
    }
  }
  std::string end;
  end_tar(end);
  also(end);
  if (digest.hex() != code.digest) refuse_change(folder);
  return writer.finish();
}

std::string archive_of_layer(std::string_view layer, const std::string& prefix) {
  std::string out;
  for (const TarFile& file : read_tar(layer)) {
    if (!file.entry.path.starts_with(prefix + "/")) continue;
    TarEntry entry = file.entry;
    entry.path.erase(0, prefix.size() + 1);
    append_to_tar(out, entry, file.content);
  }
  end_tar(out);
  return out;
}

void write_archive(const fs::path& folder, const Code& code, const fs::path& file) {
  if (find_layer(file)) return;
  LayerWriter writer(file);
  for (const TreeEntry& entry : code.tree.entries) {
    if (entry.of_tar.kind == TarEntry::Kind::file) {
      writer.add_file(entry.of_tar, folder / entry.of_tar.path, entry.size);
    } else {
      writer.add(entry.of_tar);
    }
  }
  if (!writer.finish_as("sha256:" + code.digest)) refuse_change(folder);
}

}  // namespace mlk::image
