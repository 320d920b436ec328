// Checks how much code may travel as an archive or as a layer, and the messages about these bounds.
#include <algorithm>
#include <fstream>
#include <functional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/own_files.h"
#include "cli/util/process.h"
#include "cli/util/text.h"
#include "tests/unit/code/packed_code.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/code_bounds");

namespace {

namespace fs = std::filesystem;
using mlk::image::Code;
using mlk::image::TreeRules;
using mlk::test::code::digest_of;
using mlk::test::code::files_of;
using mlk::test::code::layer_of;
using mlk::test::code::Paths;
using mlk::test::code::plenty;
using mlk::test::code::refusal;
using mlk::test::code::write;

}  // namespace

TEST_CASE("pack_code() makes no archive of more than the allowed number of bytes") {
  const TemporaryFolder folder;
  write(folder.path() / "noise", mlk::random_bytes(100'000));
  const std::size_t size = mlk::image::pack_code(folder.path(), {}, {plenty}).archive.size();
  const auto packed = [&](std::size_t most) {
    return mlk::image::pack_code(folder.path(), {},
                                 {.most_bytes = most, .too_large = mlk::image::TooLarge::has_no_archive});
  };
  CHECK(packed(size).archive.size() == size);
  CHECK(packed(size - 1).archive.empty());
  CHECK(refusal(folder.path(), size).code() == mlk::ExitCode::ok);
  const mlk::Error error = refusal(folder.path(), size - 1);
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find(" has more when it is compressed, but at most ") != std::string::npos);
}

TEST_CASE(
    "pack_code() makes no archive if the code is more than sixteen times as large as an archive may be") {
  const TemporaryFolder folder;
  constexpr std::size_t most = 64 << 10;
  const auto packed = [&](std::size_t size) {
    write(folder.path() / "zeros", std::string(size, '\0'));
    return mlk::image::pack_code(folder.path(), {},
                                 {.most_bytes = most, .too_large = mlk::image::TooLarge::has_no_archive});
  };
  CHECK_FALSE(packed(16 * most).archive.empty());
  CHECK(packed(16 * most + 1).archive.empty());
}

TEST_CASE("pack_code() warns of files above 10 MiB, and names the three largest if the code is too large") {
  const TemporaryFolder folder;
  const auto sized = [&](const char* name, std::uintmax_t size) {
    write(folder.path() / name, "");
    fs::resize_file(folder.path() / name, size);
  };
  sized("exact", 10 << 20);
  sized("more", (10 << 20) + 1);
  sized("empty", 0);
  const Code code = mlk::image::pack_code(
      folder.path(), {}, {.most_bytes = 0, .too_large = mlk::image::TooLarge::has_no_archive});
  CHECK(code.warnings ==
        Paths{"code: more has 10.1 MiB; leave it out with exclude: if the program does not need it"});
  CHECK(code.archive.empty());
  CHECK(code.size == (20 << 20) + 1);
  CHECK(code.files == Paths{"empty", "exact", "more"});
  sized("a", 1);
  sized("large", 60 << 20);
  CHECK(std::string(refusal(folder.path()).what())
            .ends_with("; the largest files are large (60.0 MiB), more (10.1 MiB), exact (10.0 MiB)"));
}

TEST_CASE("pack_code() refuses code above 64 MiB if there is no image, and code above 16 GiB in any case") {
  const TemporaryFolder folder;
  const auto told = [&](std::uintmax_t size) {
    write(folder.path() / "zeros", "");
    fs::resize_file(folder.path() / "zeros", size);
    return std::string(refusal(folder.path()).what());
  };
  CHECK(told(64 << 20) == "accepted");
  CHECK(told((64 << 20) + 1).find(" has 64.1 MiB, but at most 1.0 MiB can travel without an image") !=
        std::string::npos);
  CHECK(told(std::uintmax_t{16} << 30).find(" can travel without an image") != std::string::npos);
  CHECK(told((std::uintmax_t{16} << 30) + 1)
            .find(" has 16384.1 MiB, more than the 16384.0 MiB that an image should hold") !=
        std::string::npos);
}

TEST_CASE("if no archive is allowed, pack_code() writes a layer for code of at most 64 MiB") {
  const TemporaryFolder folder;
  write(folder.path() / "zeros", "");
  const auto layers_of = [&](std::uintmax_t size, std::size_t most) {
    const TemporaryFolder cache;
    fs::resize_file(folder.path() / "zeros", size);
    const Code code = mlk::image::pack_code(
        folder.path(), {},
        {.most_bytes = most,
         .too_large = mlk::image::TooLarge::has_no_archive,
         .layers = mlk::image::CodeLayers{.cache = cache.path(), .prefix = "mlk/code"}});
    CHECK(code.digest.size() == 64);
    return std::distance(fs::directory_iterator(cache.path()), {});
  };
  CHECK(layers_of(5, 0) == 2);
  CHECK(layers_of(5, plenty) == 0);
  CHECK(layers_of(64 << 20, 0) == 2);
  CHECK(layers_of((64 << 20) + 1, 0) == 0);
}

TEST_CASE("pack_code() packs all bytes of each file, also of files near the batch size of 1 MiB") {
  const TemporaryFolder folder;
  constexpr std::size_t at_once = 1 << 20;
  write(folder.path() / "a", std::string(at_once / 2, 'a'));
  write(folder.path() / "b", std::string(at_once / 2, 'b'));
  write(folder.path() / "c", std::string(at_once, 'c'));
  write(folder.path() / "d", "");
  write(folder.path() / "e", std::string(at_once + 1, 'e'));
  write(folder.path() / "f/g", "");
  write(folder.path() / "f/h", std::string(at_once - 1, 'h'));
  for (int i = 0; i < 601; ++i) write(folder.path() / "many" / std::to_string(10'000 + i), "x");
  const Code code = mlk::image::pack_code(folder.path(), {}, {8 << 20});
  const std::string tar = mlk::image::gunzip(code.archive, 16 << 20);
  CHECK(mlk::sha256_hex(tar) == code.digest);
  std::uint64_t size = 0;
  for (const mlk::image::TarFile& file : mlk::image::read_tar(tar)) {
    if (file.entry.kind != mlk::image::TarEntry::Kind::file) continue;
    size += file.content.size();
    const std::string& path = file.entry.path;
    const char letter = path.starts_with("many") ? 'x' : path.back();
    CHECK_MESSAGE(file.content.find_first_not_of(letter) == file.content.npos, path);
    CHECK_MESSAGE(file.content.size() == fs::file_size(folder.path() / path), path);
  }
  CHECK(size == code.size);
  CHECK(size == 4 * at_once + 601);
}

TEST_CASE("the error of pack_code() names a file that changes while it is packed") {
  const fs::path folder = "/proc/sys/kernel/random";  // files in this folder report a size of 0
  if (!fs::exists(folder / "boot_id")) return;
  const TemporaryFolder cache;
  for (const std::size_t most : {plenty, std::size_t{0}}) {
    try {
      (void)mlk::image::pack_code(
          folder, {.include = {}, .exclude = {"*", "!boot_id"}, .never = {}},
          {.most_bytes = most,
           .too_large = mlk::image::TooLarge::has_no_archive,
           .layers = mlk::image::CodeLayers{.cache = cache.path(), .prefix = "mlk/code"}});
      FAIL("it was packed");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::failure);
      CHECK(std::string(error.what()) ==
            (most > 0 ? "code: " : "") +
                std::string("/proc/sys/kernel/random/boot_id changes while it is read"));
      CHECK_FALSE(error.hint().empty());
    }
  }
  CHECK(fs::is_empty(cache.path()));
}

TEST_CASE("a warning counts all pointers of Git LFS, and names three of them") {
  const TemporaryFolder folder;
  write(folder.path() / ".gitattributes", "");
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 12345\n";
  for (const char* name : {"a", "b", "c"}) write(folder.path() / name, pointer);
  write(folder.path() / "none", std::string(pointer.size(), 'x'));
  write(folder.path() / "long", pointer + std::string(100, 'x'));
  fs::create_symlink("a", folder.path() / "link");
  const std::string rest = "; fetch it first: git lfs pull";
  CHECK(mlk::image::pack_code(folder.path(), {}, {plenty}).warnings ==
        Paths{"code: 3 pointers of Git LFS travel without their content (a, b, c)" + rest});
  write(folder.path() / "d/e", pointer);
  CHECK(mlk::image::pack_code(folder.path(), {}, {plenty}).warnings ==
        Paths{"code: 4 pointers of Git LFS travel without their content (a, b, c, ...)" + rest});
  fs::rename(folder.path() / ".gitattributes", folder.path() / "d/.gitattributes");
  CHECK(mlk::image::pack_code(folder.path(), {}, {plenty}).warnings.size() == 1);
}

TEST_CASE("archive_of_layer() returns the archive of the code, without entries outside of the prefix") {
  const TemporaryFolder folder, out;
  write(folder.path() / "src/train.py", "print()");
  write(folder.path() / "run.sh", "#!/bin/sh");
  fs::permissions(folder.path() / "run.sh", fs::perms::owner_all);
  fs::create_symlink("run.sh", folder.path() / "link");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  const mlk::image::Layer layer = layer_of(folder.path(), code, out.path());
  const std::string tar = mlk::image::gunzip(mlk::read_file(layer.file, plenty), plenty);
  CHECK(mlk::image::archive_of_layer(tar, "mlk/code") == mlk::image::gunzip(code.archive, plenty));
  std::string empty;
  empty += mlk::image::tar_end();
  CHECK(mlk::image::archive_of_layer(tar, "mlk/cod") == empty);
  CHECK_THROWS_AS((void)mlk::image::archive_of_layer("x", "mlk/code"), mlk::Error);
}

TEST_CASE("write_code_layer() makes each folder of the prefix, and lets every user write to the last one") {
  const TemporaryFolder folder;
  write(folder.path() / "f");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  for (const auto& [prefix, wanted] : std::vector<std::pair<std::string, Paths>>{
           {"a", {"a 0777", "a/f 0666"}}, {"a/b/c", {"a 0755", "a/b 0755", "a/b/c 0777", "a/b/c/f 0666"}}}) {
    const TemporaryFolder out;
    const mlk::image::CodeLayers layers{.cache = out.path(), .prefix = prefix};
    mlk::image::write_code_layer(folder.path(), code, layers);
    const std::string tar = mlk::image::gunzip(mlk::read_file(layers.file_of(code.digest), plenty), plenty);
    Paths found;
    for (const mlk::image::TarFile& file : mlk::image::read_tar(tar)) found.push_back(file.entry.path);
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)  // the header of each entry is one block
      CHECK(found[i] + " " + tar.substr(i * mlk::image::tar_block + 103, 4) == wanted[i]);
  }
}

TEST_CASE("pack_code(), write_code_layer() and write_archive() leave no file if the user interrupts mlk") {
  const TemporaryFolder folder, out;
  write(folder.path() / "f");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  const auto stop = [] { return false; };
  const std::function<void()> writings[] = {
      [&] {
        mlk::image::write_code_layer(folder.path(), code,
                                     {.cache = out.path(), .prefix = "mlk/code", .go_on = stop});
      },
      [&] { mlk::image::write_archive(folder.path(), code, out.path() / "archive", stop); },
      [&] {
        (void)mlk::image::pack_code(
            folder.path(), {},
            {.most_bytes = 0,
             .too_large = mlk::image::TooLarge::has_no_archive,
             .layers = mlk::image::CodeLayers{.cache = out.path(), .prefix = "mlk/code", .go_on = stop}});
      }};
  for (const auto& writing : writings) {
    try {
      writing();
      FAIL("it went on");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::interrupted);
    }
    CHECK(fs::is_empty(out.path()));
  }
}

TEST_CASE("write_code_layer() refuses a name that begins with .wh., and accepts .wh. later in the name") {
  const TemporaryFolder folder, out;
  const mlk::image::CodeLayers layers{.cache = out.path(), .prefix = "mlk/code"};
  for (const char* name : {"a.wh.b", "wh.a", "x.wh.", ".wh", ".whx"}) write(folder.path() / name);
  const TreeRules all{.include = {"**"}, .exclude = {}, .never = {}};
  const Code code = mlk::image::pack_code(folder.path(), all, {.most_bytes = plenty});
  CHECK(code.files.size() == 5);
  mlk::image::write_code_layer(folder.path(), code, layers);
  CHECK(mlk::image::find_layer(layers.file_of(code.digest)));
  write(folder.path() / "d/.wh.a");
  try {
    mlk::image::write_code_layer(folder.path(),
                                 mlk::image::pack_code(folder.path(), all, {.most_bytes = plenty}), layers);
    FAIL("it was written");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(std::string(error.what()) == "code: the name of " + (folder.path() / "d/.wh.a").string() +
                                           " begins with .wh., by which image layers delete files");
    CHECK(error.hint() == "rename it, or leave it out with exclude: [/d/.wh.a]");
  }
}
