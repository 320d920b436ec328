#include "cli/util/pattern.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("util/pattern");

using namespace mlk;

TEST_CASE("a pattern without anchors is found anywhere in a text") {
  CHECK(Pattern("res").is_found_in("a resnet"));
  CHECK(Pattern("^a.*t$").is_found_in("a resnet"));
  CHECK_FALSE(Pattern("RES").is_found_in("a resnet"));
  CHECK(Pattern("RES", LetterCase::is_ignored).is_found_in("a resnet"));
  CHECK_FALSE(Pattern("^res").is_found_in("a resnet"));
  CHECK_FALSE(Pattern("x").is_found_in(""));
  CHECK(Pattern("^n.$").is_found_in("n\xc3\xa9"));  // `.` matches a character, not a byte
}

TEST_CASE("first_group_in() returns the first group of the first match") {
  CHECK(Pattern("a(\\d)").first_group_in("a1 a2") == "1");
  CHECK(Pattern("(?:a|b)(\\d)(\\d)").first_group_in("b12") == "1");
  CHECK(Pattern("a(b)?").first_group_in("a") == "");
  CHECK_FALSE(Pattern("a(\\d)").first_group_in("ab"));
  CHECK_FALSE(Pattern("a").first_group_in("a"));
  CHECK(Pattern("(.*)").first_group_in(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("why_no_pattern() returns the reason why a pattern is invalid") {
  CHECK(why_no_pattern("a(b)c").empty());
  CHECK(why_no_pattern("") == "is empty");
  CHECK(why_no_pattern("(a") == "is not valid: missing ): (a");
  CHECK(why_no_pattern("([a)") == "is not valid: missing ]: [a)");
  CHECK(why_no_pattern("*(a)") == "is not valid: no argument for repetition operator: *");
  CHECK(why_no_pattern("(a)\\1") == "is not valid: invalid escape sequence: \\1");
  CHECK(why_no_pattern("(?=a)").starts_with("is not valid: "));
  CHECK(why_no_pattern("(((a{9}){99}){99}){99}").starts_with("is not valid: "));
  CHECK(why_no_pattern("(a){9999}").starts_with("is not valid: "));
  CHECK(why_no_pattern(std::string(256, 'a')).empty());
  CHECK(why_no_pattern(std::string(257, 'a')) == "is longer than 256 bytes");
  CHECK_THROWS_WITH_AS(Pattern("(a"), "the pattern '(a' is not valid: missing ): (a", Error);
}
