// mlk report: the files that it writes.

#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include "tests/unit/app/tree.h"
#include "tests/unit/sweeps/sweeper.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/report");

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr char experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n";

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("mlk report writes through a link and into a pipe, and the umask applies to a new file") {
  test::Sweeper sweeper(experiment);
  const std::string sweep = sweeper.start({"lr=0.1,0.2"}).sweep;
  const TemporaryFolder folder;
  const auto report = [&](const fs::path& path) {
    test::Tree tree;
    return tree.run({"report", sweep, "-o", path.string(), "--kubeconfig", sweeper.cluster.kubeconfig()});
  };
  const fs::path link = folder.path() / "link.html", pipe = folder.path() / "pipe",
                 made = folder.path() / "new";
  const fs::path goal = folder.write("goal.html", "old");
  fs::create_symlink("goal.html", link);
  CHECK(report(link) == 0);
  CHECK(fs::is_symlink(link));
  CHECK(text_of_file(goal).find(sweep) != std::string::npos);

  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::future<std::string> read = std::async(std::launch::async, [&] { return text_of_file(pipe); });
  CHECK(report(pipe) == 0);
  CHECK(read.get().find(sweep) != std::string::npos);
  CHECK(fs::is_fifo(pipe));

  const mode_t before = ::umask(077);
  CHECK(report(made) == 0);
  ::umask(before);
  CHECK(fs::status(made).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

}  // namespace
}  // namespace mlk
