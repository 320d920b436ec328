// PYTHONPATH and PATH for Python packages.
#include "cli/render/packages.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/util/path_list.h"

TEST_SUITE_BEGIN("render/packages");

namespace {

using nlohmann::json;

json with_packages(json environment, const std::string& of_base, bool on_machine) {
  mlk::find_packages(environment, of_base, on_machine);
  return environment;
}

}  // namespace

TEST_CASE("path_first() puts a folder first in a list, but not twice") {
  CHECK(mlk::path_first("/a", "/b:/c") == "/a:/b:/c");
  CHECK(mlk::path_first("/a", "/a:/b") == "/a:/b");
  CHECK(mlk::path_first("/a", "/a") == "/a");
  CHECK(mlk::path_first("/a", "/ab") == "/a:/ab");
  CHECK(mlk::path_first("/a", "") == "/a");
  CHECK(mlk::path_first("", "/b") == "/b");
  CHECK(mlk::path_first("", "").empty());
}

TEST_CASE("packages come first in PYTHONPATH and PATH") {
  const json said = {{{"name", "PYTHONPATH"}, {"value", "src"}},
                     {{"name", "PATH"}, {"value", "/opt/bin:/bin"}}};
  json found = with_packages(said, "/opt/site", false);
  CHECK(found[0]["value"] == "/mlk/python:src:/opt/site");
  CHECK(found[1]["value"] == "/mlk/python/bin:/opt/bin:/bin");
  CHECK(with_packages(said, "", true)[0]["value"] == "/mlk/python:src");
  CHECK(with_packages(said, "", true).size() == 2);
  found = with_packages({{{"name", "PYTHONPATH"}, {"value", ""}}}, "/opt/site", false);
  CHECK(found[0]["value"] == "/mlk/python:/opt/site");
}

TEST_CASE("a pod without its own PYTHONPATH gets mlk's value if it runs on this machine") {
  CHECK(with_packages(json::array(), "/opt/site", false) == json::array());
  CHECK(with_packages(json::array(), "", true) == json{{{"name", "PYTHONPATH"}, {"value", "/mlk/python"}}});
}

TEST_CASE("a PYTHONPATH from a Secret gets a new name, to which the new PYTHONPATH refers") {
  const json from = {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}};
  CHECK(with_packages({{{"name", "PYTHONPATH"}, {"valueFrom", from}}}, "/opt/site", false) ==
        json{{{"name", "MLK_OWN_PYTHONPATH"}, {"valueFrom", from}},
             {{"name", "PYTHONPATH"}, {"value", "/mlk/python:$(MLK_OWN_PYTHONPATH):/opt/site"}}});
}

TEST_CASE("a list of folders has no colon at the end if a value of a Secret comes last") {
  const json from = {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}};
  CHECK(with_packages({{{"name", "PATH"}, {"valueFrom", from}}}, "/opt/site", false) ==
        json{{{"name", "MLK_OWN_PATH"}, {"valueFrom", from}},
             {{"name", "PATH"}, {"value", "/mlk/python/bin:$(MLK_OWN_PATH)"}}});
  const json here = with_packages({{{"name", "PYTHONPATH"}, {"valueFrom", from}}}, "", true);
  REQUIRE(here.size() == 2);
  CHECK(here[1]["value"] == "/mlk/python:$(MLK_OWN_PYTHONPATH)");
}
