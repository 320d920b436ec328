#include "sweeps/search/identity.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/search/identity");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char base_file[] =
    "name: x\nmode: single\ntrain: {data: {path: /d, batch: 16}, steps: 1, optimizer: {lr: 0.5}}\n";

std::string sweep_name(const std::string& text, const std::vector<std::string>& words,
                       const json& digests = json::object(), const Templates& templates = Templates()) {
  YamlNode root = parse_yaml(text, "x.yaml");
  Problems problems;
  const Spec spec = extract_spec(root, words, problems);
  problems.throw_if_any();
  return identify_sweep("x", root, spec, digests, templates).run;
}

}  // namespace

TEST_CASE("a sweep keeps its identity if values, repeats, exceptions or limits are added") {
  const std::string name = sweep_name(base_file, {"lr=0.1,0.2"});
  CHECK(name.size() == 7);
  CHECK(sweep_name(base_file, {"lr=0.3,0.1,0.2"}) == name);
  const std::string with = std::string(base_file) + "sweep: {parameters: {lr: [7]}, ";
  CHECK(sweep_name(with + "parallel: 9, max_failures: 2}\n", {}) == name);
  CHECK(sweep_name(with + "repeat: 3}\n", {}) == name);
  CHECK(sweep_name(with + "except: [{lr: 7}]}\n", {}) == name);
}

TEST_CASE("a sweep keeps its identity if its tags, its note or the base value of a parameter changes") {
  const std::string name = sweep_name(base_file, {"lr=0.1"});
  const std::string other =
      "mode: single\nname: x\nnote: a\ntags: [b]\ntrain: {data: {path: /d, batch: 16}, steps: 1, optimizer: "
      "{lr: "
      "9}}\n";
  CHECK(sweep_name(other, {"lr=0.1"}) == name);
  const std::string roles = base_file + std::string("roles: {worker: {cpu: 2}}\n"),
                    workers = base_file + std::string("workers: {cpu: 3}\n");
  CHECK(sweep_name(roles, {"workers.cpu=1"}) == sweep_name(workers, {"roles.worker.cpu=1"}));
}

TEST_CASE("a sweep has another identity if its program, parameters, search, objective or files change") {
  const std::string name = sweep_name(base_file, {"lr=0.1"});
  std::string more_steps = base_file;
  more_steps.replace(more_steps.find("steps: 1"), 8, "steps: 2");
  CHECK(sweep_name(more_steps, {"lr=0.1"}) != name);
  CHECK(sweep_name(base_file, {"lr=0.1", "batch=16"}) != name);
  CHECK(sweep_name(base_file + std::string("image: b\n"), {"lr=0.1"}) != name);
  CHECK(sweep_name(base_file, {"lr=0.1"}, {{"data", {{"file", "digest"}}}}) != name);
  const std::string with = std::string(base_file) + "sweep: {parameters: {lr: [7]}, ";
  CHECK(sweep_name(with + "search: {random: {trials: 1}}}\n", {}) != name);
  CHECK(sweep_name(with + "objective: maximize accuracy}\n", {}) != name);
  Templates own;
  own.add("shapes/job.yaml", {"a: b\n", "mine.yaml"});
  CHECK(sweep_name(base_file, {"lr=0.1"}, json::object(), own) != name);
}

TEST_CASE("a sweep has another identity with another seed, but not with more random points") {
  const auto searched = [](const std::string& options) {
    return sweep_name(
        std::string(base_file) + "sweep: {parameters: {lr: [7]}, search: {random: " + options + "}}\n", {});
  };
  CHECK(searched("{trials: 5}") == searched("{trials: 50}"));
  CHECK(searched("{trials: 5, seed: 2}") != searched("{trials: 5}"));
}

TEST_CASE("the identity of a sweep ignores the base value of a parameter, even inside a list") {
  const auto name = [](const std::string& entry, const std::string& word) {
    return sweep_name(std::string(base_file) + "data: [{" + entry + "}]\n", {word});
  };
  const std::string first = name("name: d, mount: /x, pvc: p", "data.0.mount=/a,/b");
  CHECK(name("name: d, mount: /y, pvc: p", "data.0.mount=/a,/b") == first);
  CHECK(name("name: d, mount: /x, pvc: q", "data.0.mount=/a,/b") != first);
}

TEST_CASE("the keys `servers` and `roles.server` give a sweep the same identity") {
  const std::string ps = "name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 1}\n";
  CHECK(sweep_name(ps + "roles: {server: {cpu: 2}}\n", {"servers.cpu=1"}) ==
        sweep_name(ps + "servers: {cpu: 3}\n", {"roles.server.cpu=1"}));
  CHECK(sweep_name(ps + "servers: {cpu: 3}\n", {"lr=1"}) ==
        sweep_name(ps + "roles: {server: {cpu: 3}}\n", {"lr=1"}));
  CHECK(sweep_name(ps + "servers: {cpu: 3}\n", {"lr=1"}) != sweep_name(ps + "servers: {cpu: 4}\n", {"lr=1"}));
}
