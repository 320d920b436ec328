
#include "cli/util/indexes.h"

#include <doctest/doctest.h>

#include "cli/util/number.h"

using namespace mlk;

TEST_CASE("ranks are listed by their ranges") {
  CHECK(Indexes({}).ranges().empty());
  CHECK(Indexes({7}).ranges() == "7");
  CHECK(Indexes({0, 1}).ranges() == "0-1");
  CHECK(Indexes({0, 1, 2, 5, 7, 8}).ranges() == "0-2,5,7-8");
}

TEST_CASE("a list of indexes is read as far as it is one") {
  CHECK(Indexes::valid_parts_of("") == Indexes{});
  CHECK(Indexes::valid_parts_of("0") == Indexes{0});
  CHECK(Indexes::valid_parts_of("0,2-4") == Indexes{0, 2, 3, 4});
  CHECK(Indexes::valid_parts_of("3-3") == Indexes{3});
  CHECK(Indexes::valid_parts_of("4-2,x,-1,1-,7") == Indexes{7});
  CHECK(Indexes::valid_parts_of("99999") == Indexes{99999});
  CHECK(Indexes::valid_parts_of("100000").empty());
}

TEST_CASE("the number at a place of a list is found by its ranges") {
  CHECK(number_at_place("0-8", 3) == 3);
  CHECK(number_at_place("4-6,9,20-21", 0) == 4);
  CHECK(number_at_place("4-6,9,20-21", 3) == 9);
  CHECK(number_at_place("4-6,9,20-21", 5) == 21);
  CHECK(number_at_place("4-6", 3) == 3);
  CHECK(number_at_place("", 7) == 7);
  CHECK(number_at_place("x,2-1,5", 0) == 5);
}

TEST_CASE("ranks go up to 99999, in a list of places too") {
  CHECK(Indexes::valid_parts_of("99998-99999") == Indexes{99998, 99999});
  CHECK(Indexes::valid_parts_of("99999-100000").empty());
  CHECK(number_at_place("99999", 0) == 99999);
  CHECK(number_at_place("100000,5", 0) == 5);
  CHECK(number_at_place("4-6,9", 2) == 6);
  CHECK(number_at_place("4-6,9", 4) == 4);  // beyond its end
  CHECK(number_at_place("4-6,-9,9", 3) == 9);
  CHECK(Indexes({3, 5, 6, 8}).ranges() == "3,5-6,8");
}

TEST_CASE("an index is taken out of its range, at its ends and in its middle") {
  Indexes set = {1, 2, 3, 4, 5, 9};
  set.erase(3);
  CHECK(set.text() == "1,2,4,5,9");
  set.erase(1);
  set.erase(5);
  set.erase(9);
  CHECK(set.text() == "2,4");
  CHECK(set.size() == 2);
  for (const int absent : {0, 3, 7}) set.erase(absent);
  CHECK(set == Indexes{2, 4});
  set.insert(Indexes{3, 8});
  CHECK(set.ranges() == "2-4,8");
  CHECK(set.text() == "2-4,8");
  CHECK(Indexes{1, 2}.text() == "1,2");
  CHECK(Indexes{1, 2}.ranges() == "1-2");
}
