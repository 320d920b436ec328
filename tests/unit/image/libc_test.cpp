// Checks which files of an image imply the C library of the image.
#include "cli/image/libc.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/image/tar.h"
#include "tests/unit/image/gzip_text.h"

TEST_SUITE_BEGIN("image/libc");

using mlk::image::Libc;
using mlk::image::libc_by;
using mlk::image::LibcOfLayer;

namespace {

std::string layer_with(const std::vector<std::string>& paths) {
  std::string tar;
  for (const std::string& path : paths)
    mlk::image::append_to_tar(tar, {.path = path}, std::string(1000, 'x'));
  tar += mlk::image::tar_end();
  return tar;
}

// Sets `taken` to the number of bytes that the search has received.
std::optional<Libc> found_in(const std::string& bytes, std::size_t part, std::size_t& taken) {
  LibcOfLayer layer;
  for (taken = 0; taken < bytes.size();) {
    const std::string_view next = std::string_view(bytes).substr(taken, part);
    taken += next.size();
    if (!layer.feed(next)) break;
  }
  return layer.found();
}

}  // namespace

TEST_CASE("LibcOfLayer recognises the C library by a loader, by libc.so.6 or by a distribution's file") {
  for (const char* path : {"lib/ld-musl-x86_64.so.1", "./lib/ld-musl-aarch64.so.1",
                           "/usr/lib/ld-musl-x86_64.so.1", "etc/alpine-release"})
    CHECK_MESSAGE(libc_by(path) == Libc::musl, path);
  for (const char* path :
       {"lib64/ld-linux-x86-64.so.2", "./lib/ld-linux-aarch64.so.1", "usr/lib/x86_64-linux-gnu/libc.so.6",
        "etc/debian_version", "etc/redhat-release", "nix/store/x-glibc-2.38/lib/libc.so.6"})
    CHECK_MESSAGE(libc_by(path) == Libc::glibc, path);
  for (const char* path : {"", "/", "lib/", "etc/os-release", "home/etc/alpine-release", "lib/libc.so.6x",
                           "usr/share/doc/ld-musl", "lib/libc.musl-x86_64.so.1"})
    CHECK_MESSAGE(!libc_by(path), path);
}

TEST_CASE("LibcOfLayer stops at the first file that shows the C library") {
  const std::string filler(3 << 20, 'x');
  std::string tar = layer_with({"bin/busybox", "lib/ld-musl-x86_64.so.1", "lib64/ld-linux-x86-64.so.2"});
  tar += filler;
  for (const std::string& bytes : {tar, mlk::test::gzip(tar)}) {
    for (const std::size_t part : {std::size_t{1}, std::size_t{700}, std::size_t{256} << 10}) {
      std::size_t taken = 0;
      CHECK(found_in(bytes, part, taken) == Libc::musl);
      CHECK(taken < (300 << 10));
    }
  }
}

TEST_CASE("LibcOfLayer finds a file behind 5 MiB of zeros in a compressed layer") {
  std::string tar;
  mlk::image::append_to_tar(tar, {.path = "zeros"}, std::string(5 << 20, '\0'));
  mlk::image::append_to_tar(tar, {.path = "lib/ld-musl-x86_64.so.1"}, "");
  std::size_t taken = 0;
  for (const std::size_t part : {std::size_t{1}, std::size_t{1} << 20})
    CHECK(found_in(mlk::test::gzip(tar), part, taken) == Libc::musl);
}

TEST_CASE("found() is nullopt if the layer shows no C library or the bytes are no layer") {
  std::size_t taken = 0;
  const std::string good = layer_with({"etc/alpine-release"});
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("no tar"), std::string(5000, '\0'),
        std::string("\x1f\x8b"), std::string("\x1f\x8b no gzip"),
        std::string("\x28\xb5\x2f\xfd of zstd") + std::string(1000, 'x'), layer_with({}),
        layer_with({"app/main.py", "etc/hostname"}), good.substr(0, 300)})
    CHECK_FALSE(found_in(bytes, 100, taken));
  // A name that is too long for its field is the content of an extra entry. This content is not a name to
  // search.
  CHECK_FALSE(found_in(layer_with({std::string(200, 'a') + "/etc/alpine-release"}), 100, taken));
  CHECK(found_in(layer_with({std::string(200, 'a'), "etc/alpine-release"}), 100, taken) == Libc::musl);
}

