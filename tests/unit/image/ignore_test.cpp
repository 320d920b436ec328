// Which paths the patterns of ignore files match.
#include "cli/image/ignore.h"

#include <doctest/doctest.h>

using mlk::image::IgnoreRules;
using mlk::image::Includes;

namespace {

bool leaves_out(const std::string& rules, const std::string& path, bool is_folder = false) {
  IgnoreRules ignore;
  ignore.add(rules, "");
  return ignore.leaves_out(path, is_folder).value_or(false);
}

}  // namespace

TEST_CASE("a pattern without a slash matches names in all folders, one with a slash paths from the top") {
  CHECK(leaves_out("*.pt", "a.pt"));
  CHECK(leaves_out("*.pt", "x/y/a.pt"));
  CHECK_FALSE(leaves_out("*.pt", "a.pth"));
  CHECK(leaves_out("/data", "data"));
  CHECK_FALSE(leaves_out("/data", "x/data"));
  CHECK(leaves_out("x/data", "x/data"));
  CHECK_FALSE(leaves_out("x/data", "y/x/data"));
  CHECK_FALSE(leaves_out("x/*", "x/y/z"));
}

TEST_CASE("a pattern with a slash at its end matches folders only") {
  CHECK(leaves_out("logs/", "logs", true));
  CHECK_FALSE(leaves_out("logs/", "logs"));
  CHECK(leaves_out("logs/", "x/logs", true));
}

TEST_CASE("two stars stand for any number of folders") {
  CHECK(leaves_out("**/cache", "cache"));
  CHECK(leaves_out("**/cache", "a/b/cache"));
  CHECK(leaves_out("a/**/z", "a/z"));
  CHECK(leaves_out("a/**/z", "a/b/c/z"));
  CHECK_FALSE(leaves_out("a/**/z", "b/a/z"));
  CHECK(leaves_out("a/**", "a/b"));
  CHECK_FALSE(leaves_out("a/**", "a", true));
}

TEST_CASE("the last rule that matches decides, and an exclamation mark keeps") {
  CHECK_FALSE(leaves_out("*.log\n!keep.log", "keep.log"));
  CHECK(leaves_out("!keep.log\n*.log", "keep.log"));
  IgnoreRules nested;
  nested.add("*.log", "");
  nested.add("!*.log", "a/b");
  CHECK(nested.leaves_out("x.log", false) == true);
  CHECK(nested.leaves_out("a/b/c/x.log", false) == false);
  CHECK(nested.leaves_out("a/bc/x.log", false) == true);
  CHECK(nested.leaves_out("x.txt", false) == std::nullopt);
  IgnoreRules odd;
  odd.add("secret", "[id]");
  CHECK(odd.leaves_out("[id]/secret", false) == true);
  CHECK(odd.leaves_out("i/secret", false) == std::nullopt);
}

TEST_CASE("comments, blanks at the end, escapes and the line ends of Windows are those of git") {
  CHECK_FALSE(leaves_out("#a", "#a"));
  CHECK(leaves_out("\\#a", "#a"));
  CHECK(leaves_out("\\!a", "!a"));
  CHECK(leaves_out("a  \r\n", "a"));
  CHECK(leaves_out("a\\ ", "a "));
  CHECK(leaves_out("a\\\\ ", "a\\"));
  CHECK(
      leaves_out("\xef\xbb\xbf"
                 "a",
                 "a"));
  CHECK_FALSE(leaves_out("\n/\n!\n", "a"));
}

TEST_CASE("sets of characters have ranges and negations, and one without an end is no set") {
  CHECK(leaves_out("[a-c]x", "bx"));
  CHECK_FALSE(leaves_out("[a-c]x", "dx"));
  CHECK(leaves_out("[!a-c]x", "dx"));
  CHECK(leaves_out("[^a]x", "bx"));
  CHECK(leaves_out("[]a]", "]"));
  CHECK(leaves_out("[a-]", "-"));
  CHECK(leaves_out("[\\]]", "]"));
  CHECK(leaves_out("[a", "[a"));
  CHECK_FALSE(leaves_out("[]", "]"));
  CHECK(leaves_out("run[[:digit:]]", "run1"));
  CHECK_FALSE(leaves_out("run[[:digit:]]", "runx"));
  CHECK(leaves_out("[[:upper:]x]", "x"));
  CHECK(leaves_out("[![:space:]]", "x"));
  CHECK(leaves_out("?", "x"));
  CHECK_FALSE(leaves_out("?", ""));
}

TEST_CASE("where case does not count, letters are the same in names, patterns and sets") {
  const auto either = [](const std::string& rule, const std::string& path) {
    IgnoreRules ignore(mlk::image::Case::is_ignored);
    ignore.add(rule, "");
    return ignore.leaves_out(path, false).value_or(false);
  };
  for (const auto& [rule, path] :
       std::vector<std::pair<std::string, std::string>>{{"build", "BUILD"},
                                                        {"BUILD", "x/Build"},
                                                        {"*.Log", "a.LOG"},
                                                        {"/Data/x", "data/X"},
                                                        {"[a-c]x", "BX"},
                                                        {"[A-C]x", "bx"},
                                                        {"[[:upper:]]", "a"},
                                                        {"**/Runs/*", "a/runS/b"}}) {
    CHECK_MESSAGE(either(rule, path), rule);
    CHECK_MESSAGE(!leaves_out(rule, path), rule);
  }
  CHECK_FALSE(either("[!a-c]x", "BX"));
  CHECK_FALSE(either("[a-c]", "D"));
  CHECK_FALSE(either("\xc3\xa4", "\xc3\x84"));  // letters beyond ASCII are bytes
}

TEST_CASE("a pattern of many stars is matched in a time that grows slowly") {
  std::string stars, deep;
  for (int i = 0; i < 200; ++i) stars += "*a", deep += "**/a/";
  const std::string text(4000, 'a');
  CHECK_FALSE(leaves_out(stars + "b", text));
  std::string path;
  for (int i = 0; i < 1000; ++i) path += "a/";
  CHECK_FALSE(leaves_out(deep + "b", path + "c"));
}

TEST_CASE("what is included names paths from the top, and folders bring what is in them") {
  Includes includes({"data/vocabulary.txt", "models/", "**/*.json"});
  CHECK(includes.matches("data/vocabulary.txt"));
  CHECK_FALSE(includes.matches("x/data/vocabulary.txt"));
  CHECK(includes.matches("models/a/b"));
  CHECK(includes.matches("x/y.json"));
  CHECK_FALSE(includes.matches("data/other.txt"));
  CHECK(includes.vain().empty());
  CHECK(Includes({"a", "./b"}).vain() == std::vector<std::string>{"a", "./b"});
  Includes dotted({"./data/v.txt"});
  CHECK(dotted.matches("data/v.txt"));
  const Includes one({"data/*/v.txt"});
  CHECK(one.may_match_below("data"));
  CHECK(one.may_match_below("data/en"));
  CHECK_FALSE(one.may_match_below("other"));
  CHECK_FALSE(Includes({}).may_match_below("data"));
}
