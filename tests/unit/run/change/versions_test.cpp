// Tests which run counts as the version before another run.
#include "cli/run/change/versions.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("run/change/versions");

using nlohmann::json;

namespace {

json version(const std::string& run, const std::string& hash, int second) {
  return {{"metadata",
           {{"name", run},
            {"creationTimestamp", "2026-01-01T00:00:0" + std::to_string(second) + "Z"},
            {"labels", {{"mlk.dev/run", run}, {"mlk.dev/name", "x"}, {"mlk.dev/hash", hash}}}}}};
}

}  // namespace

TEST_CASE("the version before a run is the newest older run with the same name and another hash") {
  const std::vector<json> owners{version("x-a", "1", 1), version("x-b", "2", 2), version("x-b-2", "2", 3),
                                 version("x-c", "3", 4)};
  CHECK(mlk::version_before(owners, "x-c") == "x-b-2");
  CHECK(mlk::version_before(owners, "x-b-2") == "x-a");
  CHECK(mlk::version_before(owners, "x-a") == std::nullopt);
  CHECK(mlk::version_before(owners, "x-gone") == std::nullopt);
  CHECK(mlk::version_before({}, "x-a") == std::nullopt);
}

TEST_CASE("the version before a run is not a sweep, a trial or a run that is being deleted") {
  std::vector<json> owners{version("x-a", "1", 1), version("x-b", "2", 2), version("x-c", "3", 3),
                           version("x-d", "4", 4), version("x-e", "5", 5)};
  owners[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:09Z";
  owners[2]["metadata"]["labels"]["mlk.dev/sweep"] = "x-c";
  owners[3]["metadata"]["labels"]["mlk.dev/sweep"] = "x-c";
  CHECK(mlk::version_before(owners, "x-e") == "x-a");
  owners[3]["metadata"]["labels"].erase("mlk.dev/sweep");
  CHECK(mlk::version_before(owners, "x-e") == "x-d");
}

TEST_CASE("the version before a run has neither the same hash nor the same age as the run") {
  CHECK(mlk::version_before({version("x-a", "1", 1), version("x-b", "1", 2)}, "x-b") == std::nullopt);
  CHECK(mlk::version_before({version("x-a", "1", 2), version("x-a", "2", 2)}, "x-a") == std::nullopt);
  // The order of the list does not matter.
  CHECK(mlk::version_before({version("x-c", "3", 4), version("x-b", "2", 2), version("x-a", "1", 1)},
                            "x-c") == "x-b");
  json files = version("x-files", "9", 3);
  files["metadata"]["labels"]["mlk.dev/run"] = "x-b";  // a ConfigMap of a run, but not a run
  CHECK(mlk::version_before({version("x-c", "3", 4), files, version("x-b", "2", 2)}, "x-c") == "x-b");
}
