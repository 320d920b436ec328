#include "cli/code/code.h"

#include <algorithm>
#include <deque>
#include <future>

#include <fmt/format.h>

#include "cli/code/pack_cache.h"
#include "cli/code/stays.h"
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

// If code may become a layer, and its files together have more than this multiple of the allowed archive
// size, mlk does not try to make an archive. Programs rarely shrink to a tenth, so the archive would be too
// large.
constexpr std::size_t most_gain = 16;

using Take = std::function<void(std::string_view)>;

// The entries that one task reads. A large file is a batch of its own.
struct Batch {
  std::size_t begin = 0, end = 0;
  std::uint64_t size = 0;  // of the files
};

constexpr std::uint64_t batch_bytes = 1 << 20;
constexpr std::size_t batch_entries = 600, batches_ahead = 2;

std::vector<Batch> batches_of(const std::vector<TreeEntry>& entries) {
  std::vector<Batch> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (out.empty() || out.back().size + entries[i].size > batch_bytes ||
        out.back().end - out.back().begin == batch_entries)
      out.push_back({.begin = i, .end = i});
    out.back().end = i + 1;
    out.back().size += entries[i].size;
  }
  return out;
}

// The part of the archive for a batch. mlk reuses the memory of a part, because fresh memory is slow.
struct Part {
  std::string memory;
  std::size_t size = 0;

  char* room_for(std::size_t more) {
    if (memory.size() < size + more) memory.resize(2 * (size + more));
    return memory.data() + size;
  }
  void add(std::string_view bytes) {
    bytes.copy(room_for(bytes.size()), bytes.size());
    size += bytes.size();
  }
};

class TarOfFolder {
 public:
  TarOfFolder(const fs::path& folder, const Tree& tree) : folder_(folder), tree_(tree) {}

  // Opening ten thousand files takes as long as computing the digest of their content. So other threads open
  // and read the files.
  void write(const Take& take) const {
    const std::vector<Batch> batches = batches_of(tree_.entries);
    std::deque<std::future<Part>> ahead;
    std::vector<Part> parts(batches_ahead);
    for (std::size_t i = 0, begun = 0; i < batches.size(); ++i) {
      for (; begun < std::min(batches.size(), i + batches_ahead); ++begun) {
        ahead.push_back(std::async(std::launch::async,
                                   [this, batch = batches[begun], part = std::move(parts.back())]() mutable {
                                     read(batch, part);
                                     return std::move(part);
                                   }));
        parts.pop_back();
      }
      parts.push_back(ahead.front().get());
      ahead.pop_front();
      take({parts.back().memory.data(), parts.back().size});
      if (is_large(batches[i])) stream(tree_.entries[batches[i].begin], take);
    }
    take(tar_end());
  }

 private:
  static bool is_large(const Batch& batch) { return batch.size > batch_bytes; }

  // Reads a batch into `part`, except for the content of a large file.
  void read(const Batch& batch, Part& part) const {
    part.size = 0;
    WayDown way(folder_);
    for (std::size_t i = batch.begin; i < batch.end; ++i) {
      const TreeEntry& entry = tree_.entries[i];
      part.add(tar_header(entry.of_tar, entry.size));
      if (entry.of_tar.kind != TarEntry::Kind::file || is_large(batch)) continue;
      const OpenFile* open = nullptr;
      named("", [&] { open = &way.folder_of(entry.of_tar.path); });
      named(folder_.string() + "/",
            [&] { read_whole(*open, entry.of_tar.path, entry.size, part.room_for(entry.size + 1)); });
      part.size += entry.size;
      part.add({zeros, tar_padding(entry.size)});
    }
  }

  void stream(const TreeEntry& entry, const Take& take) const {
    named("", [&] {
      WayDown way(folder_);
      read_whole(way.folder_of(entry.of_tar.path), folder_ / entry.of_tar.path, entry.size, take);
    });
    take({zeros, tar_padding(entry.size)});
  }

  // Runs `action`. The message of each Error that `action` throws begins with a path. Puts "code: " and
  // `before` in front of this path.
  template <typename Action>
  static void named(const std::string& before, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("code: {}{}", printable(before), error.what()), error.hint());
    }
  }

  static constexpr char zeros[tar_block] = {};
  const fs::path& folder_;
  const Tree& tree_;
};

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

