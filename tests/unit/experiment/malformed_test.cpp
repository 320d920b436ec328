// Every file in malformed/ is refused with exactly the text in its .txt file. MLK_UPDATE_GOLDEN=1 rewrites
// the texts.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("experiment/malformed");

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t limit = 1 << 20;

std::string message_of(const fs::path& file) {
  try {
    load_experiment(read_file(file, limit), file.filename(), {}, {{"allreduce", "ps", "single"}, {"torch"}});
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return std::string(error.what()) + "\n";
  }
  return "accepted\n";
}

TEST_CASE("each malformed file is refused with its exact message") {
  const bool update = std::getenv("MLK_UPDATE_GOLDEN") != nullptr;
  int files = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(mlk::test::source_dir() / "tests/unit/experiment/malformed")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    fs::path expected = entry.path();
    expected.replace_extension(".txt");
    const std::string message = message_of(entry.path());
    if (update) std::ofstream(expected) << message;
    INFO(entry.path().filename().string());
    CHECK(message != "accepted\n");
    CHECK(message == read_file(expected, limit));
  }
  CHECK(files >= 30);
}

}  // namespace
}  // namespace mlk
