#include "tests/unit/render/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "tests/unit/paths.h"

namespace mlk::test {

nlohmann::json as_list(const Rendered& rendered) {
  nlohmann::json items = nlohmann::json::array({rendered.owner});
  for (const nlohmann::json& object : rendered.objects) items.push_back(object);
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}};
}

void check_golden(const std::string& name, const nlohmann::json& objects) {
  const std::filesystem::path path = mlk::test::source_dir() / "tests/golden" / (name + ".json");
  constexpr int indent = 2;
  const std::string text = objects.dump(indent) + "\n";
  if (std::getenv("MLK_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  constexpr std::size_t limit = 1 << 20;
  CHECK_MESSAGE(text == read_file(path, limit),
                "differs from " << path << "; MLK_UPDATE_GOLDEN=1 rewrites it");
}

}  // namespace mlk::test
