// Checks that a file is read whole or gives an error, and that no link leads out of a folder.
#include "cli/image/open_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/open_file");

namespace {

namespace fs = std::filesystem;

// The result of an action that reads a file: the bytes, or the message of the error.
template <class Read>
std::string outcome_of(const Read& read) {
  try {
    return read();
  } catch (const mlk::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("read_whole() refuses a file of an unexpected size, and passes on no more bytes than expected") {
  const TemporaryFolder folder;
  const mlk::image::OpenFile open(folder.path(), O_RDONLY | O_DIRECTORY);
  constexpr std::uint64_t part = 256 << 10;
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, part - 1, part, part + 1, 2 * part}) {
    const std::string content(size, 'x');
    const fs::path file = folder.write("f", content);
    for (const std::uint64_t told : {size, size + 1, size - 1}) {
      if (size == 0 && told > 1) continue;
      CAPTURE(size);
      CAPTURE(told);
      std::string parts;
      const auto take = [&](std::string_view bytes) { parts += bytes; };
      const std::string wanted = told == size ? content : file.string() + " changes while it is read";
      CHECK(outcome_of([&] { return mlk::image::read_whole(file, told, take), parts; }) == wanted);
      CHECK(parts.size() <= told);
      parts.clear();
      CHECK(outcome_of([&] { return mlk::image::read_whole(open, file, told, take), parts; }) == wanted);
      CHECK(parts.size() <= told);
      std::string memory(told + 1, '\0');
      CHECK(outcome_of([&] {
              mlk::image::read_whole(open, "above/f", told, memory.data());
              return memory.substr(0, told);
            }) == (told == size ? content : "above/f changes while it is read"));
    }
  }
}

TEST_CASE("read_whole() names the path and the reason in its error, and adds a hint if the file changes") {
  const TemporaryFolder folder;
  const mlk::image::OpenFile open(folder.path(), O_RDONLY | O_DIRECTORY);
  const auto take = [](std::string_view) {};
  const fs::path gone = folder.path() / "gone";
  CHECK(outcome_of([&] { return mlk::image::read_whole(gone, 1, take), ""; }) ==
        gone.string() + ": No such file or directory");
  CHECK(outcome_of([&] { return mlk::image::read_whole(open, "shown/gone", 1, take), ""; }) ==
        "shown/gone: No such file or directory");
  char memory[2];
  CHECK(outcome_of([&] { return mlk::image::read_whole(open, "a/gone", 1, memory), ""; }) ==
        "a/gone: No such file or directory");
  folder.write("file", "12");
  fs::create_symlink("file", folder.path() / "link");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"link", "pipe", "."}) {
    CHECK_THROWS_AS(mlk::image::read_whole(open, name, 1, memory), mlk::Error);
    CHECK_THROWS_AS(mlk::image::read_whole(open, name, 1, take), mlk::Error);
  }
  try {
    mlk::image::read_whole(open, "file", 1, memory);
    FAIL("it was read");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::failure);
    CHECK(error.hint() == "type the command again when nothing writes there, or leave it out with exclude:");
  }
}

TEST_CASE(
    "WayDown accepts a link as its top folder, skips empty parts of a path, and reports a missing folder") {
  const TemporaryFolder folder;
  folder.write("real/a/b/f", "x");
  fs::create_directory_symlink("real", folder.path() / "top");
  fs::create_directory_symlink("a", folder.path() / "real/link");
  mlk::image::WayDown way(folder.path() / "top");
  CHECK(mlk::image::OpenFile(way.folder_of("a//b/f"), "f", O_RDONLY).number() >= 0);
  CHECK(mlk::image::OpenFile(way.folder_of("/a/b/f"), "f", O_RDONLY).number() >= 0);
  const std::string top = (folder.path() / "top").string();
  CHECK(outcome_of([&] { return (void)way.folder_of("a/none/x/f"), ""; }) ==
        top + "/a/none: No such file or directory");
  CHECK(outcome_of([&] { return (void)way.folder_of("link/b/f"), ""; }) == top + "/link: Not a directory");
  for (const char* none : {"gone", "real/a/b/f"})
    CHECK_THROWS_AS(mlk::image::WayDown(folder.path() / none), mlk::Error);
  CHECK(mlk::image::name_of_path("a/").empty());
}

TEST_CASE("OpenFile closes its file, and programs that mlk starts do not inherit the file") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("f", "");
  const int first = mlk::image::OpenFile(file, O_RDONLY).number();
  CHECK(mlk::image::OpenFile(file, O_RDONLY).number() == first);
  const mlk::image::OpenFile open(folder.path(), O_RDONLY | O_DIRECTORY);
  const mlk::image::OpenFile inside(open, "f", O_RDONLY);
  for (const int number : {open.number(), inside.number()})
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
  const mlk::image::OpenFile made(folder.path() / "new", O_WRONLY | O_CREAT);
  struct stat status{};
  REQUIRE(::fstat(made.number(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}
