#include "cli/util/number.h"

#include <cmath>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/number");

namespace {

using mlk::number_beside_signs;
using mlk::number_of_word;

TEST_CASE("number_of_word() accepts a number, and refuses a word of which only a part is a number") {
  for (const auto& [word, value] : std::initializer_list<std::pair<const char*, double>>{
           {"0", 0},
           {"12", 12},
           {"-0.5", -0.5},
           {"+3", 3},
           {".5", 0.5},
           {"5.", 5},
           {"1e-3", 1e-3},
           {"2E+2", 200},
           {"-1.5e1", -15},
           {"1e999", std::numeric_limits<double>::infinity()},
           {"inf", std::numeric_limits<double>::infinity()},
           {"-Infinity", -std::numeric_limits<double>::infinity()},
           {"+INF", std::numeric_limits<double>::infinity()}}) {
    CAPTURE(word);
    CHECK(number_of_word(word) == value);
  }
  for (const char* nan : {"nan", "NaN", "-nan"}) CHECK(std::isnan(number_of_word(nan).value_or(0)));
  for (const char* word : {"",       " ",    "-",        "+",     ".",         "e5",   "1e", "1e+", "12,000",
                           "0.5x",   "0.5%", "0x10",     "1_000", "1 2",       " 1",   "1 ", "--1", "1.2.3",
                           "nan(1)", "nano", "infinite", "in",    "infinitys", "0.5,", "one"}) {
    CAPTURE(word);
    CHECK_FALSE(number_of_word(word));
  }
}

TEST_CASE("number_beside_signs() ignores punctuation before and after a number") {
  for (const char* text : {"0.5", "0.5,", "(0.5)", "[0.5],", "'0.5'.", "\"0.5\";", "=0.5", ": 0.5", "0.5%",
                           "~0.5", "<0.5>", "**0.5**", "“0.5”", "0.5...", "0.5-"}) {
    CAPTURE(text);
    CHECK(number_beside_signs(text) == 0.5);
  }
  CHECK(number_beside_signs("(-0.5)") == -0.5);
  CHECK(number_beside_signs("5.") == 5);
  CHECK(number_beside_signs("nan,").has_value());
  for (const char* text : {"", ",", "12,000", "0.5s", "0.5x,", "0.5,0.6", "loss", "1/3", "(a)"}) {
    CAPTURE(text);
    CHECK_FALSE(number_beside_signs(text));
  }
}

TEST_CASE("word_of_number() returns nan, inf or -inf for the numbers that JSON lacks") {
  CHECK(mlk::word_of_number(std::nan("")) == "nan");
  CHECK(mlk::word_of_number(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(mlk::word_of_number(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(mlk::word_of_number(1e308) == "");
}

}  // namespace

TEST_CASE("parse_int() accepts only a whole number in the range of an int") {
  CHECK(mlk::parse_int("0", -1) == 0);
  CHECK(mlk::parse_int("-3", 7) == -3);
  CHECK(mlk::parse_int("2147483647", -1) == 2147483647);
  for (const char* none : {"", "x", "3x", " 3", "3 ", "+3", "2147483648", "1.5"})
    CHECK_MESSAGE(mlk::parse_int(none, -1) == -1, none);
}
