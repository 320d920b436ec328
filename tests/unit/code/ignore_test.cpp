// Checks which paths the patterns of ignore files match.
#include "cli/code/ignore.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("code/ignore");

using mlk::image::IgnoreRules;
using mlk::image::Includes;

namespace {

bool leaves_out(const std::string& rules, const std::string& path, bool is_folder = false) {
  IgnoreRules ignore;
  ignore.add(rules, "");
  return ignore.leaves_out(path, is_folder).value_or(false);
}

}  // namespace

TEST_CASE(
    "a pattern without a slash matches names in any folder; one with a slash matches paths from the top") {
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

TEST_CASE("two stars match any number of folders") {
  CHECK(leaves_out("**/cache", "cache"));
  CHECK(leaves_out("**/cache", "a/b/cache"));
  CHECK(leaves_out("a/**/z", "a/z"));
  CHECK(leaves_out("a/**/z", "a/b/c/z"));
  CHECK_FALSE(leaves_out("a/**/z", "b/a/z"));
  CHECK(leaves_out("a/**", "a/b"));
  CHECK_FALSE(leaves_out("a/**", "a", true));
}

TEST_CASE("the last matching rule decides, and a rule with an exclamation mark keeps a path") {
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

TEST_CASE("comments, blanks at the end, escapes and the line ends of Windows work as in git") {
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

TEST_CASE("a set of characters may have ranges and a negation, and a set without an end is literal text") {
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

TEST_CASE("names, patterns and sets match letters of both cases if case is ignored") {
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
  CHECK_FALSE(either("\xc3\xa4", "\xc3\x84"));  // other letters than those of ASCII differ
}

TEST_CASE("a pattern of many stars is matched in a short time") {
  std::string stars, deep;
  for (int i = 0; i < 200; ++i) stars += "*a", deep += "**/a/";
  const std::string text(4000, 'a');
  CHECK_FALSE(leaves_out(stars + "b", text));
  std::string path;
  for (int i = 0; i < 1000; ++i) path += "a/";
  CHECK_FALSE(leaves_out(deep + "b", path + "c"));
}

TEST_CASE("the patterns of `Includes` match paths from the top, and a matching folder includes its content") {
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

TEST_CASE("a class such as [:digit:] matches only its own characters, and no bytes beyond ASCII") {
  struct Row {
    const char *name, *in, *out;
  };
  for (const Row& row :
       {Row{"alnum", "a9Z", "_ -"}, Row{"alpha", "aZ", "9_"}, Row{"blank", " \t", "a\v"},
        Row{"cntrl", "\x01\x7f", "a "}, Row{"digit", "09", "a-"}, Row{"graph", "a!", " \t"},
        Row{"lower", "az", "A1"}, Row{"print", "a ", "\t\x7f"}, Row{"punct", "!_", "a "},
        Row{"space", " \v", "a_"}, Row{"upper", "AZ", "a1"}, Row{"xdigit", "9afAF", "gG_"}}) {
    const std::string pattern = std::string("x[[:") + row.name + ":]]";
    for (const char c : std::string(row.in))
      CHECK_MESSAGE(leaves_out(pattern, std::string("x") + c), pattern);
    for (const char c : std::string(row.out) + "\xe4")
      CHECK_MESSAGE(!leaves_out(pattern, std::string("x") + c), pattern);
  }
  CHECK(leaves_out("x[[:digit:][:upper:]_]y", "x_y"));
  CHECK(leaves_out("x[[:digit:][:upper:]_]y", "xAy"));
  CHECK_FALSE(leaves_out("x[![:digit:]]", "x5"));
  CHECK_FALSE(leaves_out("x[[:none:]]", "xy"));
}

TEST_CASE("a range such as [b-d] matches both of its ends, and no character outside") {
  struct Row {
    const char *pattern, *name;
    bool matches;
  };
  for (const Row& row : {Row{"[b-d]", "b", true},      Row{"[b-d]", "d", true},   Row{"[b-d]", "a", false},
                         Row{"[b-d]", "e", false},     Row{"[d-b]", "c", false},  Row{"[!b-d]", "b", false},
                         Row{"[!b-d]", "e", true},     Row{"[^b-d]", "d", false}, Row{"[-a]", "-", true},
                         Row{"[a-]", "a", true},       Row{"[a-]", "b", false},   Row{"[\\a-\\c]", "b", true},
                         Row{"[\\a-\\c]", "d", false}, Row{"[!]", "!", false},    Row{"[!]", "[!]", true},
                         Row{"[!]a]", "b", true},      Row{"[!]a]", "]", false},  Row{"[ab]c", "bc", true},
                         Row{"[ab]c", "abc", false},   Row{"[a!]", "!", true},    Row{"[a-c-e]", "-", true},
                         Row{"[a-c-e]", "d", false}})
    CHECK_MESSAGE(leaves_out(row.pattern, row.name) == row.matches, std::string(row.pattern), " ",
                  std::string(row.name));
}

TEST_CASE("a star matches any number of characters of one name, also none") {
  struct Row {
    const char *pattern, *name;
    bool matches;
  };
  for (const Row& row :
       {Row{"*", "a", true},           Row{"a*", "a", true},        Row{"*a", "a", true},
        Row{"*ab", "b", false},        Row{"*ab", "ab", true},      Row{"*ab", "xab", true},
        Row{"a*a", "a", false},        Row{"a*a", "aa", true},      Row{"a*a", "aba", true},
        Row{"a**b", "ab", true},       Row{"a**b", "axxb", true},   Row{"a*b*c", "abc", true},
        Row{"a*b*c", "axbybzc", true}, Row{"a*b*c", "acb", false},  Row{"a*b*c", "abcd", false},
        Row{"*[ab]?", "xxaz", true},   Row{"*[ab]?", "xxa", false}, Row{"*\\*", "a*", true},
        Row{"*\\*", "ab", false},      Row{"\\*", "*", true},       Row{"\\*", "a", false},
        Row{"a?", "a", false},         Row{"a?", "ab", true},       Row{"a?", "abc", false},
        Row{"a\\", "a\\", true},       Row{"a\\", "a", false},      Row{"a", "ab", false},
        Row{"ab", "a", false},         Row{"/a*c", "a/c", false},   Row{"/a?c", "a/c", false}})
    CHECK_MESSAGE(leaves_out(row.pattern, row.name) == row.matches, std::string(row.pattern), " ",
                  std::string(row.name));
}

TEST_CASE("two stars match as many folders as the rest of the pattern needs") {
  struct Row {
    const char *pattern, *path;
    bool matches;
  };
  for (const Row& row :
       {Row{"a/**/b/**/c", "a/b/c", true}, Row{"a/**/b/**/c", "a/x/b/x/b/y/c", true},
        Row{"a/**/b/**/c", "a/x/c", false}, Row{"a/**/b/c", "a/b/x/b/c", true},
        Row{"a/**/b/c", "a/b/x/c", false}, Row{"**/a/b", "a/a/b", true}, Row{"**/a/b", "a/b/c", false},
        Row{"a/**", "a/b/c", true}, Row{"a/**", "b/a", false}, Row{"a/b", "a", false},
        Row{"a/b", "a/b/c", false}, Row{"a//b", "a/b", true}, Row{"**", "a/b", true}})
    CHECK_MESSAGE(leaves_out(row.pattern, row.path) == row.matches, std::string(row.pattern), " ",
                  std::string(row.path));
}

TEST_CASE("add() removes blanks at the end of a line, but not an escaped blank") {
  CHECK(leaves_out("a\\  ", "a "));
  CHECK_FALSE(leaves_out("a\\  ", "a  "));
  CHECK(leaves_out("a\\\\  ", "a\\"));
  CHECK(leaves_out("a\\\\\\ ", "a\\ "));
  CHECK(leaves_out(" a", " a"));
  CHECK_FALSE(leaves_out("   \n", " "));
  CHECK(leaves_out("a\t", "a\t"));
  CHECK_FALSE(leaves_out("b\n a#b", "#b"));
  CHECK(leaves_out("a#b", "a#b"));
}

TEST_CASE("add() treats the name of the folder as literal text, not as a pattern") {
  struct Row {
    const char *folder, *same, *other;
  };
  for (const Row& row : {Row{"a*", "a*/x", "ab/x"}, Row{"a?", "a?/x", "ab/x"}, Row{"a[b]", "a[b]/x", "ab/x"},
                         Row{"a\\b", "a\\b/x", "ab/x"}, Row{"a/b*/c", "a/b*/c/x", "a/bb/c/x"}}) {
    IgnoreRules rules;
    rules.add("/x", row.folder);
    CHECK_MESSAGE(rules.leaves_out(row.same, false) == true, std::string(row.folder));
    CHECK_MESSAGE(!rules.leaves_out(row.other, false), std::string(row.folder));
  }
  IgnoreRules below;
  below.add("x\n/y\nz/\n", "a");
  CHECK(below.leaves_out("a/x", false) == true);
  CHECK(below.leaves_out("a/b/x", false) == true);
  CHECK_FALSE(below.leaves_out("x", false));
  CHECK(below.leaves_out("a/y", false) == true);
  CHECK_FALSE(below.leaves_out("a/b/y", false));
  CHECK(below.leaves_out("a/b/z", true) == true);
  CHECK_FALSE(below.leaves_out("a/b/z", false));
}

TEST_CASE("a slash at the end limits a rule to folders, also with an exclamation mark or a star") {
  CHECK_FALSE(leaves_out("*\n!*/", "a", true));
  CHECK(leaves_out("*\n!*/", "a"));
  CHECK(leaves_out("lo*/", "x/logs", true));
  CHECK_FALSE(leaves_out("lo*/", "x/logs"));
  CHECK(leaves_out("x/logs/", "x/logs", true));
  CHECK_FALSE(leaves_out("x/logs/", "x/logs"));
}

TEST_CASE("vain() lists the patterns that have matched no path yet") {
  Includes several({"a*", "ab", "none", "d/e"});
  CHECK(several.matches("ab"));
  CHECK(several.vain() == std::vector<std::string>{"none", "d/e"});
  CHECK_FALSE(several.matches("d"));
  CHECK_FALSE(several.matches("AB"));
  CHECK(several.matches("d/e/f"));
  CHECK(several.vain() == std::vector<std::string>{"none"});
  CHECK_FALSE(Includes({}).matches("a"));
  CHECK(Includes({}).vain().empty());
  CHECK_FALSE(Includes({"..a"}).matches("a"));
}

TEST_CASE("may_match_below() is true for a folder if a path in this folder could match a pattern") {
  struct Row {
    const char *pattern, *folder;
    bool may;
  };
  for (const Row& row :
       {Row{"data/en/v.txt", "data", true}, Row{"data/en/v.txt", "data/en", true},
        Row{"data/en/v.txt", "data/fr", false}, Row{"data/en/v.txt", "Data", false},
        Row{"data", "data/x/y", true}, Row{"data/*/v", "data/x", true}, Row{"data/*/v", "other/x", false},
        Row{"**/v", "any/x", true}, Row{"data/**/v", "data/x/y/z", true}, Row{"data/**/v", "other/x", false},
        Row{"./data/v", "data", true}})
    CHECK_MESSAGE(Includes({row.pattern}).may_match_below(row.folder) == row.may, std::string(row.pattern),
                  " ", std::string(row.folder));
  CHECK(Includes({"a/x", "b/x"}).may_match_below("b"));
}

TEST_CASE("if case is ignored, a set has both cases of each of its letters, also if it is negated") {
  const auto either = [](const std::string& rule, const std::string& path) {
    IgnoreRules ignore(mlk::image::Case::is_ignored);
    ignore.add(rule, "");
    return ignore.leaves_out(path, false).value_or(false);
  };
  CHECK(either("[[:lower:]]", "A"));
  CHECK_FALSE(either("[![:upper:]]", "a"));
  CHECK_FALSE(either("[![:lower:]]", "A"));
  CHECK_FALSE(either("[[:digit:]]", "a"));
  CHECK(either("[A-C]", "c"));
  CHECK(either("[a-c]", "A"));
  CHECK_FALSE(either("[A-C]", "d"));
  CHECK_FALSE(either("[1-3]", "a"));
  CHECK_FALSE(either("ab", "Ac"));
}
