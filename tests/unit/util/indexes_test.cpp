#include "cli/util/indexes.h"

#include <random>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/number.h"

TEST_SUITE_BEGIN("util/indexes");

using namespace mlk;

TEST_CASE("ranges() writes neighbouring indexes as a range") {
  CHECK(Indexes({}).ranges().empty());
  CHECK(Indexes({7}).ranges() == "7");
  CHECK(Indexes({0, 1}).ranges() == "0-1");
  CHECK(Indexes({0, 1, 2, 5, 7, 8}).ranges() == "0-2,5,7-8");
}

TEST_CASE("valid_parts_of() leaves out the parts of a list that are not valid") {
  CHECK(Indexes::valid_parts_of("") == Indexes{});
  CHECK(Indexes::valid_parts_of("0") == Indexes{0});
  CHECK(Indexes::valid_parts_of("0,2-4") == Indexes{0, 2, 3, 4});
  CHECK(Indexes::valid_parts_of("3-3") == Indexes{3});
  CHECK(Indexes::valid_parts_of("4-2,x,-1,1-,7") == Indexes{7});
  CHECK(Indexes::valid_parts_of("99999") == Indexes{99999});
  CHECK(Indexes::valid_parts_of("100000").empty());
}

TEST_CASE("number_at_place() returns the number at a position of a list of ranges") {
  CHECK(number_at_place("0-8", 3) == 3);
  CHECK(number_at_place("4-6,9,20-21", 0) == 4);
  CHECK(number_at_place("4-6,9,20-21", 3) == 9);
  CHECK(number_at_place("4-6,9,20-21", 5) == 21);
  CHECK(number_at_place("4-6", 3) == 3);
  CHECK(number_at_place("", 7) == 7);
  CHECK(number_at_place("x,2-1,5", 0) == 5);
}

TEST_CASE("valid_parts_of() and number_at_place() accept indexes up to 99999") {
  CHECK(Indexes::valid_parts_of("99998-99999") == Indexes{99998, 99999});
  CHECK(Indexes::valid_parts_of("99999-100000").empty());
  CHECK(number_at_place("99999", 0) == 99999);
  CHECK(number_at_place("100000,5", 0) == 5);
  CHECK(number_at_place("4-6,9", 2) == 6);
  CHECK(number_at_place("4-6,9", 4) == 4);  // beyond the end of the list
  CHECK(number_at_place("4-6,-9,9", 3) == 9);
  CHECK(Indexes({3, 5, 6, 8}).ranges() == "3,5-6,8");
}

TEST_CASE("erase() removes an index at the ends and in the middle of a range") {
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

TEST_CASE("the class Indexes has the right text after insert() and drop_from()") {
  Indexes set;
  for (const int index : {5, 3, 4, 9, 0, 1, 3}) set.insert(index);
  CHECK(set.text() == "0,1,3-5,9");
  CHECK(set.size() == 6);
  CHECK(set.contains(9));
  CHECK_FALSE(set.contains(2));
  set.drop_from(4);
  CHECK(set.text() == "0,1,3");
  set.drop_from(4);
  CHECK(set.text() == "0,1,3");
  set.drop_from(0);
  CHECK(set.text() == "");
  CHECK(Indexes::parse("99999")->contains(99999));
  for (const char* bad : {"100000", "1-100000", "2-1", "1,,2", ",", "1-2-3", "1-x", "+1"})
    CHECK_MESSAGE(!Indexes::parse(bad), bad);
  CHECK(Indexes::parse("2-2")->text() == "2");
  CHECK(Indexes::parse("3,1-2,2")->text() == "1-3");
}

TEST_CASE("the class Indexes behaves like std::set for random calls of insert() and drop_from()") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Indexes set, other;
    std::set<int> plain, plain_other;
    for (int i = 0; i < 30; ++i) {
      const int index = static_cast<int>(random() % 40), second = static_cast<int>(random() % 40);
      set.insert(index);
      plain.insert(index);
      other.insert(second);
      plain_other.insert(second);
      if (i % 10 == 9) {
        const int end = static_cast<int>(random() % 40);
        set.drop_from(end);
        plain.erase(plain.lower_bound(end), plain.end());
      }
      REQUIRE(set.size() == plain.size());
      for (int at = 0; at < 42; ++at) {
        REQUIRE(set.contains(at) == plain.contains(at));
        int absent = at;
        while (plain.contains(absent)) ++absent;
        REQUIRE(set.first_absent(at) == absent);
      }
      std::size_t common = 0;
      for (const int one : plain) common += plain_other.count(one);
      REQUIRE(set.size_of_common(other) == common);
      REQUIRE(other.size_of_common(set) == common);
    }
    REQUIRE(Indexes::parse(set.text())->text() == set.text());
  }
}

TEST_CASE("parse() joins overlapping ranges into one range") {
  const auto all = Indexes::parse("5-99999,0-10");
  REQUIRE(all);
  CHECK(all->size() == 100000);
  CHECK(all->text() == "0-99999");
  CHECK(all->first_absent(0) == 100000);
}

TEST_CASE("parse() reads a set of indexes in the form of a Job's status, and text() writes it in this form") {
  for (const std::string text : {"", "0", "0,1", "0-2", "1,3-5,7", "0-4,8,9"}) {
    CAPTURE(text);
    const auto indexes = Indexes::parse(text);
    REQUIRE(indexes.has_value());
    CHECK(indexes->text() == text);
  }
  for (const char* bad : {"a", "1-", "-1", "3-1", "1000000", "1 2"}) CHECK(!Indexes::parse(bad));
}
