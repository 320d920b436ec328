// Tests the options of a sweep one by one: defaults, bounds, and messages for mistakes.
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/search/spec.h"

TEST_SUITE_BEGIN("sweeps/search/spec_options");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char options_file[] =
    "name: x\nmode: single\ntrain: {data: {path: /d, batch: 16}, steps: 1, optimizer: {lr: 0.5}}\n";

struct OptionsRead {
  Spec spec;
  std::string problems;
};

// Reads an experiment with this content of the map `sweep:`.
OptionsRead with_sweep(const std::string& sweep, const std::vector<std::string>& words = {}) {
  OptionsRead out;
  YamlNode root = parse_yaml(options_file + (sweep.empty() ? "" : "sweep: {" + sweep + "}\n"), "x.yaml");
  Problems problems;
  out.spec = extract_spec(root, words, problems);
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    out.problems = error.what();
  }
  return out;
}

void check_said(const std::string& sweep, const std::string& said) {
  const std::string problems = with_sweep(sweep).problems;
  CHECK_MESSAGE(problems.find(said) != std::string::npos, sweep, ": ", problems);
}

void check_good(const std::string& sweep) {
  const std::string problems = with_sweep(sweep).problems;
  CHECK_MESSAGE(problems.empty(), sweep, ": ", problems);
}

const std::string of_lr = "parameters: {lr: [1, 2]}, ", with_goal = of_lr + "objective: minimize loss, ";

}  // namespace

TEST_CASE("by default, a sweep has one repeat, four parallel trials, no objective and no early stopping") {
  const Spec plain = with_sweep("", {"lr=1,2"}).spec;
  CHECK(plain.repeat == 1);
  CHECK(plain.parallel == 4);
  CHECK_FALSE(plain.max_failures);
  CHECK_FALSE(plain.objective);
  CHECK(plain.stop.rule == EarlyStop::Rule::none);
  CHECK_FALSE(plain.stop.resumes);
  CHECK(plain.search.seed == 1);
  CHECK(plain.search.trials == 0);
  CHECK(plain.points_file.empty());
  const Spec other =
      with_sweep(of_lr + "repeat: 3, parallel: 2, max_failures: 0, objective: maximize acc").spec;
  CHECK(other.repeat == 3);
  CHECK(other.parallel == 2);
  CHECK(other.max_failures == 0);
  REQUIRE(other.objective);
  CHECK(other.objective->metric == "acc");
}

TEST_CASE("the field Spec::decides has the search, the objective and the early stopping of a sweep") {
  CHECK(with_sweep(of_lr + "parallel: 2, repeat: 2").spec.decides ==
        json::parse(R"({"search": {"kind": "grid", "seed": 1}, "objective": null, "stop": null})"));
  const json decides =
      with_sweep(with_goal + "search: {random: {trials: 9, seed: 4}}, stop: median").spec.decides;
  CHECK(decides == json::parse(R"({"search": {"kind": "random", "seed": 4}, "objective": "minimize loss",
                                   "stop": "median"})"));
  CHECK(with_sweep(with_goal + "search: {tpe: {trials: 9, start: [{lr: 1.0}]}}").spec.decides["search"] ==
        json::parse(R"({"kind": "tpe", "seed": 1, "start": [{"train.optimizer.lr": 1}]})"));
}

TEST_CASE("each search accepts its own options within their bounds") {
  CHECK(to_string(Search::Kind::grid) == "grid");
  CHECK(to_string(Search::Kind::random) == "random");
  CHECK(to_string(Search::Kind::list) == "list");
  CHECK(to_string(Search::Kind::tpe) == "tpe");
  check_good(of_lr + "search: grid");
  check_good(of_lr + "search: {grid: }");
  check_good(of_lr + "search: {grid: {seed: 0}}");
  CHECK(with_sweep(of_lr + "search: {random: {trials: 100000, seed: 9007199254740991}}").spec.search.seed ==
        9007199254740991u);
  check_said(of_lr + "search: {random: {trials: 100001}}",
             "trials of search random must be a whole number from 1 to 100000, not '100001'");
  check_said(of_lr + "search: {random: {trials: 2, seed: -1}}",
             "seed of search random must be a whole number from 0 to 9007199254740991, not '-1'");
  check_said(of_lr + "search: {random: {trials: 2.5}}", "trials of search random must be a whole number");
  check_said(of_lr + "search: {random: {trials: 1, start: []}}", "search random has no option 'start'");
  check_said(of_lr + "search: {grid: {trials: 5}}", "search grid has no option 'trials'");
  check_said(with_goal + "search: {tpe: {trials: 5, stat: []}}", "did you mean 'start'?");
  check_said(of_lr + "search: {grid: {sed: 1}}", "did you mean 'seed'?");
  check_said(of_lr + "search: {random: }", "search random needs a number of trials: {random: {trials: 50}}");
  check_said(with_goal + "search: tpe", "search tpe needs a number of trials: {tpe: {trials: 50}}");
  check_said(of_lr + "search: {random: 5}",
             "search random takes a map such as {trials: 50, seed: 1}, not '5'");
  check_said(of_lr + "search: {}", "sweep.search must be grid, random, list or tpe, not a map");
  check_said(of_lr + "search: {zzz: 1}", "sweep.search must be grid, random, list or tpe, not 'zzz'");
  CHECK(with_sweep(of_lr + "search: zzz").problems.find("did you mean") == std::string::npos);
}

