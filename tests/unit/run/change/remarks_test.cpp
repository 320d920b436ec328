#include "cli/run/change/remarks.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("run/change/remarks");

namespace mlk {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("changes add and remove tags, and a key has one value") {
  CHECK(changed_tags({"a"}, {"+b", "c"}) == Words{"a", "b", "c"});
  CHECK(changed_tags({"a", "b"}, {"a-"}) == Words{"b"});
  CHECK(changed_tags({"a"}, {"+a", "none-"}) == Words{"a"});
  CHECK(changed_tags({"team=vision", "x"}, {"+team=text"}) == Words{"x", "team=text"});
  CHECK(changed_tags({"team=vision", "x"}, {"team-"}) == Words{"x"});
  CHECK(changed_tags({"team=vision"}, {"team=vision-"}) == Words{});
  CHECK(changed_tags({}, {"+a-"}) == Words{"a-"});
  CHECK(changed_tags({"a-"}, {"a--"}) == Words{});
  CHECK(changed_tags({}, {"+a", "a-"}) == Words{});
  for (const char* wrong : {"", "+", "-", "=x", "+=x", "\xff"})
    CHECK_THROWS_AS(changed_tags({}, {wrong}), Error);
}

}  // namespace
}  // namespace mlk
