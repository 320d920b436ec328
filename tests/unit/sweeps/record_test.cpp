// What the owner of a sweep keeps of its definition is read again as it was written.
#include "sweeps/record.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/spaces.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using Kind = Parameter::Kind;

Record read_again(const Record& record) {
  return read_record({{"data", {{"sweep", to_json(record).dump()}}}});
}

Record read_text(const json& data) { return read_record({{"data", {{"sweep", data}}}}); }

TEST_CASE("every field of a record comes back") {
  Record record;
  record.search = "tpe";
  record.trials = 7;
  record.parallel = 3;
  record.max_failures = 2;
  record.base = {{"name", "x"}};
  record.kin = "k";
  record.driven = true;
  const Record again = read_again(record);
  CHECK(again.search == "tpe");
  CHECK(again.trials == 7);
  CHECK(again.parallel == 3);
  CHECK(again.max_failures == 2);
  CHECK(again.base == record.base);
  CHECK(again.kin == "k");
  CHECK(again.driven);
  CHECK_FALSE(again.objective);
  record.driven = false;
  CHECK_FALSE(read_again(record).driven);
}

TEST_CASE("every form of an objective comes back") {
  for (const Objective::Goal goal : {Objective::Goal::minimize, Objective::Goal::maximize}) {
    for (const Objective::Of of : {Objective::Of::last, Objective::Of::best, Objective::Of::mean}) {
      for (const char* position : {"step", "epoch"}) {
        Record record;
        record.objective = {
            .goal = goal, .metric = "loss", .of = of, .count = 5, .regex = "l=(.*)", .position = position};
        const std::optional<Objective> again = read_again(record).objective;
        REQUIRE(again);
        CHECK(again->goal == goal);
        CHECK(again->metric == "loss");
        CHECK(again->of == of);
        CHECK(again->count == 5);
        CHECK(again->regex == "l=(.*)");
        CHECK(again->position == position);
      }
    }
  }
}

TEST_CASE("every kind of parameter comes back, with its conditions") {
  Record record;
  record.space.parameters = {test::choice("opt", {"sgd", "adam", 3, true}), test::uniform("u", 0.25, 0.5),
                             test::log_uniform("l", 1e-4, 1),
                             test::integer("i", 1, 9, {{"opt", {"adam", 3}}}),
                             test::log_integer("batch", 1, 64)};
  const std::vector<Parameter> again = read_again(record).space.parameters;
  REQUIRE(again.size() == record.space.parameters.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    const Parameter& was = record.space.parameters[i];
    CHECK(again[i].path == was.path);
    CHECK(again[i].kind == was.kind);
    CHECK(again[i].values == was.values);
    CHECK(again[i].low == was.low);
    CHECK(again[i].high == was.high);
    REQUIRE(again[i].when.size() == was.when.size());
    for (std::size_t k = 0; k < was.when.size(); ++k) {
      CHECK(again[i].when[k].path == was.when[k].path);
      CHECK(again[i].when[k].values == was.when[k].values);
    }
  }
}

TEST_CASE(
    "of more values than an object may hold the first ones are kept, and each parameter has its share") {
  const json long_value = std::string(1000, 'v');
  Record record;
  for (const char* path : {"a", "b"}) {
    std::vector<json> values;
    for (int i = 0; i < 300; ++i) values.push_back(long_value.get<std::string>() + std::to_string(i));
    record.space.parameters.push_back(test::choice(path, values));
  }
  const std::vector<Parameter> again = read_again(record).space.parameters;
  REQUIRE(again.size() == 2);
  for (const Parameter& parameter : again) {
    // 128 KiB of values of 1003 to 1006 bytes each, with quotes and comma.
    CHECK(parameter.values.size() == 130);
    CHECK(parameter.values.front() == record.space.parameters[0].values.front());
  }
}

TEST_CASE("what is missing or of another shape is as in a new record") {
  for (const json& data : {json(), json(""), json("{"), json("[]"), json("{}"), json(7),
                           json(R"({"parallel":"x","trials":null,"driven":"true","objective":[],"kin":3})"),
                           json(R"({"objective":{"of":"best"}})")}) {
    const Record record = read_text(data);
    CHECK(record.trials == 0);
    CHECK(record.parallel == 1);
    CHECK(record.max_failures == 0);
    CHECK_FALSE(record.driven);
    CHECK_FALSE(record.objective);
    CHECK(record.kin.empty());
    CHECK(record.space.parameters.empty());
  }
}

}  // namespace
}  // namespace mlk::sweeps
