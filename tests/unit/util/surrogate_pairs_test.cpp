#include "cli/util/surrogate_pairs.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/surrogate_pairs");

using mlk::hide_surrogate_pairs;
using mlk::show_surrogate_pairs;
using namespace std::string_literals;

TEST_CASE("hide_surrogate_pairs() hides only escapes that form a pair") {
  CHECK(hide_surrogate_pairs(R"("\ud83d\ude00")") ==
        "\"\\0d83d\x01\x01"
        "de00\"");
  CHECK(hide_surrogate_pairs(R"(\\\uD83D\uDE00)") ==
        "\\\\\\0D83D\x01\x01"
        "DE00");
  for (const char* text : {
           R"("\ud83d")",         // a high half alone
           R"("\ude00")",         // a low half alone
           R"("\ud83d \ude00")",  // two halves that are no pair
           R"("\ude00\ud83d")",   // the low half first
           R"("\ud83d\ud83d")",   // two high halves
           R"("\ud83d\u0041")",   // another character after it
           R"("\\ud83d\ude00")",  // the backslash is escaped: text, and a lone half
           R"("\ud83d\ude0")",    // too short
           R"("\ud83g\ude00")",   // not a number
           R"("\U0001f600 \u00e4")",
           "",
           "\\",
       })
    CHECK(hide_surrogate_pairs(text) == text);
}

TEST_CASE("show_surrogate_pairs() turns a hidden pair into its character, or back into its two escapes") {
  CHECK(show_surrogate_pairs("a\0d83d\x01\x01"
                             "de00b"s) == "a\U0001f600b");
  CHECK(show_surrogate_pairs("\0d83d\x01\x01"
                             "de00\0D83D\x01\x01"
                             "DE01"s) == "\U0001f600\U0001f601");
  CHECK(show_surrogate_pairs("\0dbff\x01\x01"
                             "dfff\0d800\x01\x01"
                             "dc00"s) == "\U0010ffff\U00010000");
  for (const std::string text : {R"(\ud83d\ude00)", R"(a\\\uD83D\uDe00 \ud83d\ude01\ud83d\ude02)", "plain"})
    CHECK(show_surrogate_pairs(hide_surrogate_pairs(text)) == text);
  // Other escapes in the YAML may produce such bytes too.
  for (const std::string& text : {"\x01\x01"s, "\0\x01\x01"s,
                                  "abcde\x01\x01"
                                  "de00"s,
                                  "d83d\x01\x01"
                                  "de00"s,
                                  "\x01\x01\x01\x01"s, "\0d83d\x01\x01"s})
    CHECK(show_surrogate_pairs(text) == text);
}
