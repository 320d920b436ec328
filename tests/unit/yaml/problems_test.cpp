// Checks the text of mistakes: their order, their places, their excerpts, and lines that are not shown.
#include "cli/yaml/problems.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("yaml/problems");

namespace mlk {
namespace {

std::shared_ptr<const Source> source_of(std::string text, std::string name = "f") {
  return std::make_shared<const Source>(Source{std::move(name), std::move(text)});
}

std::string said(const Problems& problems) {
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

// The text of one mistake at the given place.
std::string shown(std::string text, std::size_t line, std::size_t column) {
  Problems problems;
  problems.add({source_of(std::move(text)), line, column}, "no");
  return said(problems);
}

TEST_CASE("throw_if_any() throws an Error with the hint if there is a mistake") {
  Problems problems;
  CHECK(problems.empty());
  CHECK(problems.size() == 0);
  CHECK_NOTHROW(problems.throw_if_any("hint"));
  problems.add({source_of("a"), 0, 0}, "no");
  CHECK_FALSE(problems.empty());
  CHECK(problems.size() == 1);
  try {
    problems.throw_if_any("read the manual");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(error.hint() == "read the manual");
  }
}

TEST_CASE("a message counts lines and characters from 1") {
  CHECK(shown("a\nbc d\ne", 1, 3) == "f:2:4: no\n  bc d\n     ^");
  CHECK(shown("äöü d", 0, 7) == "f:1:5: no\n  äöü d\n      ^");
  CHECK(shown("ab", 0, 0) == "f:1:1: no\n  ab\n  ^");
  CHECK(shown("ab", 0, 2) == "f:1:3: no\n  ab\n    ^");
}

TEST_CASE("the caret for a column beyond the line is at the line's end") {
  CHECK(shown("ab\nc", 0, 9) == "f:1:3: no\n  ab\n    ^");
  CHECK(shown("ab", 3, 2) == "f:4:1: no");
}

TEST_CASE("an excerpt has no carriage return, no tab and no terminal controls") {
  CHECK(shown("a\tb\r\nc", 0, 2) == "f:1:3: no\n  a b\n    ^");
  CHECK(shown("a\x1b[1m", 0, 0) == "f:1:1: no\n  a?[1m\n  ^");
  CHECK(shown(" \t ", 0, 1) == "f:1:2: no");
  CHECK(shown("\xff", 0, 0) == "f:1:1: no");
  Problems problems;
  problems.add({source_of("a", "f\x1b"), 0, 0}, "no\x1b");
  CHECK(said(problems) == "f?:1:1: no?\n  a\n  ^");
}

TEST_CASE("an excerpt shows at most 100 bytes of a line, around the mistake") {
  const std::string head(60, 'a'), tail(40, 'b');
  CHECK(shown(head + tail, 0, 60) == "f:1:61: no\n  " + head + tail + "\n  " + std::string(60, ' ') + "^");
  const std::string line = head + tail + "c";
  CHECK(shown(line, 0, 50) == "f:1:51: no\n  " + head + tail + "\n  " + std::string(50, ' ') + "^");
  CHECK(shown(line, 0, 52) == "f:1:53: no\n  " + line.substr(2) + "\n  " + std::string(50, ' ') + "^");
  CHECK(shown(line + std::string(100, 'd'), 0, 51) ==
        "f:1:52: no\n  " + line.substr(1) + "\n  " + std::string(50, ' ') + "^");
}

TEST_CASE("a line of more than 4096 bytes is not shown") {
  CHECK(shown(std::string(4096, 'a'), 0, 0) == "f:1:1: no\n  " + std::string(100, 'a') + "\n  ^");
  CHECK(shown(std::string(4097, 'a'), 0, 0) == "f:1:1: no");
}

TEST_CASE("an error does not show a line that may hold a secret") {
  const std::string hidden = "f:1:1: no";
  for (const char* line : {"HF_TOKEN: x", "hf_token=x", "a, TOKEN\"x", "PASSWORD'", "{a: b, TOKEN: x}",
                           "x: ghp_0123456789abcdef0123", "x: [a,ghp_0123456789abcdef0123]",
                           "\"ghp_0123456789abcdef0123\"", "https://u:p@h/", "ghp_0123456789abcdef0123 b"}) {
    CHECK_MESSAGE(shown(line, 0, 0) == hidden, line);
  }
  for (const char* line : {"TOKEN", "TOKEN x", "the token is", "secret: a/b", "TOKEN_FILE: /x",
                           "aghp_0123456789abcdef0123", "ghp_01234 6789abcdef0123"}) {
    CHECK_MESSAGE(shown(line, 0, 0) == hidden + "\n  " + line + "\n  ^", line);
  }
}

TEST_CASE("mistakes are sorted by their place in the text, and mistakes of flags come last") {
  const auto file = source_of("abc\ndef\nghi"), flag = source_of("k=v", "--set");
  Problems problems;
  problems.add({flag, 0, 0}, "flag");
  problems.add({file, 2, 0}, "third");
  problems.add({file, 1, 2}, "second");
  problems.add({file, 1, 1}, "first");
  problems.add({file, 1, 1}, "first, said later");
  problems.add({file, 0, 2}, "before");
  std::string order;
  const std::string all = said(problems);
  for (std::size_t at = 0; at < all.size(); at = std::min(all.find('\n', at), all.size() - 1) + 1) {
    if (all[at] != ' ') order += all.substr(at, all.find('\n', at) - at) + ";";
  }
  CHECK(order ==
        "f:1:3: before;f:2:2: first;f:2:2: first, said later;f:2:3: second;f:3:1: third;--set:1:1: flag;");
}

TEST_CASE("the same mistake at the same place is reported once") {
  const auto source = source_of("abc\ndef");
  Problems problems;
  for (int i = 0; i < 2; ++i) {
    problems.add({source, 0, 0}, "no");
    problems.add({source, 0, 1}, "no");
    problems.add({source, 1, 0}, "no");
    problems.add({source, 0, 0}, "not");
  }
  CHECK(problems.size() == 4);
  problems.add({source_of("abc\ndef"), 0, 0}, "no");
  CHECK(problems.size() == 5);
}

TEST_CASE("an error shows at most twenty mistakes and counts the others") {
  const auto source = source_of(" ");
  Problems problems;
  for (std::size_t i = 0; i < 20; ++i) problems.add({source, 0, 0}, std::to_string(i));
  CHECK(said(problems).ends_with("\nf:1:1: 19"));
  problems.add({source, 0, 0}, "more");
  CHECK(said(problems).ends_with("\nf:1:1: 19\nand 1 more"));
  for (std::size_t i = 0; i < 1500; ++i) problems.add({source, 0, 0}, "again " + std::to_string(i));
  CHECK(problems.size() == 1000);
  CHECK(said(problems).ends_with("\nand 980 more"));
}

}  // namespace
}  // namespace mlk