TEST_CASE("LibcOfLayer compares whole names: lib/xlibc.so.6 shows no C library") {
  for (const char* path : {"././etc/alpine-release", "ld-musl-x86_64.so.1", "/etc/alpine-release"})
    CHECK_MESSAGE(libc_by(path) == Libc::musl, path);
  for (const char* path : {"ld-linux.so.2", "libc.so.6", "/etc/debian_version", "./etc/redhat-release"})
    CHECK_MESSAGE(libc_by(path) == Libc::glibc, path);
  for (const char* path : {"lib/ld-musl-x86_64.so.2", "lib/xld-musl-x86_64.so.1", "lib/xld-linux.so.2",
                           "lib/xlibc.so.6", "app/etc/debian_version", "app/etc/redhat-release",
                           "etc/alpine-release2", "../etc/alpine-release", "lib/libc.so.6/x"})
    CHECK_MESSAGE(!libc_by(path), path);
}

namespace {

// The header of an entry (one block) with this type. `bytes` replaces the bytes at `at`.
std::string header_with(const std::string& path, char type = '0', std::size_t at = 0,
                        const std::string& bytes = "") {
  std::string out = mlk::image::tar_header({.path = path}, 0);
  out[156] = type;
  return out.replace(at, bytes.size(), bytes);
}

std::optional<Libc> found_in_tar(const std::string& tar) {
  LibcOfLayer layer;
  (void)layer.feed(tar);
  return layer.found();
}

}  // namespace

TEST_CASE("LibcOfLayer skips files of 0 to 1024 bytes, and finds the file behind them") {
  for (const std::size_t size : {0, 1, 511, 512, 513, 1024}) {
    std::string tar;
    mlk::image::append_to_tar(tar, {.path = "a"}, std::string(size, 'x'));
    mlk::image::append_to_tar(tar, {.path = "etc/alpine-release"}, "");
    CHECK_MESSAGE(found_in_tar(tar) == Libc::musl, size);
  }
}

TEST_CASE("LibcOfLayer skips a file of 8 GiB, and finds the file behind it") {
  constexpr std::uint64_t size = std::uint64_t{1} << 33;
  LibcOfLayer layer;
  CHECK(layer.feed(mlk::image::tar_header({.path = "big"}, size)));
  const std::string part(1 << 20, 'x');
  for (std::uint64_t given = 0; given < size; given += part.size()) REQUIRE(layer.feed(part));
  CHECK_FALSE(layer.feed(header_with("lib/ld-linux-x86-64.so.2")));
  CHECK(layer.found() == Libc::glibc);
}

TEST_CASE(
    "LibcOfLayer stops at an impossible size, at an unknown kind of archive and at the end of the archive") {
  const auto goes_on = [](const std::string& bytes) { return LibcOfLayer().feed(bytes); };
  CHECK(goes_on(mlk::image::tar_header({.path = "big"}, std::uint64_t{1} << 50)));
  CHECK_FALSE(goes_on(mlk::image::tar_header({.path = "big"}, (std::uint64_t{1} << 50) + 1)));
  CHECK(goes_on(header_with("a")));
  CHECK_FALSE(goes_on(header_with("a", '0', 257, "vstar")));
  CHECK_FALSE(goes_on(std::string(512, '\0')));
  CHECK(goes_on(std::string(511, '\0')));
  CHECK(goes_on("\x1f"));
  CHECK_FALSE(found_in_tar(std::string(512, '\0') + header_with("etc/alpine-release")));
}

TEST_CASE(
    "LibcOfLayer ignores entries that only describe the next entry, and reads files, links and other "
    "entries") {
  for (const char type : {'L', 'K', 'x', 'g'})
    CHECK_MESSAGE(!found_in_tar(header_with("etc/alpine-release", type)), type);
  for (const char type : {'0', '\0', '1', '2', '7'})
    CHECK_MESSAGE(found_in_tar(header_with("etc/alpine-release", type)) == Libc::musl, type);
}

TEST_CASE("the prefix field is the beginning of a path in POSIX archives, but not in GNU archives") {
  const std::string posix("ustar\0", 6);
  std::string header = header_with("alpine-release", '0', 345, "etc");
  CHECK_FALSE(found_in_tar(header));
  CHECK(found_in_tar(header.replace(257, posix.size(), posix)) == Libc::musl);
  header = header_with("etc/alpine-release", '0', 345, "12345670123");
  CHECK(found_in_tar(header) == Libc::musl);
  CHECK_FALSE(found_in_tar(header.replace(257, posix.size(), posix)));
  header = header_with("etc/alpine-release").replace(257, posix.size(), posix);
  CHECK(found_in_tar(header) == Libc::musl);
  const std::string full = std::string(100 - std::string("/libc.so.6").size(), 'a') + "/libc.so.6";
  CHECK(found_in_tar(header_with(full, '0', 100, "x")) == Libc::glibc);  // no NUL ends the name
}
