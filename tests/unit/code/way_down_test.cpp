// Checks that mlk opens paths part by part, so that a program cannot redirect mlk by a link.
#include <fcntl.h>

#include <doctest/doctest.h>

#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/image/open_file.h"
#include "cli/util/error.h"
#include "tests/unit/util/exchanger.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/way_down");

namespace {

namespace fs = std::filesystem;
using mlk::image::OpenFile;
using mlk::image::WayDown;

}  // namespace

TEST_CASE("folder_of() opens folders but no links, and keeps the folder open for the next path") {
  const TemporaryFolder folder;
  folder.write("a/b/file", "x");
  folder.write("file", "y");
  fs::create_directory_symlink("a", folder.path() / "link");
  WayDown way(folder.path());
  const auto holds = [](const OpenFile& open, const char* name) {
    return OpenFile(open, name, O_RDONLY).number() >= 0;
  };
  CHECK(holds(way.folder_of("file"), "a"));
  CHECK(holds(way.folder_of("a/b/file"), "file"));
  const int number = way.folder_of("a/b/file").number();
  CHECK(way.folder_of("a/b/other").number() == number);
  CHECK(holds(way.folder_of("a/x"), "b"));
  CHECK(holds(way.folder_of("top"), "link"));
  CHECK_THROWS_AS(way.folder_of("link/b/file"), mlk::Error);
  CHECK_THROWS_AS(way.folder_of("file/x"), mlk::Error);
  CHECK_THROWS_AS(way.folder_of("none/x"), mlk::Error);
  CHECK(holds(way.folder_of("a/b/file"), "file"));
  CHECK(mlk::image::name_of_path("a/b") == "b");
  CHECK(mlk::image::name_of_path("b") == "b");
}

TEST_CASE("pack_code() never packs the target of a link that replaces a folder during packing") {
  const TemporaryFolder folder;
  folder.write("secret/f", "SECRET");
  folder.write("src/z/f", "public");
  for (int i = 0; i < 50; ++i) folder.write("src/m" + std::to_string(i), "x");
  fs::create_directory_symlink(folder.path() / "secret", folder.path() / "link");
  const Exchanger exchanger(folder.path() / "src/z", folder.path() / "link");
  // In a quarter of the tries, the path is a folder when mlk lists it, and the link when mlk opens it.
  constexpr int tries = 100;
  for (int i = 0; i < tries; ++i) {
    try {
      const mlk::image::Code code = mlk::image::pack_code(folder.path() / "src", {}, {.most_bytes = 1 << 20});
      const std::string tar = mlk::image::gunzip(code.archive, 1 << 20);
      REQUIRE(tar.find("SECRET") == std::string::npos);
    } catch (const mlk::Error&) {
      // At that moment the path was a link that leads out of the folder.
    }
  }
}
