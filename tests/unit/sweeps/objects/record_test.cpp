// The owner of a sweep stores parts of the sweep's definition. These parts read back as they were written.
#include "sweeps/objects/record.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/objects/record");

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using Kind = Parameter::Kind;

Record read_again(const Record& record) {
  return read_record({{"data", {{"sweep", to_json(record).dump()}}}});
}

Record read_text(const json& data) { return read_record({{"data", {{"sweep", data}}}}); }

TEST_CASE("by default, a tenth of the trials may fail, but never fewer than three") {
  CHECK(usual_failures(1) == 3);
  CHECK(usual_failures(30) == 3);
  CHECK(usual_failures(31) == 4);
  CHECK(usual_failures(1000) == 100);
}

TEST_CASE("a record that is written and read has the same value in every field") {
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

TEST_CASE("an objective of any form is the same after its record was written and read") {
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

TEST_CASE("parameters and conditions of any kind are the same after their record was written and read") {
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

TEST_CASE("a record stores the first values of each parameter, and has equal space for each parameter") {
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
    // Each parameter has 128 KiB for its values. Each value has 1003 to 1006 bytes, with quotes and comma.
    CHECK(parameter.values.size() == 130);
    CHECK(parameter.values.front() == record.space.parameters[0].values.front());
  }
}

TEST_CASE("a field that is missing or invalid in a record gets its default value") {
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

TEST_CASE("a record keeps the spelling of values such as 1.0 and True") {
  Record record;
  record.space.parameters = {test::choice("a", {1, true, 2})};
  record.space.parameters[0].written = {{1, "1.0"}, {true, "True"}};
  const std::vector<Parameter> again = read_again(record).space.parameters;
  REQUIRE(again.size() == 1);
  CHECK(again[0].written == record.space.parameters[0].written);
  CHECK(again[0].values == record.space.parameters[0].values);
  const json odd = R"({"parameters": [{"path": "a", "written": [[1], [1, 2], 3, [1, "x", "y"], [2, "z"]]}]})";
  CHECK(read_text(odd).space.parameters[0].written == std::map<json, std::string>{{2, "z"}});
}

TEST_CASE("to_json() writes a record with keys that other versions of mlk can read") {
  Record record;
  record.space.parameters = {test::choice("a", {1}), test::uniform("u", 0.25, 0.5)};
  record.search = "grid";
  record.objective.emplace().goal = Objective::Goal::maximize;
  record.objective->metric = "accuracy";
  record.trials = 7;
  record.max_failures = 2;
  record.kin = "k";
  CHECK(to_json(record) == json{{"schema", 1},
                                {"parameters",
                                 {{{"path", "a"}, {"kind", "choice"}, {"values", {1}}},
                                  {{"path", "u"}, {"kind", "uniform"}, {"low", 0.25}, {"high", 0.5}}}},
                                {"search", "grid"},
                                {"trials", 7},
                                {"parallel", 1},
                                {"max_failures", 2},
                                {"driven", false},
                                {"kin", "k"},
                                {"base", nullptr},
                                {"objective", {{"maximize", "accuracy"}, {"count", 1}, {"of", "last"}}}});
  CHECK(read_text(R"({"objective": {"minimize": "loss"}})").objective->count == 1);
  CHECK(read_text(R"({"objective": {"minimize": "loss", "position": "mile"}})").objective->position ==
        "step");
}

TEST_CASE("record_of() takes the parameters and the limits of a sweep from its definition") {
  const auto define = [](const std::string& sweep) {
    return define_sweep(
        {"x.yaml", "",
         "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1}\nsweep: {" + sweep + "}\n"},
        {}, {"lr=0.1,0.2"}, Templates());
  };
  const Definition sweep = define("parallel: 7, objective: maximize accuracy");
  const Record record = record_of(sweep, 31, true);
  CHECK(record.driven);
  CHECK_FALSE(record_of(sweep, 31, false).driven);
  CHECK(record.kin == sweep.kin);
  CHECK(record.kin != "");
  CHECK(record.base["name"] == "x");
  CHECK(record.space.parameters.size() == 1);
  CHECK(record.search == "grid");
  CHECK(record.objective->metric == "accuracy");
  CHECK(record.trials == 31);
  CHECK(record.parallel == 7);
  CHECK(record.max_failures == 4);  // a tenth of the trials
  CHECK(record_of(define("max_failures: 0"), 31, true).max_failures == 0);
  const json overlay = owner_overlay(sweep, false);
  CHECK(overlay["metadata"]["labels"] == json{{"mlk.dev/sweep", sweep.identity.run}});
  CHECK(overlay["metadata"]["annotations"] == json{{"mlk.dev/roles", R"({"trial":2})"}});
  CHECK(read_record(overlay).trials == 2);
  CHECK_FALSE(read_record(overlay).driven);
  const json patch = owner_patch(record_of(sweep, 9, true));
  CHECK(patch["metadata"]["annotations"] == json{{"mlk.dev/roles", R"({"trial":9})"}});
  CHECK_FALSE(patch["metadata"].contains("labels"));
  CHECK(read_record(patch).trials == 9);
  CHECK(read_record(patch).driven);
  // Two trials are in the definition.
  CHECK_FALSE(others_have_added(record_of(sweep, 2, true), sweep, 0));
  CHECK(others_have_added(record_of(sweep, 3, true), sweep, 0));
  CHECK(others_have_added(record_of(sweep, 3, true), sweep, 2));
  CHECK_FALSE(others_have_added(record_of(sweep, 3, true), sweep, 3));
}

}  // namespace
}  // namespace mlk::sweeps
