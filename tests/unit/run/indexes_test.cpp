#include "cli/run/indexes.h"

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
