// Checks that mlk does not read unchanged files of packed code again, and that it reads changed files.
#include "cli/code/pack_cache.h"

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/code/code.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/pack_cache");

namespace {

namespace fs = std::filesystem;
using mlk::image::KeptCode;
using mlk::image::PackedCode;
using std::chrono::hours;
using std::chrono::system_clock;

constexpr std::size_t most_archive = 1 << 20;
const std::string planted(64, 'd');  // no folder has this digest: it comes from a record

void put(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of code, and a cache with a planted record of the folder.
struct Kept {
  TemporaryFolder folder, home;
  fs::path cache = home.path() / "cache/code", file = folder.path() / "sub/train.py";

  Kept() {
    put(folder.path() / "a.py", "one");
    fs::create_directory(folder.path() / "sub");
    put(file, "two");
    fs::create_symlink("a.py", folder.path() / "link");
    plant();
  }
  KeptCode kept() const {
    return {cache, folder.path(), {}, {.archive = most_archive, .content = mlk::image::most_unpacked_code}};
  }
  mlk::image::Tree tree() const { return mlk::image::list_tree(folder.path(), {}); }
  // Pretends to be an hour later, so that the files are old enough.
  void plant(system_clock::duration later = hours(1)) const {
    kept().store(tree(), {planted, "an archive"}, system_clock::now() + later);
  }
  std::string digest() const {
    return mlk::image::pack_code(folder.path(), {}, {.most_bytes = most_archive, .cache = cache}).digest;
  }
  std::string true_digest() const { return mlk::image::pack_code(folder.path(), {}, {most_archive}).digest; }
  std::ptrdiff_t records() const {
    return fs::exists(cache) ? std::distance(fs::directory_iterator(cache), fs::directory_iterator()) : 0;
  }
  fs::path record() const { return fs::directory_iterator(cache)->path(); }
};

void set_modified(const fs::path& file, const struct stat& as) {
  const timespec times[] = {as.st_atim, as.st_mtim};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("pack_code() reads no file and returns the stored archive if the code has not changed") {
  const Kept code;
  CHECK(code.digest() == planted);
  const std::optional<PackedCode> found = code.kept().find(code.tree());
  REQUIRE(found);
  CHECK(found->archive == "an archive");
  struct stat status{};
  REQUIRE(stat(code.record().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("pack_code() detects changed content, names, executable bits and links") {
  const std::function<void(const Kept&)> changes[] = {
      [](const Kept& code) { put(code.file, "longer"); },
      [](const Kept& code) { put(code.folder.path() / "new", ""); },
      [](const Kept& code) { fs::remove(code.file); },
      [](const Kept& code) { fs::rename(code.file, code.folder.path() / "sub/other.py"); },
      [](const Kept& code) { fs::permissions(code.file, fs::perms::owner_exec, fs::perm_options::add); },
      [](const Kept& code) { fs::create_directory(code.folder.path() / "empty"); },
      [](const Kept& code) {
        fs::remove(code.folder.path() / "link");
        fs::create_symlink("sub", code.folder.path() / "link");
      }};
  for (const auto& change : changes) {
    const Kept code;
    change(code);
    CHECK(code.digest() == code.true_digest());
  }
}

TEST_CASE("pack_code() detects changed content of the same size even if the file has its old time again") {
  const Kept code;
  struct stat before{};
  REQUIRE(stat(code.file.c_str(), &before) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // more than a tick of the file system's clock
  put(code.file, "TWO");
  set_modified(code.file, before);
  struct stat after{};
  REQUIRE(stat(code.file.c_str(), &after) == 0);
  REQUIRE(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
  CHECK(code.digest() == code.true_digest());
}

TEST_CASE("a file with a new time but the same content gives the same digest") {
  const Kept code;
  const std::string before = code.true_digest();
  fs::last_write_time(code.file, fs::file_time_type::clock::now() - hours(5));
  CHECK(code.digest() == before);
}

TEST_CASE("pack_code() stores no record if a file is younger than two seconds") {
  for (const auto later : {system_clock::duration(0), system_clock::duration(std::chrono::seconds(1))}) {
    const Kept code;
    fs::remove_all(code.cache);
    code.plant(later);
    CHECK(code.records() == 0);
    CHECK(code.digest() == code.true_digest());  // this call must not store a record either
    CHECK(code.records() == 0);
  }
}

TEST_CASE("find() ignores a record that is damaged, cut off or too long") {
  const Kept code;
  const std::string whole = content_of(code.record());
  const fs::path record = code.record();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(record, whole.substr(0, size));
    CHECK_FALSE(code.kept().find(code.tree()));
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 1);
    put(record, other);
    CHECK_FALSE(code.kept().find(code.tree()));
  }
  put(record, whole + std::string(2 * most_archive, 'x'));
  CHECK_FALSE(code.kept().find(code.tree()));
  put(record, whole);
  CHECK(code.digest() == planted);
}

TEST_CASE("find() ignores a record that other users can write, or that is a link or a pipe") {
  const Kept code;
  const fs::path record = code.record();
  for (const fs::perms bit : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(record, bit, fs::perm_options::add);
    CHECK(code.digest() == code.true_digest());
    fs::permissions(record, bit, fs::perm_options::remove);
  }
  CHECK(code.digest() == planted);
  if (geteuid() == 0) {
    REQUIRE(chown(record.c_str(), 12345, 12345) == 0);
    CHECK(code.digest() == code.true_digest());
    REQUIRE(chown(record.c_str(), 0, 0) == 0);
  }
  fs::rename(record, code.home.path() / "elsewhere");
  fs::create_symlink(code.home.path() / "elsewhere", record);
  CHECK(code.digest() == code.true_digest());
  fs::remove(record);
  REQUIRE(mkfifo(record.c_str(), 0600) == 0);
  CHECK(code.digest() == code.true_digest());
}

TEST_CASE("pack_code() returns the digest even if no record can be stored") {
  const Kept code;
  for (const char* nowhere : {"", "/proc/mlk", "/dev/null/code"})
    CHECK(mlk::image::pack_code(code.folder.path(), {}, {.most_bytes = most_archive, .cache = nowhere})
              .digest == code.true_digest());
}

TEST_CASE("pack_code() stores a separate record for each set of rules and for each bound") {
  const Kept code;
  const auto pack = [&](const mlk::image::TreeRules& rules, std::size_t most) {
    return mlk::image::pack_code(
        code.folder.path(), rules,
        {.most_bytes = most, .cache = code.cache, .now = system_clock::now() + hours(1)});
  };
  CHECK(pack({.include = {}, .exclude = {"*.txt"}, .never = {}}, most_archive).digest == code.true_digest());
  CHECK(code.records() == 2);
  CHECK(pack({}, most_archive / 2).digest == code.true_digest());
  CHECK(code.records() == 3);
  CHECK(code.digest() == planted);
}

TEST_CASE("store() removes the least recently used records if there are too many records") {
  const Kept code;
  const fs::path first = code.record();
  for (std::size_t i = 0; i < KeptCode::most_records + 3; ++i) {
    const fs::path other = code.cache / std::to_string(i);
    put(other, "a record");
    fs::last_write_time(other, fs::file_time_type::clock::now() - hours(100 + i));
  }
  fs::last_write_time(first, fs::file_time_type::clock::now() - hours(1000));
  CHECK(code.digest() == planted);  // used a moment ago
  code.plant();
  CHECK(code.records() == static_cast<std::ptrdiff_t>(KeptCode::most_records));
  CHECK(fs::exists(first));
  CHECK(fs::exists(code.cache / "0"));
  CHECK_FALSE(fs::exists(code.cache / std::to_string(KeptCode::most_records + 2)));
}

TEST_CASE("pack_code() gives the right digest and an archive to each of eight threads at the same time") {
  const Kept code;
  fs::remove_all(code.cache);
  const std::string digest = code.true_digest();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const mlk::image::Code packed = mlk::image::pack_code(
          code.folder.path(), {},
          {.most_bytes = most_archive, .cache = code.cache, .now = system_clock::now() + hours(1)});
      if (packed.digest == digest && !packed.archive.empty()) ++right;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}

namespace {

// A tree whose entries are old enough for a record.
mlk::image::Tree tree_of(std::size_t entries) {
  mlk::image::Tree out;
  for (std::size_t i = 0; i < entries; ++i)
    out.entries.push_back({.of_tar = {.path = std::to_string(i), .target = "t"},
                           .size = 7,
                           .stamp = {.modified = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(i),
                                     .changed = 1'700'000'000'000'000'001,
                                     .inode = 5}});
  return out;
}

system_clock::time_point time_after_1970(std::int64_t nanoseconds) {
  return system_clock::time_point(
      std::chrono::duration_cast<system_clock::duration>(std::chrono::nanoseconds(nanoseconds)));
}

}  // namespace

TEST_CASE("find() returns no record if any field of any entry differs") {
  using mlk::image::TreeEntry;
  const std::function<void(TreeEntry&)> changes[] = {
      [](TreeEntry& entry) { entry.of_tar.path += "x"; },
      [](TreeEntry& entry) { entry.of_tar.target += "x"; },
      [](TreeEntry& entry) { entry.of_tar.kind = mlk::image::TarEntry::Kind::link; },
      [](TreeEntry& entry) { entry.of_tar.executable = true; },
      [](TreeEntry& entry) { ++entry.size; },
      [](TreeEntry& entry) { --entry.stamp.modified; },
      [](TreeEntry& entry) { ++entry.stamp.changed; },
      [](TreeEntry& entry) { ++entry.stamp.inode; },
      [](TreeEntry& entry) {  // the same letters, in other fields
        entry.of_tar.path += "t";
        entry.of_tar.target.clear();
      }};
  const TemporaryFolder folder, cache;
  const KeptCode kept(cache.path(), folder.path(), {}, {.archive = most_archive, .content = 1});
  constexpr std::size_t many = 3000;  // more entries than are hashed at once
  mlk::image::Tree tree = tree_of(many);
  kept.store(tree, {planted, "an archive"}, system_clock::now());
  REQUIRE(kept.find(tree));
  for (const auto& change : changes) {
    for (const std::size_t place : {std::size_t{0}, many / 2, many - 1}) {
      const TreeEntry before = tree.entries[place];
      change(tree.entries[place]);
      CHECK_FALSE(kept.find(tree));
      tree.entries[place] = before;
    }
  }
  CHECK(kept.find(tree)->digest == planted);
  tree.entries.pop_back();
  CHECK_FALSE(kept.find(tree));
}

TEST_CASE("store() stores a record if the newest time of all files is at least two seconds old") {
  struct Row {
    std::int64_t modified, changed, listed;
    bool is_kept;
  };
  constexpr std::int64_t second = 1'000'000'000, time = 1'700'000'000 * second;
  for (const Row& row :
       {Row{time, time, time + 2 * second, true}, Row{time, time, time + 2 * second - 1, false},
        Row{time + 1, time, time + 2 * second, false}, Row{time, time + 1, time + 2 * second, false},
        Row{time - 9, time, time + 2 * second, true}, Row{time + 1, time + 1, time + 2 * second + 1, true},
        Row{time, time, time, false}}) {
    const TemporaryFolder folder, cache;
    const KeptCode kept(cache.path(), folder.path(), {}, {.archive = most_archive, .content = 1});
    mlk::image::Tree tree = tree_of(3);
    for (mlk::image::TreeEntry& entry : tree.entries) entry.stamp = {};
    tree.entries[1].stamp = {.modified = row.modified, .changed = row.changed, .inode = 1};
    kept.store(tree, {planted, "an archive"}, time_after_1970(row.listed));
    CHECK(kept.find(tree).has_value() == row.is_kept);
  }
}

TEST_CASE("find() returns a record if its archive is empty or has at most the allowed size") {
  const TemporaryFolder folder, cache;
  constexpr std::size_t most = 1000;
  const KeptCode kept(cache.path(), folder.path(), {}, {.archive = most, .content = 1});
  const mlk::image::Tree tree = tree_of(1);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, most}) {
    kept.store(tree, {planted, std::string(size, 'a')}, system_clock::now());
    const std::optional<PackedCode> found = kept.find(tree);
    REQUIRE(found);
    CHECK(found->digest == planted);
    CHECK(found->archive == std::string(size, 'a'));
  }
  kept.store(tree, {planted, std::string(most + 1, 'a')}, system_clock::now());
  CHECK_FALSE(kept.find(tree));
}

TEST_CASE("KeptCode has a separate record for each list of rules, each bound and each folder") {
  const TemporaryFolder folder, other, cache;
  using mlk::image::TreeRules;
  const mlk::image::Tree tree = tree_of(1);
  const mlk::image::ArchiveBounds bounds{.archive = 1000, .content = 2000};
  const std::vector<KeptCode> all = [&] {
    std::vector<KeptCode> out;
    for (const TreeRules& rules :
         {TreeRules{}, TreeRules{{"a"}, {}, {}}, TreeRules{{}, {"a"}, {}}, TreeRules{{}, {}, {"a"}},
          TreeRules{{"a", "b"}, {}, {}}, TreeRules{{"ab"}, {}, {}}, TreeRules{{"b", "a"}, {}, {}},
          TreeRules{{"a"}, {"b"}, {}}})
      out.emplace_back(cache.path(), folder.path(), rules, bounds);
    out.emplace_back(cache.path(), other.path(), TreeRules{}, bounds);
    out.emplace_back(cache.path(), folder.path(), TreeRules{}, mlk::image::ArchiveBounds{1001, 2000});
    out.emplace_back(cache.path(), folder.path(), TreeRules{}, mlk::image::ArchiveBounds{1000, 2001});
    return out;
  }();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(all[i].find(tree));
    all[i].store(tree, {planted, std::to_string(i)}, system_clock::now());
  }
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].find(tree)->archive == std::to_string(i));
  fs::create_directory_symlink(folder.path(), other.path() / "link");
  CHECK(KeptCode(cache.path(), other.path() / "link", {}, bounds).find(tree)->archive == "0");
  CHECK_FALSE(KeptCode(cache.path(), other.path() / "gone", {}, bounds).find(tree));
}
