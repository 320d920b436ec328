// Checks the messages about files that do not travel.
#include "cli/code/stays.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("code/stays");

using mlk::image::describe_what_stays;
using mlk::image::Tree;

namespace {
using PathsThatStay = std::vector<std::string>;
}  // namespace

TEST_CASE("describe_what_stays() names committed files that stay behind, and paths that git ignores") {
  const std::string more = "; name the files that the program needs in include:";
  CHECK(describe_what_stays({}, {"a"}).empty());
  CHECK(describe_what_stays({.ignored = {"data.bin"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: data.bin" + more});
  CHECK(describe_what_stays({.ignored = {"a", "b", "c/", "d"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: a, b, c/, and 1 more" + more});
  const std::string committed =
      "code: committed files stay behind, since git would ignore them or they are hidden or usually secret: ";
  CHECK(describe_what_stays({.secrets = {".streamlit/"}, .ignored = {"data/"}},
                            {".streamlit/config.toml", "data/keep.csv", "data2", "train.py"}) ==
        PathsThatStay{committed + "data/keep.csv, .streamlit/config.toml" + more,
                      "code: left out, as git ignores it: data/" + more});
}

TEST_CASE("describe_what_stays() names an uncommitted secret unless its name begins with a dot") {
  const std::string more = "; name the files that the program needs in include:";
  CHECK(describe_what_stays({.secrets = {".envrc", ".aws/", "sub/.npmrc"}}, {"train.py"}).empty());
  CHECK(describe_what_stays({.secrets = {".envrc", "sub/key.pem"}}, {}) ==
        PathsThatStay{"code: files that usually hold secrets stay behind: sub/key.pem" + more});
  CHECK(describe_what_stays({.secrets = {"key.pem"}}, {"key.pem"}).size() == 1);
}

TEST_CASE(
    "if git does not tell which files it ignores, describe_what_stays() says that such files may travel") {
  const std::string unknown =
      "code: git does not tell which files its settings ignore, so such files may travel; see: git status";
  CHECK(describe_what_stays({.are_ignored_known = false}, {}) == PathsThatStay{unknown});
  CHECK(describe_what_stays({.ignored = {"a"}, .are_ignored_known = false}, {}).size() == 2);
}

TEST_CASE("is_lfs_pointer() finds a pointer of Git LFS by its first line and its digest") {
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

TEST_CASE(
    "describe_what_stays() names three paths and counts the rest, and finds committed files below a folder") {
  const std::string more = "; name the files that the program needs in include:";
  CHECK(describe_what_stays({.ignored = {"a", "b", "c"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: a, b, c" + more});
  CHECK(describe_what_stays({.ignored = {"a", "b", "c", "d", "e"}}, {}) ==
        PathsThatStay{"code: left out, as git ignores it: a, b, c, and 2 more" + more});
  const std::string committed =
      "code: committed files stay behind, since git would ignore them or they are hidden or usually secret: ";
  CHECK(describe_what_stays({.ignored = {"a", "d/"}}, {"a", "a/b", "ab", "d", "d/x", "d/y", "e"}) ==
        PathsThatStay{committed + "a, d/x, d/y" + more, "code: left out, as git ignores it: a, d/" + more});
  CHECK(describe_what_stays({.ignored = {"a\x1b"}}, {})[0].find('\x1b') == std::string::npos);
}

TEST_CASE("a path is hidden if its own name begins with a dot; hidden folders above it do not count") {
  const std::string secrets = "code: files that usually hold secrets stay behind: ",
                    more = "; name the files that the program needs in include:";
  CHECK(describe_what_stays({.secrets = {"sub/.aws/", ".a", ".b/"}}, {}).empty());
  CHECK(describe_what_stays({.secrets = {"kubeconfig/"}}, {}) ==
        PathsThatStay{secrets + "kubeconfig/" + more});
  CHECK(describe_what_stays({.secrets = {".a/key.pem"}}, {}) == PathsThatStay{secrets + ".a/key.pem" + more});
  CHECK(describe_what_stays({.secrets = {"a.pem", "b.pem"}}, {"b.pem"}).back() == secrets + "a.pem" + more);
}

TEST_CASE(
    "is_lfs_pointer() needs the whole first line, and a sha256 digest at the beginning of another line") {
  const std::string first = "version https://git-lfs.github.com/spec/v1";
  CHECK(mlk::image::is_lfs_pointer(first + "\noid sha256:a"));
  CHECK_FALSE(mlk::image::is_lfs_pointer(first + "\nx oid sha256:a"));
  CHECK_FALSE(mlk::image::is_lfs_pointer(first + "\noid sha512:a"));
  CHECK_FALSE(mlk::image::is_lfs_pointer(first + "0\noid sha256:a"));
  CHECK_FALSE(mlk::image::is_lfs_pointer(""));
}