// In a layer of an image, a file .wh.NAME deletes the file NAME of the layers below, and .wh..wh..opq deletes
// the whole content of its folder.
void refuse_marks_of_deletion(const fs::path& folder, const Tree& tree) {
  constexpr char mark[] = ".wh.";
  for (const TreeEntry& entry : tree.entries) {
    const std::string& path = entry.of_tar.path;
    if (!path.substr(path.rfind('/') + 1).starts_with(mark)) continue;
    throw Error(ExitCode::usage,
                fmt::format("code: the name of {} begins with .wh., by which image layers delete files",
                            printable((folder / path).string())),
                fmt::format("rename it, or leave it out with exclude: [/{}]", printable(path)));
  }
}

[[noreturn]] void refuse_size(const fs::path& folder, const std::string& size, std::size_t most_bytes,
                              const Code& code) {
  throw Error(
      ExitCode::usage,
      fmt::format("code: {} has {}, but at most {} can travel without an image; {}",
                  printable(folder.string()), size, human_size(most_bytes), largest_files(code)),
      "leave files out with exclude: or a file .mlkignore, put data on a volume (data:), or name a registry "
      "(registry: in the file, or MLK_REGISTRY), so that the code becomes a layer of an image");
}

void warn_and_count(const fs::path& folder, Code& out) {
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
}

// Warns of pointers of Git LFS. Reads files only if the code has a file .gitattributes, because projects with
// Git LFS usually have one.
void warn_of_pointers(const fs::path& folder, Code& out) {
  const auto tells_git = [](const TreeEntry& entry) {
    return name_of_path(entry.of_tar.path) == ".gitattributes";
  };
  if (std::none_of(out.tree.entries.begin(), out.tree.entries.end(), tells_git)) return;
  std::vector<std::string> found;
  WayDown way(folder);
  for (const TreeEntry& entry : out.tree.entries) {
    if (entry.of_tar.kind != TarEntry::Kind::file || !may_be_lfs_pointer(entry.size)) continue;
    std::string content;
    read_whole(way.folder_of(entry.of_tar.path), folder / entry.of_tar.path, entry.size,
               [&](std::string_view part) { content += part; });
    if (is_lfs_pointer(content)) found.push_back(printable(entry.of_tar.path));
  }
  constexpr std::size_t most_shown = 3;
  const std::size_t all = found.size();
  if (all == 0) return;
  found.resize(std::min(all, most_shown));
  out.warnings.push_back(
      fmt::format("code: {} of Git LFS travel without their content ({}{}); fetch it first: git lfs pull",
                  all == 1 ? "1 pointer" : fmt::format("{} pointers", all), join(found, ", "),
                  all > most_shown ? ", ..." : ""));
}

// Computes the digest and compresses the archive. Reads each file only once.
PackedCode read_and_pack(const fs::path& folder, const Code& code, const ArchiveBounds& bounds) {
  PackedCode out;
  Sha256 digest;
  std::size_t length = 0;
  bool fits = code.size <= bounds.content;
  GzipStream gzip(6, [&](std::string_view part) {
    out.archive += part;
    fits = fits && out.archive.size() <= bounds.archive;
  });
  TarOfFolder(folder, code.tree).write([&](std::string_view part) {
    digest.add(part);
    length += part.size();
    fits = fits && length <= longest_tar;
    if (fits) gzip.add(part);
  });
  if (fits) gzip.finish();
  fits = fits && out.archive.size() <= bounds.archive;
  if (!fits) out.archive.clear();
  out.digest = digest.hex();
  return out;
}