TEST_CASE("a sweep with a continuous range is refused if it has no number of trials") {
  const std::string endless = "has no end of values: say how many to try";
  for (const char* form : {"{uniform: [1, 2]}", "{log_uniform: [1, 2]}", "{uniform: [1, 2], log: true}"})
    check_said(std::string("parameters: {lr: ") + form + "}", endless);
  for (const char* form : {"{int: [1, 2]}", "{int: [1, 2], log: true}", "[1, 2]", "{range: [1, 2]}"})
    check_good(std::string("parameters: {lr: ") + form + "}");
}

TEST_CASE("the search `list` needs a points file, and the search `random` refuses one") {
  const OptionsRead read = with_sweep("points: p.csv");
  CHECK(read.problems == "");
  CHECK(read.spec.points_file == "p.csv");
  CHECK(read.spec.points_place.line == 3);
  CHECK(read.spec.points_place.column == 16);
  CHECK(read.spec.search.kind == Search::Kind::list);
  check_good("points: p.csv, search: list");
  check_said("points: p.csv, search: {random: {trials: 3}}", "sweep.points is for search list, not random");
  check_said(of_lr + "search: list", "search list takes its points from a file: give sweep.points");
}

TEST_CASE("`stop:` accepts only the options of the rules `asha` and `median`, within their bounds") {
  const auto stop = [](const std::string& text) { return with_sweep(with_goal + "stop: " + text).spec.stop; };
  const EarlyStop asha = stop("{asha: {min: 10}}");
  CHECK(asha.asha.min == 10);
  CHECK(asha.asha.max == 0);  // read from the experiment later
  CHECK(asha.asha.factor == 4);
  CHECK(stop("{asha: {min: 1, max: 2, factor: 5000}}").asha.factor == 1000);
  const EarlyStop median = stop("median");
  CHECK(median.median.grace == 1);
  CHECK(median.median.min_trials == 3);
  CHECK(stop("{median: {min_trials: 7}}").median.min_trials == 7);
  CHECK(stop("{median: {min_trials: 7}}").median.grace == 1);
  check_good(with_goal + "stop: {asha: {min: 10}}");
  check_good(with_goal + "stop: {asha: {min: 1, max: 1000000000000, factor: 2}}");
  const std::string needs = "stop asha needs min, the steps before trials are judged";
  check_said(with_goal + "stop: {asha: {max: 10}}", needs);
  check_said(with_goal + "stop: {asha: {min: 10, max: 10}}", needs);
  check_said(with_goal + "stop: {asha: {min: 0, max: 10}}",
             "min of stop asha must be a whole number from 1 to 1000000000000, not '0'");
  check_said(with_goal + "stop: {asha: {min: 1, max: 0}}", "max of stop asha must be a whole number from 1");
  check_said(with_goal + "stop: {asha: {min: 1, factor: 1}}",
             "factor of stop asha must be a whole number from 2");
  check_said(with_goal + "stop: {median: {grace: 0}}", "grace of stop median must be a whole number from 1");
  check_said(with_goal + "stop: {median: {min_trials: 0}}",
             "min_trials of stop median must be a whole number from 1");
  check_said(with_goal + "stop: {median: {min: 3}}",
             "stop median has no option 'min'; it has grace, min_trials");
  check_said(with_goal + "stop: {asha: {min: 1, grace: 3}}",
             "stop asha has no option 'grace'; it has min, max, factor");
  check_said(with_goal + "stop: {zzz: 1}",
             "sweep.stop must be {asha: {min: 100, max: 1000}} or median, not 'zzz'");
  check_said(with_goal + "stop: [asha]",
             "sweep.stop must be {asha: {min: 100, max: 1000}} or median, not a list");
  check_said(with_goal + "stop: ashe", "did you mean 'asha'?");
}

