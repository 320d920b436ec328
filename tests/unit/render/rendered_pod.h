// The pods of rendered runs, for the tests of this folder.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "tests/unit/render/golden.h"

namespace mlk::test {

inline Rendered run_of(const std::string& text, const FileContents& contents = {},
                       const RenderOptions& options = {}) {
  return render(load(text), contents, Templates(), options);
}

inline nlohmann::json job_of_role(const Rendered& run, const std::string& role = "worker") {
  for (const nlohmann::json& object : run.objects) {
    if (object["kind"] == "Job" && object["metadata"]["name"] == run.run + "-" + role) return object;
  }
  FAIL("there is no Job of role " << role);
  return {};
}

inline nlohmann::json pod_spec_of(const Rendered& run, const std::string& role = "worker") {
  return job_of_role(run, role)["spec"]["template"]["spec"];
}

// The value of a variable of the first container; "<unset>" if the variable is missing.
inline std::string value_in(const nlohmann::json& spec, const std::string& name) {
  for (const nlohmann::json& entry : spec["containers"][0]["env"]) {
    if (entry["name"] == name) return entry.value("value", "");
  }
  return "<unset>";
}

inline nlohmann::json named(const nlohmann::json& list, const std::string& name) {
  for (const nlohmann::json& entry : list) {
    if (entry["name"] == name) return entry;
  }
  return nullptr;
}

}  // namespace mlk::test
