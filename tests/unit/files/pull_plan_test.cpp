// Which files of a run come home, and where they go.
#include "cli/files/pull_plan.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

TEST_SUITE_BEGIN("files/pull_plan");

namespace mlk {
namespace {

std::string shown(const std::string& path, const RunTree& tree) {
  return shown_path({.path = path}, tree).value_or("<hidden>");
}

TEST_CASE("the outputs of a run with one worker have the paths that the program knows") {
  const RunTree one{.has_one_rank = true};
  CHECK(shown("outputs/0/out/a", one) == "out/a");
  CHECK(shown("outputs/0", one) == "<hidden>");
  CHECK(shown("outputs", one) == "<hidden>");
  CHECK(shown("step-10/x", one) == "<hidden>");
}

TEST_CASE("a folder with the rank, or the trial, stands before the outputs of several") {
  CHECK(shown("outputs/1/out/a", {}) == "1/out/a");
  CHECK(shown("outputs/server-0/out/a", {}) == "server-0/out/a");
  CHECK(shown("outputs/7/out/a", {.only = "7"}) == "out/a");
  CHECK(shown("outputs/77/out/a", {.only = "7"}) == "<hidden>");
}

TEST_CASE("checkpoints in the same volume are below a folder of their own") {
  const RunTree tree{.has_one_rank = true, .has_checkpoints = true};
  CHECK(shown("step-10/x", tree) == "checkpoints/step-10/x");
  CHECK(shown("outputs/0/a", tree) == "a");
  CHECK(shown("outputs", tree) == "<hidden>");
}

TEST_CASE("a path that leads out of its folder is never shown") {
  for (const char* path :
       {"", "/etc/passwd", "outputs/0/../../x", "outputs/0/./x", "outputs//x", "outputs/0/a\nb"})
    CHECK_MESSAGE(shown(path, {.has_one_rank = true, .has_checkpoints = true}) == "<hidden>", path);
  CHECK_FALSE(is_safe_path(std::string(5000, 'a')));
}

TEST_CASE("a link is safe if it stays below the destination") {
  CHECK(is_safe_link("out/latest", "step-5"));
  CHECK(is_safe_link("out/a/latest", "../b/c"));
  CHECK(is_safe_link("out/latest", "../other"));
  CHECK_FALSE(is_safe_link("out/latest", "../../other"));
  CHECK_FALSE(is_safe_link("latest", ".."));
  CHECK_FALSE(is_safe_link("out/latest", "a/../../../b"));
  CHECK_FALSE(is_safe_link("out/latest", "/etc/passwd"));
  CHECK_FALSE(is_safe_link("out/latest", ""));
}

std::string chosen(const std::vector<std::string>& all, const std::vector<std::string>& paths) {
  std::vector<ShownEntry> entries;
  for (const std::string& path : all) entries.push_back({path, {}});
  std::vector<std::string> out;
  for (const ShownEntry& each : chosen_entries(entries, paths)) out.push_back(each.shown);
  return join(out, " ");
}

TEST_CASE("without paths, outputs come and checkpoints stay, unless there is nothing else") {
  CHECK(chosen({"out", "out/a", "checkpoints/step-1/x"}, {}) == "out out/a");
  CHECK(chosen({"checkpoints", "checkpoints/step-1/x"}, {}) == "checkpoints checkpoints/step-1/x");
  CHECK(chosen({}, {}) == "");
}

TEST_CASE("a path means a file, or a folder with all that is in it") {
  const std::vector<std::string> all = {"out", "out/a", "out/ab", "out/sub", "out/sub/c", "checkpoints/x"};
  CHECK(chosen(all, {"out/a"}) == "out/a");
  CHECK(chosen(all, {"out/sub/"}) == "out/sub out/sub/c");
  CHECK(chosen(all, {"./out/sub", "out/a", "checkpoints"}) == "out/a out/sub out/sub/c checkpoints/x");
  try {
    (void)chosen(all, {"out/sup"});
    FAIL("was found");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::not_found);
    CHECK(std::string(error.what()) == "the run has no file out/sup; did you mean 'out/sub'?");
  }
}

}  // namespace
}  // namespace mlk
