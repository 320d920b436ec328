#include "cli/util/quantity.h"

#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("util/quantity");

using namespace mlk;

TEST_CASE("quantities with every unit are parsed") {
  const std::pair<const char*, double> table[] = {{"1", 1},
                                                  {"3n", 3e-9},
                                                  {"3u", 3e-6},
                                                  {"3m", 3e-3},
                                                  {"3k", 3e3},
                                                  {"3M", 3e6},
                                                  {"3G", 3e9},
                                                  {"3T", 3e12},
                                                  {"3P", 3e15},
                                                  {"3E", 3e18},
                                                  {"3Ki", 3072},
                                                  {"3Mi", 3145728},
                                                  {"3Gi", 3221225472},
                                                  {"1Ti", 1099511627776},
                                                  {"1Pi", 1125899906842624},
                                                  {"1Ei", 1152921504606846976},
                                                  {"1e3", 1000},
                                                  {"1E3", 1000},
                                                  {"0.5", 0.5},
                                                  {"-1", -1}};
  for (const auto& [text, value] : table) {
    REQUIRE_MESSAGE(parse_quantity(text), text);
    CHECK_MESSAGE(*parse_quantity(text) == doctest::Approx(value), text);
  }
  for (const char* bad : {"", "x", "1K", "1ki", "1 k", "inf", "nan", "Gi"})
    CHECK_MESSAGE(!parse_quantity(bad), bad);
}

TEST_CASE("a quantity of an object may be a number or a text") {
  CHECK(quantity_of(2) == 2.0);
  CHECK(quantity_of("250m") == doctest::Approx(0.25));
  CHECK_FALSE(quantity_of(nullptr));
  CHECK_FALSE(quantity_of(nlohmann::json::array()));
}
