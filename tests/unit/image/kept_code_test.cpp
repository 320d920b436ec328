// What is kept of packed code: files that have not changed are not read again, and all others are.
#include "cli/image/kept_code.h"

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/image/code.h"
#include "tests/unit/util/temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using mlk::image::KeptCode;
using mlk::image::PackedCode;
using std::chrono::hours;
using std::chrono::system_clock;

constexpr std::size_t most_archive = 1 << 20;
const std::string planted(64, 'd');  // no folder has this digest: who says it has read no file

void put(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of code, and a cache in which a record of it is planted.
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
  // An hour later, so that the files are old enough.
  void plant(system_clock::duration later = hours(1)) const {
    kept().keep(tree(), {planted, "an archive"}, system_clock::now() + later);
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

TEST_CASE("no file is read when nothing has changed, and the archive is that of before") {
  const Kept code;
  CHECK(code.digest() == planted);
  const std::optional<PackedCode> found = code.kept().find(code.tree());
  REQUIRE(found);
  CHECK(found->archive == "an archive");
  struct stat status{};
  REQUIRE(stat(code.record().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("any change of a file, its name, its bit or a link is seen") {
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

TEST_CASE("content of the same size is seen although the time of the file was set back") {
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

TEST_CASE("a file that was only touched is read again, and gives the same digest") {
  const Kept code;
  const std::string before = code.true_digest();
  fs::last_write_time(code.file, fs::file_time_type::clock::now() - hours(5));
  CHECK(code.digest() == before);
}

TEST_CASE("nothing is kept of files that may change within the same tick of the clock") {
  for (const auto later : {system_clock::duration(0), system_clock::duration(std::chrono::seconds(1))}) {
    const Kept code;
    fs::remove_all(code.cache);
    code.plant(later);
    CHECK(code.records() == 0);
    CHECK(code.digest() == code.true_digest());  // nor by a call of now
    CHECK(code.records() == 0);
  }
}

TEST_CASE("a record that was damaged, cut off or written by another version says nothing") {
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

TEST_CASE("a record that others can write, a link and a pipe in its place say nothing") {
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

TEST_CASE("where nothing can be kept the code is packed as well") {
  const Kept code;
  for (const char* nowhere : {"", "/proc/mlk", "/dev/null/code"})
    CHECK(mlk::image::pack_code(code.folder.path(), {}, {.most_bytes = most_archive, .cache = nowhere})
              .digest == code.true_digest());
}

TEST_CASE("other rules and other bounds have records of their own") {
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

TEST_CASE("the records that were not used for longest go when there are too many") {
  const Kept code;
  const fs::path first = code.record();
  for (std::size_t i = 0; i < KeptCode::most_records + 3; ++i) {
    const fs::path other = code.cache / std::to_string(i);
    put(other, "a record");
    fs::last_write_time(other, fs::file_time_type::clock::now() - hours(100 + i));
  }
  fs::last_write_time(first, fs::file_time_type::clock::now() - hours(1000));
  CHECK(code.digest() == planted);  // used just now
  code.plant();
  CHECK(code.records() == static_cast<std::ptrdiff_t>(KeptCode::most_records));
  CHECK(fs::exists(first));
  CHECK(fs::exists(code.cache / "0"));
  CHECK_FALSE(fs::exists(code.cache / std::to_string(KeptCode::most_records + 2)));
}

TEST_CASE("several calls at once all give the digest") {
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
