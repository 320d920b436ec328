// What is told of files that do not travel.
#include "cli/image/stays.h"

#include <doctest/doctest.h>

using mlk::image::told_of_what_stays;
using mlk::image::Tree;

namespace {
using PathsThatStay = std::vector<std::string>;
}  // namespace

TEST_CASE("committed files that stay are named, and so is what git ignores") {
  const std::string more = "; include: takes what the program needs";
  CHECK(told_of_what_stays({}, {"a"}).empty());
  CHECK(told_of_what_stays({.ignored = {"data.bin"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: data.bin" + more});
  CHECK(told_of_what_stays({.ignored = {"a", "b", "c/", "d"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: a, b, c/, and 1 more" + more});
  const std::string committed =
      "code: committed files stay behind, since git would ignore them or they are hidden or usually secret: ";
  CHECK(told_of_what_stays({.secrets = {".streamlit/"}, .ignored = {"data/"}},
                           {".streamlit/config.toml", "data/keep.csv", "data2", "train.py"}) ==
        PathsThatStay{committed + "data/keep.csv, .streamlit/config.toml" + more,
                      "code: left out, as git ignores it: data/" + more});
}

TEST_CASE("hidden names that nobody has committed stay without a word, visible secrets with one") {
  const std::string more = "; include: takes what the program needs";
  CHECK(told_of_what_stays({.secrets = {".envrc", ".aws/", "sub/.npmrc"}}, {"train.py"}).empty());
  CHECK(told_of_what_stays({.secrets = {".envrc", "sub/key.pem"}}, {}) ==
        PathsThatStay{"code: files that usually hold secrets stay behind: sub/key.pem" + more});
  CHECK(told_of_what_stays({.secrets = {"key.pem"}}, {"key.pem"}).size() == 1);
}

TEST_CASE("a pointer of Git LFS is known by its first line and its digest") {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 12345\n";
  CHECK(mlk::image::is_lfs_pointer(pointer));
  CHECK(mlk::image::may_be_lfs_pointer(pointer.size()));
  CHECK_FALSE(mlk::image::is_lfs_pointer(" " + pointer));
  CHECK_FALSE(mlk::image::is_lfs_pointer("version https://git-lfs.github.com/spec/v1\nsize 1\n"));
  CHECK_FALSE(mlk::image::may_be_lfs_pointer(99));
  CHECK(mlk::image::may_be_lfs_pointer(100));
  CHECK(mlk::image::may_be_lfs_pointer(200));
  CHECK_FALSE(mlk::image::may_be_lfs_pointer(201));
}
