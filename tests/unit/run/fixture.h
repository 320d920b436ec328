// Objects of runs that were captured from a real cluster (fixtures/capture.py).
#pragma once

#include <nlohmann/json.hpp>

#include "cli/run/state/status.h"
#include "cli/util/files.h"
#include "tests/unit/paths.h"

namespace mlk::test {

struct Fixture {
  RunObjects objects;
  Time now;

  RunStatus observed() const { return observe(objects, now); }
};

inline Fixture load(const std::string& name) {
  const std::string path = mlk::test::source_dir().string() + "/tests/unit/run/fixtures/" + name + ".json";
  const nlohmann::json all = nlohmann::json::parse(read_file(path, 4 << 20));
  Fixture fixture;
  fixture.now = *parse_time(all.at("now").get<std::string>());
  fixture.objects.owner = all.at("owner");
  fixture.objects.jobs = all.at("jobs").get<std::vector<nlohmann::json>>();
  fixture.objects.pods = all.at("pods").get<std::vector<nlohmann::json>>();
  fixture.objects.events = all.at("events").get<std::vector<nlohmann::json>>();
  return fixture;
}

}  // namespace mlk::test
