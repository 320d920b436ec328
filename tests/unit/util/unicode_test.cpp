#include "cli/util/unicode.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/unicode");

TEST_CASE("characters of one to four bytes are read whole") {
  for (const char* text : {"a", "\u00fc", "\u2588", "\U0001f600", "\U0010ffff"}) {
    const mlk::Character read = mlk::first_character(text);
    CHECK(read.valid);
    CHECK(read.bytes == std::string(text).size());
  }
  CHECK(mlk::first_character("\u202e").code == 0x202e);
  CHECK(mlk::first_character("\U0001f600").code == 0x1f600);
  CHECK(mlk::first_character("").bytes == 0);
}

TEST_CASE("bytes that form no valid character are read one at a time") {
  // A lone continuation byte, a cut character, overlong forms, a surrogate, a code beyond the last character,
  // and bytes that begin no character.
  for (const char* text : {"\x9b", "\xe2\x96", "\xc1\x9b", "\xe0\x82\x9b", "\xf0\x80\x82\x9b", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xff", "\xc2"}) {
    const mlk::Character read = mlk::first_character(text);
    CHECK_FALSE(read.valid);
    CHECK(read.bytes == 1);
    CHECK_FALSE(mlk::is_utf8(text));
  }
  CHECK(mlk::is_utf8("gr\u00fcn"));
}
