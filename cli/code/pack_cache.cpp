#include "cli/code/pack_cache.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/image/open_file.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/own_folder.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

// A record is "version\nfingerprint\nchecksum of the rest\ndigest\narchive". A record of another version is
// ignored.
constexpr std::string_view version = "mlk code 1";
constexpr std::size_t digest_length = 64;
constexpr std::size_t longest_head = version.size() + 3 * (digest_length + 1) + 1;
// Some file systems count time in steps of two seconds, so a younger file may change without a new time.
constexpr std::chrono::seconds youngest(2);

// Appends a field with its length before it, so that two different lists of fields never give the same bytes.
void append(std::string& out, std::string_view field) {
  const auto length = static_cast<std::uint32_t>(field.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length).append(field);
}

template <typename Number>
void append_number(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string fingerprint_of(const Tree& tree) {
  constexpr std::size_t at_once = 32 << 10;
  Sha256 digest;
  std::string fields;
  for (const TreeEntry& entry : tree.entries) {
    append(fields, entry.of_tar.path);
    append(fields, entry.of_tar.target);
    append_number(fields, entry.of_tar.kind);
    append_number(fields, entry.of_tar.executable);
    append_number(fields, entry.size);
    append_number(fields, entry.stamp.modified);
    append_number(fields, entry.stamp.changed);
    append_number(fields, entry.stamp.inode);
    if (fields.size() < at_once) continue;
    digest.add(fields);
    fields.clear();
  }
  digest.add(fields);
  return digest.hex();
}

std::string name_of(const fs::path& folder, const TreeRules& rules, const ArchiveBounds& bounds) {
  std::string fields;
  append_number(fields, bounds.archive);
  append_number(fields, bounds.content);
  append(fields, folder.string());
  for (const auto* list : {&rules.include, &rules.exclude, &rules.never}) {
    append_number(fields, list->size());
    for (const std::string& each : *list) append(fields, each);
  }
  constexpr std::size_t letters = 32;
  return sha256_base32(fields, letters);
}

bool is_old_enough(const Tree& tree, std::chrono::system_clock::time_point listed) {
  const auto limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>((listed - youngest).time_since_epoch()).count();
  return std::all_of(tree.entries.begin(), tree.entries.end(), [&](const TreeEntry& entry) {
    return std::max(entry.stamp.modified, entry.stamp.changed) <= limit;
  });
}

// The text of a file. Empty if there is no regular file at this path, if another user could have written it,
// or if it has more than `most_bytes` bytes.
std::string read_own(const fs::path& path, std::size_t most_bytes) {
  const OpenFile file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) return "";
  if (!S_ISREG(status.st_mode) || !is_own(status) || std::cmp_greater(status.st_size, most_bytes)) return "";
  return read_descriptor(file.number(), path.string(), most_bytes);
}

void remove_least_used(const fs::path& cache, std::size_t most) {
  std::vector<std::pair<fs::file_time_type, fs::path>> records;
  std::error_code error;
  visit_folder(cache, [&](const fs::directory_entry& entry) {
    records.emplace_back(entry.last_write_time(error), entry.path());
  });
  if (records.size() <= most) return;
  std::sort(records.begin(), records.end());
  for (std::size_t i = 0; i < records.size() - most; ++i) fs::remove(records[i].second, error);
}

}  // namespace

KeptCode::KeptCode(fs::path cache, const fs::path& folder, const TreeRules& rules,
                   const ArchiveBounds& bounds)
    : cache_(std::move(cache)), most_bytes_(bounds.archive) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (!cache_.empty() && !error) record_ = cache_ / name_of(real, rules, bounds);
}

std::string KeptCode::head_of(const Tree& tree) const {
  return fmt::format("{}\n{}\n", version, fingerprint_of(tree));
}

std::optional<PackedCode> KeptCode::find(const Tree& tree) const {
  if (record_.empty()) return std::nullopt;
  std::string record;
  try {
    record = read_own(record_, longest_head + most_bytes_);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string head = head_of(tree);
  if (!record.starts_with(head) || record.size() < longest_head) return std::nullopt;
  const std::string_view rest = std::string_view(record).substr(head.size());
  const std::string_view content = rest.substr(digest_length + 1);
  if (!rest.starts_with(sha256_hex(content) + "\n")) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(record_, fs::file_time_type::clock::now(), ignored);
  return PackedCode{std::string(content.substr(0, digest_length)),
                    std::string(content.substr(digest_length + 1))};
}

void KeptCode::store(const Tree& tree, const PackedCode& packed,
                     std::chrono::system_clock::time_point listed) const {
  if (record_.empty() || !is_old_enough(tree, listed)) return;
  try {
    make_cache_folder(cache_);
    const std::string content = packed.digest + "\n" + packed.archive;
    write_checked_file(record_, head_of(tree) + sha256_hex(content) + "\n" + content, 0600);
    remove_least_used(cache_, most_records);
  } catch (const Error&) {
    // A record that cannot be written is no error: the next call reads all files again.
  }
}

}  // namespace mlk::image