TEST_CASE("describe() says what `asha` does with bad trials, and returns nothing for other rules") {
  EarlyStop stop;
  CHECK(describe(stop) == "");
  stop.rule = EarlyStop::Rule::median;
  CHECK(describe(stop) == "");
  stop.rule = EarlyStop::Rule::asha;
  CHECK(describe(stop).find("for good: without checkpoint.volume") != std::string::npos);
  stop.resumes = true;
  CHECK(describe(stop).find("asha pauses trials at their rungs") == 0);
}

TEST_CASE("a sweep is refused if nothing varies in it") {
  const std::string said = "the sweep has no parameters: give values to try";
  CHECK(with_sweep("").problems.find("x.yaml:1:1: " + said) == 0);
  CHECK(with_sweep("parallel: 2").problems.find("x.yaml:4:8: " + said) == 0);
  CHECK(with_sweep("parameters: {}").problems.find("x.yaml:4:21: " + said) == 0);
  check_good("repeat: 2");
  check_said("repeat: 1", said);
}

TEST_CASE("the search `tpe` is refused if the sweep has no parameters or no objective") {
  check_said("objective: minimize loss, search: {tpe: {trials: 3}}", "search tpe needs parameters to search");
  check_said(of_lr + "search: {tpe: {trials: 3}}", "search tpe needs an objective, for example");
  check_good(with_goal + "repeat: 1, search: {tpe: {trials: 3}}");
  // An invalid objective is reported as invalid, not as missing.
  CHECK(
      with_sweep(of_lr + "objective: loss, search: {tpe: {trials: 3}}").problems.find("needs an objective") ==
      std::string::npos);
}

TEST_CASE("a parameter is refused if a file gives it twice, even with two spellings of its path") {
  check_said("parameters: {lr: [1], train.optimizer.lr: [2]}",
             "x.yaml:4:31: train.optimizer.lr is given twice");
  check_said("parameters: {lr: [], train.optimizer.lr: [2]}", "train.optimizer.lr is given twice");
}

TEST_CASE("a start point needs the parameters whose conditions hold, and may have no others") {
  const auto said = [](const std::string& start) {
    return with_sweep(
               "parameters: {train.optimizer.type: [sgd, adam], momentum: {choice: [0, 0.9], when: "
               "{train.optimizer.type: sgd}}}, objective: minimize loss, search: {tpe: {trials: 3, "
               "start: " +
               start + "}}")
        .problems;
  };
  CHECK(said("[{train.optimizer.type: sgd, momentum: 0.9}, {train.optimizer.type: adam}]") == "");
  CHECK(said("[{train.optimizer.type: adam, momentum: 0}]")
            .find("this point of start cannot have train.optimizer.momentum") != std::string::npos);
  CHECK(said("[{train.optimizer.type: sgd}]").find("this point of start lacks train.optimizer.momentum") !=
        std::string::npos);
  CHECK(said("[{train.optimizer.type: sgd, momentum: 0.5}]")
            .find("'0.5' is no value of train.optimizer.momentum") != std::string::npos);
  CHECK(said("7").find("start of search tpe must be a list of points such as [{lr: 0.1}], not '7'") !=
        std::string::npos);
}

TEST_CASE(
    "a condition is refused if one of its values is impossible, and the error suggests a possible value") {
  const auto said = [](const std::string& sweep) { return with_sweep(sweep).problems; };
  const std::string types = "parameters: {train.optimizer.type: [sgd, adam], lr: [1, 2]}, ";
  CHECK(said(types + "except: [{train.optimizer.type: [sgd, adm], lr: 1}]")
            .find("sweep.except: train.optimizer.type is never \"adm\"; did you mean 'adam'?") !=
        std::string::npos);
  // The text '1' is nearest to the number 1, and this suggestion would not help.
  const std::string quoted = said(types + "except: [{lr: '1'}]");
  CHECK(quoted.find("sweep.except: lr is never \"1\"") != std::string::npos);
  CHECK(quoted.find("did you mean '1'") == std::string::npos);
  CHECK(said(types + "except: [3]")
            .find("an entry of sweep.except must be a map of parameters to values, not "
                  "'3'") != std::string::npos);
  CHECK(said(types + "except: [{}]").find("not an empty one") != std::string::npos);
}
