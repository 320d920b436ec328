// Compares the bounds of the schema of experiment files with those of the runtime's configuration. The code
// of each side may not include the code of the other side, so only this test compares the bounds.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/experiment/schema.h"
#include "cli/render/render.h"
#include "cli/util/error.h"
#include "runtime/launch/config.h"

TEST_SUITE_BEGIN("project/bounds");

namespace {

using mlk::Key;
using mlk::Section;

std::string ones(int count) {
  std::string list = "[1";
  for (int i = 1; i < count; ++i) list += ", 1";
  return list + "]";
}

// Values at the ends of ranges and beyond, for keys of every type.
const std::vector<std::string> candidates = {"-1",
                                             "0",
                                             "1",
                                             "2",
                                             "0.5",
                                             "1e-9",
                                             "1e6",
                                             "1e7",
                                             "60000",
                                             "60001",
                                             "1000000",
                                             "1000001",
                                             "1000000000",
                                             "1000000000001",
                                             "9007199254740991",
                                             "9007199254740992",
                                             "1s",
                                             "1000000s",
                                             "1000001s",
                                             "3650d",
                                             "sync",
                                             "async",
                                             "{staleness: 0}",
                                             "{staleness: 1000000}",
                                             "{staleness: 1000001}",
                                             "[]",
                                             "[0]",
                                             "[4096]",
                                             "[65536]",
                                             "[65537]",
                                             ones(100),
                                             ones(101)};

// Each optimizer and each schedule has its own keys.
const std::vector<std::string> optimizers = {"{type: sgd, schedule: {type: linear}}",
                                             "{type: adam, schedule: {type: cosine}}",
                                             "{type: adamw, schedule: {type: step, every: 1}}"};

// Returns the configuration of the pods of an experiment with these changes. Throws Error if mlk refuses the
// experiment.
std::string config_with(const std::vector<std::string>& changes) {
  // An experiment may have either epochs or steps.
  const bool epochs = !changes.empty() && changes.back().starts_with("train.epochs=");
  const mlk::Experiment experiment =
      mlk::load_experiment(std::string("name: x\nmode: ps\nimage: i\ntrain: {data: {path: /d}, ") +
                               (epochs ? "epochs: 1" : "steps: 10") + "}\n",
                           "x.yaml", {.set = changes, .env = {}, .image = ""}, {{"ps"}});
  const mlk::Rendered run = mlk::render(experiment, {}, mlk::Templates(), {});
  return run.objects.front().at("data").at("config.json");
}

// For each key and each candidate, applies `before` and the candidate. If mlk accepts the result, checks that
// the runtime accepts it too. Returns the number of results that mlk accepts.
int try_all(const Section& section, const std::string& path, const std::vector<std::string>& before = {}) {
  int passed = 0;
  for (const Key& key : section.keys) {
    const std::string name = path + "." + std::string(key.name);
    if (key.type == mlk::Type::section) {
      passed += try_all(mlk::schema_section(key.detail), name, before);
      continue;
    }
    for (const std::string& value : candidates) {
      std::vector<std::string> changes = before;
      changes.push_back(name + "=" + value);
      std::string config;
      try {
        config = config_with(changes);
      } catch (const mlk::Error&) {
        continue;
      }
      ++passed;
      CHECK_NOTHROW_MESSAGE(mlk::rt::parse_config(config), name, "=", value);
    }
  }
  return passed;
}

}  // namespace

TEST_CASE(
    "for many values of each key: if mlk accepts the value in an experiment, the runtime accepts it, too") {
  CHECK(try_all(mlk::schema_section("train"), "train") > 50);
  const std::string gpt = "train.model={type: gpt, width: 1, heads: 1}";
  CHECK(try_all(mlk::schema_section("model"), "train.model", {gpt}) > 10);
  CHECK(try_all(mlk::schema_section("train.data"), "train.data", {gpt, "train.data.format=tokens"}) > 5);
  CHECK_NOTHROW(mlk::rt::parse_config(config_with({gpt})));
  CHECK(try_all(mlk::schema_section("model"), "train.model", {"train.model.type=cnn"}) > 4);
  for (const std::string& optimizer : optimizers) {
    CHECK(try_all(mlk::schema_section("optimizer"), "train.optimizer", {"train.optimizer=" + optimizer}) >
          15);
  }
  CHECK(try_all(mlk::schema_section("checkpoint"), "checkpoint") > 5);
  CHECK(try_all(mlk::schema_section("role"), "workers") > 5);
  CHECK(try_all(mlk::schema_section("role"), "servers") > 5);
  CHECK_NOTHROW(config_with({"train.epochs=1000000"}));
}