// Writes the folder into a layer, and returns the digest of the code.
std::string write_layer(LayerWriter& writer, const fs::path& folder, const Tree& tree,
                        const std::string& prefix) {
  constexpr unsigned for_all_to_read_and_write = 0666, for_all_to_execute = 0777;
  refuse_marks_of_deletion(folder, tree);
  WayDown way(folder);
  Sha256 digest;  // of the archive without the prefix; the digest is part of the run's identity
  const Take also = [&](std::string_view part) { digest.add(part); };
  for (std::size_t at = prefix.find('/'); at != prefix.npos; at = prefix.find('/', at + 1))
    writer.add({.path = prefix.substr(0, at), .kind = TarEntry::Kind::folder});
  writer.add({.path = prefix, .kind = TarEntry::Kind::folder, .mode = for_all_to_execute});
  for (const TreeEntry& entry : tree.entries) {
    TarEntry in_layer = entry.of_tar;
    in_layer.path = prefix + "/" + entry.of_tar.path;
    const bool is_file = entry.of_tar.kind == TarEntry::Kind::file;
    in_layer.mode = is_file && !entry.of_tar.executable ? for_all_to_read_and_write : for_all_to_execute;
    also(tar_header(entry.of_tar, entry.size));
    if (is_file) {
      writer.add_file(in_layer, way.folder_of(entry.of_tar.path), folder / entry.of_tar.path, entry.size,
                      also);
      also(std::string(tar_padding(entry.size), '\0'));
    } else {
      writer.add(in_layer);
    }
  }
  also(tar_end());
  return digest.hex();
}

// Computes the digest and writes the layer. Reads each file only once.
PackedCode read_into_layer(const fs::path& folder, const Tree& tree, const CodeLayers& layers) {
  LayerWriter writer(layers.file_of("new"), layers.go_on);
  const std::string digest = write_layer(writer, folder, tree, layers.prefix);
  (void)writer.finish([&](const std::string&) { return layers.file_of(digest); });
  return {.digest = digest, .archive = ""};
}

}  // namespace

fs::path CodeLayers::file_of(const std::string& digest) const {
  return cache / ("code-" + digest + ".tar.gz");
}

Code pack_code(const fs::path& folder, const TreeRules& rules, const PackOptions& options) {
  Code out;
  out.tree = list_tree(folder, rules);
  warn_and_count(folder, out);
  warn_of_pointers(folder, out);
  const bool refuses = options.too_large == TooLarge::is_refused;
  if (refuses && out.size > most_unpacked_code)
    refuse_size(folder, human_size(out.size), options.most_bytes, out);
  const std::size_t content =
      refuses ? most_unpacked_code : std::min(most_unpacked_code, most_gain * options.most_bytes);
  const ArchiveBounds bounds{.archive = options.most_bytes, .content = content};
  const KeptCode kept(options.cache, folder, rules, bounds);
  std::optional<PackedCode> packed = kept.find(out.tree);
  if (!packed) {
    packed = options.layers && options.most_bytes == 0 && out.size <= long_to_compress
                 ? read_into_layer(folder, out.tree, *options.layers)
                 : read_and_pack(folder, out, bounds);
    kept.store(out.tree, *packed, options.now);
  }
  if (packed->archive.empty() && refuses)
    refuse_size(folder, "more when it is compressed", options.most_bytes, out);
  out.archive = std::move(packed->archive);
  out.digest = std::move(packed->digest);
  return out;
}

void write_code_layer(const fs::path& folder, const Code& code, const CodeLayers& layers) {
  const fs::path file = layers.file_of(code.digest);
  if (find_layer(file)) return;
  LayerWriter writer(file, layers.go_on);
  if (write_layer(writer, folder, code.tree, layers.prefix) != code.digest) refuse_change(folder);
  (void)writer.finish();
}

std::string archive_of_layer(std::string_view layer, const std::string& prefix) {
  std::string out;
  for (const TarFile& file : read_tar(layer)) {
    if (!file.entry.path.starts_with(prefix + "/")) continue;
    TarEntry entry = file.entry;
    entry.path.erase(0, prefix.size() + 1);
    append_to_tar(out, entry, file.content);
  }
  out += tar_end();
  return out;
}

void write_archive(const fs::path& folder, const Code& code, const fs::path& file,
                   const std::function<bool()>& go_on) {
  if (find_whole_layer(file, "sha256:" + code.digest, go_on)) return;
  LayerWriter writer(file, go_on);
  WayDown way(folder);
  for (const TreeEntry& entry : code.tree.entries) {
    if (entry.of_tar.kind == TarEntry::Kind::file) {
      writer.add_file(entry.of_tar, way.folder_of(entry.of_tar.path), folder / entry.of_tar.path, entry.size);
    } else {
      writer.add(entry.of_tar);
    }
  }
  if (!writer.finish_as("sha256:" + code.digest)) refuse_change(folder);
}

}  // namespace mlk::image
