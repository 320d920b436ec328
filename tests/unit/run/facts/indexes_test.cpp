#include "cli/run/facts/indexes.h"

#include <doctest/doctest.h>

using namespace mlk;

TEST_CASE("ranks are listed by their ranges") {
  CHECK(index_list({}).empty());
  CHECK(index_list({7}) == "7");
  CHECK(index_list({0, 1}) == "0-1");
  CHECK(index_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
}

TEST_CASE("a list of indexes is read as far as it is one") {
  CHECK(parse_indexes("") == std::set<int>{});
  CHECK(parse_indexes("0") == std::set<int>{0});
  CHECK(parse_indexes("0,2-4") == std::set<int>{0, 2, 3, 4});
  CHECK(parse_indexes("3-3") == std::set<int>{3});
  CHECK(parse_indexes("4-2,x,-1,1-,7") == std::set<int>{7});
  CHECK(parse_indexes("99999") == std::set<int>{99999});
  CHECK(parse_indexes("100000").empty());
}

TEST_CASE("the number at a place of a list is found by its ranges") {
  CHECK(number_of_index("0-8", 3) == 3);
  CHECK(number_of_index("4-6,9,20-21", 0) == 4);
  CHECK(number_of_index("4-6,9,20-21", 3) == 9);
  CHECK(number_of_index("4-6,9,20-21", 5) == 21);
  CHECK(number_of_index("4-6", 3) == 3);
  CHECK(number_of_index("", 7) == 7);
  CHECK(number_of_index("x,2-1,5", 0) == 5);
}

TEST_CASE("a number is one from its first to its last character") {
  CHECK(parse_int("0", -1) == 0);
  CHECK(parse_int("-3", 7) == -3);
  CHECK(parse_int("2147483647", -1) == 2147483647);
  for (const char* none : {"", "x", "3x", " 3", "3 ", "+3", "2147483648", "1.5"})
    CHECK_MESSAGE(parse_int(none, -1) == -1, none);
}

TEST_CASE("ranks go up to 99999, in a list of places too") {
  CHECK(parse_indexes("99998-99999") == std::set<int>{99998, 99999});
  CHECK(parse_indexes("99999-100000").empty());
  CHECK(number_of_index("99999", 0) == 99999);
  CHECK(number_of_index("100000,5", 0) == 5);
  CHECK(number_of_index("4-6,9", 2) == 6);
  CHECK(number_of_index("4-6,9", 4) == 4);  // beyond its end
  CHECK(number_of_index("4-6,-9,9", 3) == 9);
  CHECK(index_list({3, 5, 6, 8}) == "3,5-6,8");
}
