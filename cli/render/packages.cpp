#include "cli/render/packages.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/render/code.h"
#include "cli/util/path_list.h"

namespace mlk {

using nlohmann::json;

namespace {

void extend(json& environment, const std::string& name, const std::string& first, const std::string& last) {
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const json& other) { return other["name"] == name; });
  if (found == environment.end()) return;
  if (found->contains("value")) {
    (*found)["value"] = path_first(first, (*found)["value"].get<std::string>());
    if (!last.empty()) (*found)["value"] = (*found)["value"].get<std::string>() + ":" + last;
    return;
  }
  // The value is in a Secret, so mlk cannot extend it. Instead, mlk renames the variable, and adds a variable
  // with the old name that refers to the new name.
  const std::string own = "MLK_OWN_" + name;
  (*found)["name"] = own;
  environment.push_back(
      {{"name", name}, {"value", fmt::format("{}:$({}){}{}", first, own, last.empty() ? "" : ":", last)}});
}

}  // namespace

void find_packages(json& environment, const std::string& of_base, bool on_machine) {
  extend(environment, "PYTHONPATH", python_folder, of_base);
  extend(environment, "PATH", python_scripts, "");
  const bool has_path = std::any_of(environment.begin(), environment.end(),
                                    [](const json& other) { return other["name"] == "PYTHONPATH"; });
  if (on_machine && !has_path) environment.push_back({{"name", "PYTHONPATH"}, {"value", python_folder}});
}

}  // namespace mlk
