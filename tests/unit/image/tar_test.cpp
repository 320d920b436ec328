// Archives that were written are read again; others are refused.
#include "cli/image/tar.h"

#include <doctest/doctest.h>

#include "cli/image/gzip.h"
#include "cli/image/unpack.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

namespace {

using mlk::image::append_to_tar;
using mlk::image::TarEntry;
using Kind = TarEntry::Kind;

std::string tar_of(const std::vector<std::pair<TarEntry, std::string>>& entries) {
  std::string tar;
  for (const auto& [entry, content] : entries) append_to_tar(tar, entry, content);
  mlk::image::end_tar(tar);
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

TEST_CASE("what is written is read again, long names too") {
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

TEST_CASE("an archive that would write outside of its folder is refused") {
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

TEST_CASE("an archive that is cut off at any place, or of another kind, is refused") {
  const std::string tar =
      tar_of({{{.path = "a"}, std::string(700, 'x')}, {{.path = std::string(200, 'b')}, "y"}});
  for (std::size_t size = 0; size + 1024 < tar.size(); size += 100)
    CHECK(refusal(tar.substr(0, size)).find("cut off") != std::string::npos);
  std::string device = tar_of({{{.path = "a"}, ""}});
  device[156] = '3';
  CHECK(refusal(device).find("another kind") != std::string::npos);
  std::string number = tar_of({{{.path = "a"}, ""}});
  number[124] = 'x';
  CHECK(refusal(number).find("a number in it is none") != std::string::npos);
}

TEST_CASE("gzip gives back what it was given, and refuses more than is allowed") {
  const std::string text(100'000, 'a');
  const std::string packed = mlk::image::gzip(text);
  CHECK(mlk::image::gunzip(packed, text.size()) == text);
  CHECK(mlk::image::gunzip(mlk::image::gzip(""), 0).empty());
  CHECK_THROWS_AS(mlk::image::gunzip(packed, text.size() - 1), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip(packed.substr(0, packed.size() - 1), text.size()), mlk::Error);
  CHECK_THROWS_AS(mlk::image::gunzip("nonsense", 100), mlk::Error);
}

TEST_CASE("a long gzip file is the same in whatever parts its bytes come, and is read whole") {
  std::string text;
  for (unsigned i = 0, draw = 1; text.size() < 3'000'000; ++i) {
    draw = draw * 1664525 + 1013904223;
    text += std::to_string(draw % 100'000) + ' ';
  }
  const std::string packed = mlk::image::gzip(text);
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

TEST_CASE("an archive is unpacked into a folder, and never over a file that is there") {
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

TEST_CASE("links inside of the folder lead up only at their beginning, so that no chain of them leads out") {
  using mlk::image::leads_inside;
  CHECK(leads_inside("a/b/l", "../c"));
  CHECK(leads_inside("a/b/l", "../../c/d"));
  CHECK(leads_inside("l", "./a/./b"));
  CHECK_FALSE(leads_inside("a/b/l", "../../../c"));
  CHECK_FALSE(leads_inside("a/b/l", "k/../OUT"));  // k may be a link to ../..
  CHECK_FALSE(leads_inside("a/l", "../b/../../c"));
}

TEST_CASE("paths of more than 4096 bytes are refused before they are looked at") {
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

TEST_CASE("a user who stops ends the reading and the unpacking at the next entry") {
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
