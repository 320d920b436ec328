#include "runtime/metrics/event_file.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/metrics/event_file");

using namespace mlk::rt;
namespace fs = std::filesystem;

namespace {

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

}  // namespace

// tests/e2e/test_runtime_exports.py tests that TensorBoard itself reads event files.
TEST_CASE("a record has its length and its data, each with a masked checksum") {
  CHECK(hex_of(tfrecord("foo")) == "0300000000000000b099490e666f6f618abefe");
}

TEST_CASE("an event has the bytes of its protocol buffer") {
  const std::vector<Scalar> scalars = {{"loss", 0.5}};
  CHECK(hex_of(scalars_event(1, 300, scalars)) == "09000000000000f03f10ac022a0d0a0b0a046c6f7373150000003f");
  CHECK(hex_of(version_event(1)) == "09000000000000f03f10001a0d" + hex_of("brain.Event:2"));
  CHECK(hex_of(restart_event(1, 5)) == "09000000000000f03f10053a020801");
}

TEST_CASE("each EventFile writes a file of its own, and makes this file at its first report") {
  mlk::test::TemporaryFolder folder;
  const Log log("test", -1);
  const std::string events = folder / "below/events";
  const std::vector<Scalar> scalars = {{"loss", 0.5}};
  {
    EventFile first(events, log), second(events, log);
    CHECK_FALSE(fs::exists(events));
    first.write(1, scalars, 1.5e9);
    second.write(1, scalars, 1.5e9);
    first.write(2, scalars, 1.5e9);
  }
  const auto files = files_in(events);
  REQUIRE(files.size() == 2);
  for (const fs::path& file : files) CHECK(file.filename().string().starts_with("events.out.tfevents."));
  CHECK(fs::file_size(files[0]) != fs::file_size(files[1]));
}

TEST_CASE("if event files cannot be written, the log says so once, and the run continues") {
  mlk::test::TemporaryFolder folder;
  mlk::test::write_file(folder / "taken", "");
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  const Log log("test", pipes[1]);
  const std::vector<Scalar> scalars = {{"loss", 0.5}};
  {
    EventFile file(folder / "taken", log);
    for (std::uint64_t step = 1; step < 4; ++step) file.write(step, scalars, 1.5e9);
  }
  close(pipes[1]);
  char text[1024];
  const ssize_t size = read(pipes[0], text, sizeof text);
  close(pipes[0]);
  const std::string said(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  CHECK(said.find("goes on without them\n") == said.size() - 21);
  CHECK(said.find('\n') == said.size() - 1);
}
