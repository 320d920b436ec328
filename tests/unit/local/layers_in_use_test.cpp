// The layers of the cache that the objects of the local cluster name.
#include <doctest/doctest.h>

#include "cli/local/local.h"

TEST_SUITE_BEGIN("local/layers_in_use");

TEST_CASE("in any text, layers_named_in() finds each complete name of a code folder or a package folder") {
  const std::string digits(64, 'a'), folder = "code-" + digits;
  using Names = std::set<std::string>;
  CHECK(mlk::local::layers_named_in("").empty());
  CHECK(mlk::local::layers_named_in(R"({\"folder\":\"/c/layers/)" + folder + R"(\",\"x\":1})") ==
        Names{folder});
  CHECK(mlk::local::layers_named_in(folder + " python-" + digits + "/x " + folder) ==
        Names{folder, "python-" + digits});
  CHECK(mlk::local::layers_named_in("code-" + digits.substr(1)).empty());
  CHECK(mlk::local::layers_named_in("code-" + digits.substr(1) + "g").empty());
  CHECK(mlk::local::layers_named_in("layer-" + digits).empty());
}
