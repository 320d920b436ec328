// Checks that the reader of tar archives accepts archives of mlk's own writer and refuses all other archives.
#include "cli/image/tar.h"

#include <doctest/doctest.h>

#include "cli/image/gzip.h"
#include "cli/image/unpack.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/image/gzip_text.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/tar");

namespace {

using mlk::image::append_to_tar;
using mlk::image::TarEntry;
using Kind = TarEntry::Kind;

std::string tar_of(const std::vector<std::pair<TarEntry, std::string>>& entries) {
  std::string tar;
  for (const auto& [entry, content] : entries) append_to_tar(tar, entry, content);
  tar += mlk::image::tar_end();
  return tar;
}

std::string refusal(const std::string& tar) {
  try {
    (void)mlk::image::read_tar(tar);
  } catch (const mlk::Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("read_tar() returns the entries that append_to_tar() has written, even if their names are long") {
  const std::string name(300, 'n'), target(200, 't');
  const std::string tar = tar_of({{{.path = "a", .kind = Kind::folder}, ""},
                                  {{.path = "a/" + name, .kind = Kind::file, .executable = true}, "content"},
                                  {{.path = "b", .kind = Kind::link, .target = target}, ""},
                                  {{.path = "c", .kind = Kind::file}, std::string(512, '\0')}});
  const auto files = mlk::image::read_tar(tar);
  REQUIRE(files.size() == 4);
  CHECK(files[0].entry.kind == Kind::folder);
  CHECK(files[0].entry.path == "a");
  CHECK(files[1].entry.path == "a/" + name);
  CHECK(files[1].entry.executable);
  CHECK(files[1].content == "content");
  CHECK(files[2].entry.target == target);
  CHECK(files[3].content == std::string(512, '\0'));
  CHECK_FALSE(files[3].entry.executable);
}

TEST_CASE(
    "read_tar() refuses unsafe paths, links that lead out, entries below a link or file, and a wrong order") {
  for (const char* path : {"/etc/x", "../x", "a/../../x", "a//b", ".", ""})
    CHECK_MESSAGE(
        refusal(tar_of({{{.path = path}, "x"}})).find("leads out of its folder") != std::string::npos, path);
  for (const char* target : {"/etc", "..", "x/../../y", "k/../OUT", ""})
    CHECK(refusal(tar_of({{{.path = "l", .kind = Kind::link, .target = target}, ""}}))
              .find("a link leads out") != std::string::npos);
  CHECK(refusal(tar_of({{{.path = "l", .kind = Kind::link, .target = "d"}, ""}, {{.path = "l/x"}, "x"}}))
            .find("below a file or a link") != std::string::npos);
  CHECK(refusal(tar_of({{{.path = "f"}, "x"}, {{.path = "f/x"}, "x"}})).find("below a file or a link") !=
        std::string::npos);
  CHECK(refusal(tar_of({{{.path = "d", .kind = Kind::folder}, ""}, {{.path = "d/x"}, "x"}})) == "accepted");
  CHECK(refusal(tar_of({{{.path = "b"}, "x"}, {{.path = "a"}, "x"}})).find("no order") != std::string::npos);
  CHECK(refusal(tar_of({{{.path = "a"}, "x"}, {{.path = "a"}, "y"}})).find("no order") != std::string::npos);
}

TEST_CASE("read_tar() refuses an archive that is cut off, has a device, or has a size that is not octal") {
  const std::string tar =
      tar_of({{{.path = "a"}, std::string(700, 'x')}, {{.path = std::string(200, 'b')}, "y"}});
  for (std::size_t size = 0; size + 1024 < tar.size(); size += 100)
    CHECK(refusal(tar.substr(0, size)).find("cut off") != std::string::npos);
  std::string device = tar_of({{{.path = "a"}, ""}});
  device[156] = '3';
  CHECK(refusal(device).find("another kind") != std::string::npos);
  std::string number = tar_of({{{.path = "a"}, ""}});
  number[124] = 'x';
  CHECK(refusal(number).find("a number in a header is not octal") != std::string::npos);
}

TEST_CASE("gunzip() restores the bytes that gzip() compressed, and refuses more bytes than allowed") {
  const std::string text(100'000, 'a');
  const std::string packed = mlk::test::gzip(text);
  CHECK(mlk::image::gunzip(packed, text.size()) == text);
  CHECK(mlk::image::gunzip(mlk::test::gzip(""), 0).empty());
  CHECK_THROWS_AS(mlk::image::gunzip(packed, text.size() - 1), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip(packed.substr(0, packed.size() - 1), text.size()), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip("nonsense", 100), mlk::Error);
}

TEST_CASE("GzipStream gives the same result for any split of its input, and gunzip() reads a long file") {
  std::string text;
  for (unsigned i = 0, draw = 1; text.size() < 3'000'000; ++i) {
    draw = draw * 1664525 + 1013904223;
    text += std::to_string(draw % 100'000) + ' ';
  }
  const std::string packed = mlk::test::gzip(text);
  CHECK(packed.size() < text.size() / 2);
  CHECK(mlk::image::gunzip(packed, text.size()) == text);
  CHECK_THROWS_AS(mlk::image::gunzip(packed, text.size() - 1), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip(packed.substr(0, packed.size() - 1), text.size()), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip(packed + "more", text.size()), mlk::Error);
  const auto in_parts = [&](std::size_t part) {
    std::string out;
    mlk::image::GzipStream stream(6, [&](std::string_view bytes) { out += bytes; });
    for (std::size_t i = 0; i < text.size(); i += part) stream.add(std::string_view(text).substr(i, part));
    stream.finish();
    return out;
  };
  for (const std::size_t part : {std::size_t{1000}, std::size_t{512 << 10}, std::size_t{1'000'001}})
    CHECK(in_parts(part) == packed);
}

TEST_CASE("unpack() writes an archive into a folder, but does not replace an existing file") {
  const TemporaryFolder folder;
  const std::string tar = tar_of({{{.path = "d", .kind = Kind::folder}, ""},
                                  {{.path = "d/f", .kind = Kind::file, .executable = true}, "text"},
                                  {{.path = "l", .kind = Kind::link, .target = "d/f"}, ""}});
  mlk::image::unpack(tar, folder.path());
  CHECK(mlk::read_file(folder.path() / "l", 100) == "text");
  namespace fs = std::filesystem;
  CHECK((fs::status(folder.path() / "d/f").permissions() & fs::perms::owner_exec) != fs::perms::none);
  CHECK_THROWS_WITH_AS(mlk::image::unpack(tar, folder.path()), doctest::Contains("d/f: File exists"),
                       mlk::Error);
}

TEST_CASE("leads_inside() accepts .. at the beginning of a target, but not after a name") {
  using mlk::image::leads_inside;
  CHECK(leads_inside("a/b/l", "../c"));
  CHECK(leads_inside("a/b/l", "../../c/d"));
  CHECK(leads_inside("l", "./a/./b"));
  CHECK_FALSE(leads_inside("a/b/l", "../../../c"));
  CHECK_FALSE(leads_inside("a/b/l", "k/../OUT"));  // k may be a link to ../..
  CHECK_FALSE(leads_inside("a/l", "../b/../../c"));
}

TEST_CASE("read_tar() refuses paths and targets of more than 4096 bytes") {
  const auto deep = [](std::size_t bytes) {
    std::string path(bytes, 'a');
    for (std::size_t i = 1; i < bytes; i += 2) path[i] = '/';
    if (path.back() == '/') path.back() = 'a';
    return path;
  };
  CHECK(refusal(tar_of({{{.path = deep(4096)}, ""}})) == "accepted");
  CHECK(refusal(tar_of({{{.path = deep(4097)}, ""}})).find("more than 4096 bytes") != std::string::npos);
  CHECK(refusal(tar_of({{{.path = "l", .kind = Kind::link, .target = deep(4097)}, ""}}))
            .find("more than 4096 bytes") != std::string::npos);
  CHECK(refusal(tar_of({{{.path = deep(2'000'000)}, ""}})) != "accepted");
}

TEST_CASE("read_tar() and unpack() end at the entry for which before_each throws") {
  const TemporaryFolder folder;
  const std::string tar = tar_of({{{.path = "a"}, "1"}, {{.path = "b"}, "2"}, {{.path = "c"}, "3"}});
  int calls = 0;
  const auto stop_at = [&](int last) {
    return [&calls, last] {
      if (++calls == last) throw mlk::Error(mlk::ExitCode::interrupted, "interrupted");
    };
  };
  CHECK_THROWS_AS((void)mlk::image::read_tar(tar, stop_at(2)), mlk::Error);
  CHECK(calls == 2);
  calls = 0;
  CHECK_THROWS_AS(mlk::image::unpack(tar, folder.path(), stop_at(5)), mlk::Error);
  CHECK(std::filesystem::exists(folder.path() / "a"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "b"));
}

TEST_CASE("a name or target of more than 100 bytes gets an extra entry before its header") {
  struct Row {
    Kind kind;
    std::size_t name, target, blocks;
  };
  for (const Row& row :
       {Row{Kind::file, 100, 0, 1}, Row{Kind::file, 101, 0, 3}, Row{Kind::folder, 99, 0, 1},
        Row{Kind::folder, 100, 0, 3}, Row{Kind::link, 100, 100, 1}, Row{Kind::link, 1, 101, 3},
        Row{Kind::link, 101, 101, 5}, Row{Kind::file, 511, 0, 3}, Row{Kind::file, 512, 0, 4}}) {
    CAPTURE(row.name);
    CAPTURE(row.target);
    const TarEntry entry{
        .path = std::string(row.name, 'n'), .kind = row.kind, .target = std::string(row.target, 't')};
    CHECK(mlk::image::tar_header(entry, 0).size() == row.blocks * mlk::image::tar_block);
    const auto files = mlk::image::read_tar(tar_of({{entry, ""}})).at(0).entry;
    CHECK(files.path == entry.path);
    CHECK(files.target == entry.target);
    CHECK(files.kind == entry.kind);
  }
}

TEST_CASE("numbers in a header are octal, but a size of 8 GiB or more is in base 256") {
  const auto field = [](const std::string& header, std::size_t at, std::size_t width) {
    return header.substr(at, width);
  };
  const auto size_field = [&](std::uint64_t size) {
    return field(mlk::image::tar_header({.path = "a"}, size), 124, 12);
  };
  CHECK(size_field(0) == std::string("00000000000\0", 12));
  CHECK(size_field(8) == std::string("00000000010\0", 12));
  CHECK(size_field((std::uint64_t{1} << 33) - 1) == std::string("77777777777\0", 12));
  CHECK(size_field(std::uint64_t{1} << 33) == std::string("\x80\0\0\0\0\0\0\x02\0\0\0\0", 12));
  CHECK(size_field((std::uint64_t{1} << 33) + 258) == std::string("\x80\0\0\0\0\0\0\x02\0\0\x01\x02", 12));
  struct Row {
    TarEntry entry;
    const char *mode, *type;
  };
  for (const Row& row :
       {Row{{.path = "a"}, "0000644", "0"}, Row{{.path = "a", .executable = true}, "0000755", "0"},
        Row{{.path = "a", .mode = 0600}, "0000600", "0"},
        Row{{.path = "a", .executable = true, .mode = 0666}, "0000666", "0"},
        Row{{.path = "a", .kind = Kind::folder}, "0000755", "5"},
        Row{{.path = "a", .kind = Kind::folder, .mode = 0777}, "0000777", "5"},
        Row{{.path = "a", .kind = Kind::link, .target = "b", .mode = 0600}, "0000777", "2"}}) {
    const std::string header = mlk::image::tar_header(row.entry, 7);
    CHECK(field(header, 100, 7) == row.mode);
    CHECK(field(header, 108, 16) == std::string("0000000\0000000000\0", 16));
    CHECK(field(header, 124, 11) == (row.entry.kind == Kind::file ? "00000000007" : "00000000000"));
    CHECK(field(header, 136, 11) == "02263523000");
    CHECK(field(header, 156, 1) == row.type);
    CHECK(field(header, 257, 8) == std::string("ustar  \0", 8));
    unsigned sum = 8 * ' ';
    for (std::size_t i = 0; i < header.size(); ++i)
      sum += i >= 148 && i < 156 ? 0U : static_cast<unsigned char>(header[i]);
    CHECK(std::stoul(field(header, 148, 6), nullptr, 8) == sum);
  }
}

TEST_CASE("tar_padding() is the number of bytes up to a whole block, and tar_end() is two blocks of zeros") {
  using mlk::image::tar_padding;
  CHECK(tar_padding(0) == 0);
  CHECK(tar_padding(1) == 511);
  CHECK(tar_padding(511) == 1);
  CHECK(tar_padding(512) == 0);
  CHECK(tar_padding(513) == 511);
  std::string tar;
  tar += mlk::image::tar_end();
  CHECK(tar == std::string(1024, '\0'));
  append_to_tar(tar = "", {.path = "a"}, "x");
  CHECK(tar.size() == 1024);
}

TEST_CASE("read_tar() refuses numbers that are not octal and types of entries that mlk does not write") {
  const auto changed = [](std::size_t at, const std::string& bytes, const TarEntry& entry = {.path = "a"}) {
    return refusal(tar_of({{entry, ""}}).replace(at, bytes.size(), bytes));
  };
  CHECK(changed(124, "0000000000 ") == "accepted");
  CHECK(changed(124, "00000000008") != "accepted");
  CHECK(changed(124, "0000000000/") != "accepted");
  CHECK(changed(124, "00000000007").find("cut off") == std::string::npos);
  CHECK(changed(100, "x") != "accepted");  // the mode of a file
  CHECK(changed(100, "x", {.path = "a", .kind = Kind::folder}) == "accepted");
  for (const char* type : {"1", "3", "4", "6", "7", "g", "x", "S"})
    CHECK_MESSAGE(changed(156, type).find("another kind") != std::string::npos, std::string(type));
  CHECK(changed(156, std::string(1, '\0')).find("another kind") != std::string::npos);
  CHECK(changed(156, "5").find("another kind") != std::string::npos);  // a folder without a slash
  const auto executable = [](unsigned mode) {
    return mlk::image::read_tar(tar_of({{{.path = "a", .mode = mode}, ""}})).at(0).entry.executable;
  };
  CHECK(executable(0700));
  CHECK(executable(0100));
  CHECK_FALSE(executable(0677));
}

TEST_CASE("read_tar() refuses an entry below a link at any depth, and a path with unsafe parts") {
  const auto told = [](const std::vector<std::pair<TarEntry, std::string>>& entries) {
    return refusal(tar_of(entries));
  };
  const TarEntry link{.path = "a/l", .kind = Kind::link, .target = "d"};
  CHECK(told({{link, ""}, {{.path = "a/l/b/c"}, ""}}).find("below a file or a link") != std::string::npos);
  CHECK(told({{link, ""}, {{.path = "a/l2/b"}, ""}}) == "accepted");
  CHECK(told({{link, ""}, {{.path = "a/l/b", .kind = Kind::folder}, ""}}).find("below a file or a link") !=
        std::string::npos);
  for (const char* path : {"./a", "a/./b", "a/..", "..", "/", "a//b"})
    CHECK_MESSAGE(told({{{.path = path}, ""}}).find("leads out of its folder") != std::string::npos, path);
  for (const char* path : {"..a", "a..", ".a", "a/...", "a b"})
    CHECK_MESSAGE(told({{{.path = path}, ""}}) == "accepted", path);
  CHECK(told({{{.path = "l", .kind = Kind::link, .target = std::string(4096, 't')}, ""}}) == "accepted");
}

TEST_CASE("leads_inside() allows at most one .. in the target for each folder in the path of the link") {
  using mlk::image::leads_inside;
  struct Row {
    const char *path, *target;
    bool inside;
  };
  for (const Row& row :
       {Row{"l", "a", true}, Row{"l", ".", true}, Row{"l", "..", false}, Row{"l", "", false},
        Row{"l", "/", false}, Row{"l", "/a", false}, Row{"a/l", "..", true}, Row{"a/l", "../..", false},
        Row{"a/l", "./../b", true}, Row{"a/l", ".//..//b", true}, Row{"a/l", "../b/..", false},
        Row{"l", "a//b", true}, Row{"l", "...", true}, Row{"l", "..a", true}, Row{"a/b/l", "../..", true}})
    CHECK_MESSAGE(leads_inside(row.path, row.target) == row.inside, std::string(row.path), " ",
                  std::string(row.target));
}
