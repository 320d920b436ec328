#include "sweeps/search/spec.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/space/names.h"

TEST_SUITE_BEGIN("sweeps/search/spec");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char trained[] =
    "name: x\nmode: single\ntrain: {data: {path: /d, batch: 16}, steps: 1, optimizer: {lr: 0.5}}\n";
constexpr char program[] =
    "name: x\nmode: single\nrun: python train.py --lr ${sweep.lr}\nenv: {DEPTH: '${sweep.depth}', B: 2}\n";

struct SpecRead {
  Spec spec;
  YamlNode base;
  std::string problems;
};

SpecRead read_spec(const std::string& text, const std::vector<std::string>& words = {}) {
  SpecRead out;
  out.base = parse_yaml(text, "x.yaml");
  Problems problems;
  out.spec = extract_spec(out.base, words, problems);
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    out.problems = error.what();
  }
  return out;
}

std::vector<std::string> paths_of(const Spec& spec) {
  std::vector<std::string> paths;
  for (const Parameter& parameter : spec.space.parameters) paths.push_back(parameter.path);
  return paths;
}

bool tells(const SpecRead& read, const std::string& text) {
  return read.problems.find(text) != std::string::npos;
}

using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a parameter may be named by the last word of its path if no other path has this word") {
  const SpecRead read = read_spec(trained, {"lr=0.1,0.2", "batch=16", "train.model.hidden=[8],[9]"});
  CHECK(read.problems == "");
  CHECK(paths_of(read.spec) == Paths{"train.optimizer.lr", "train.data.batch", "train.model.hidden"});
  CHECK(tells(read_spec(trained, {"count=1,2"}), "'count' may be workers.count or servers.count"));
  CHECK(tells(read_spec(trained, {"lrr=1"}), "the experiment has no value 'lrr'"));
  CHECK(tells(read_spec(trained, {"lrr=1"}), "did you mean 'lr'?"));
  CHECK(tells(read_spec(trained, {"name=a,b"}), "name cannot be a parameter"));
  CHECK(paths_of(
            read_spec(program + std::string("sweep: {parameters: {lr: [1], depth: [2]}}"), {"B=3,4"}).spec) ==
        Paths{"lr", "depth", "env.B"});
}

TEST_CASE("roles.worker.cpu and workers.cpu are the same parameter") {
  const SpecRead read = read_spec(trained, {"roles.worker.cpu=1,2", "workers.cpu=3"});
  CHECK(paths_of(read.spec) == Paths{"workers.cpu"});
  CHECK(read.spec.space.parameters[0].values == std::vector<json>{3});
}

TEST_CASE("values on the command line replace the values in the file") {
  const SpecRead read = read_spec(
      trained + std::string("sweep: {parameters: {lr: [0.1], batch: [1, 2]}, parallel: 7}\n"), {"lr=0.3"});
  CHECK(read.problems == "");
  CHECK(read.spec.space.parameters[0].values == std::vector<json>{0.3});
  CHECK(read.spec.space.parameters[1].values == std::vector<json>{1, 2});
  CHECK(read.spec.parallel == 7);
  CHECK(read.base.find("sweep") == nullptr);
}

TEST_CASE("a ${sweep.NAME} needs values, and values for NAME need a ${sweep.NAME} in `run` or `env`") {
  const SpecRead good = read_spec(program, {"lr=0.1", "depth=2"});
  CHECK(good.problems == "");
  CHECK(tells(read_spec(program, {"lr=0.1"}),
              "${sweep.depth} has no value: the sweep has no parameter 'depth'"));
  CHECK(tells(read_spec(program, {"lr=0.1", "depth=1", "span=3"}),
              "the experiment has no value 'span', and neither `run` nor `env` has ${sweep.span}"));
}

TEST_CASE("a parameter comes after the parameters in its condition, and these parameters must exist") {
  const SpecRead read =
      read_spec(trained + std::string("sweep: {parameters: {momentum: {choice: [0, 0.9], when: "
                                      "{train.optimizer.type: sgd}}, "
                                      "train.optimizer.type: [sgd, adam]}}\n"));
  CHECK(read.problems == "");
  CHECK(paths_of(read.spec) == Paths{"train.optimizer.type", "train.optimizer.momentum"});
  CHECK(
      tells(read_spec(trained + std::string("sweep: {parameters: {lr: {choice: [1], when: {batch: 1}}}}\n")),
            "when of train.optimizer.lr names a parameter that the sweep does not have"));
}

TEST_CASE("the search of a sweep is a grid, unless the file names another search") {
  CHECK(read_spec(trained, {"lr=1,2"}).spec.search.kind == Search::Kind::grid);
  CHECK(tells(read_spec(trained, {"lr=0.1..0.9"}), "uniform or log_uniform has no end of values"));
  const auto searched = [](const std::string& search) {
    return read_spec(trained + std::string("sweep: {parameters: {lr: {uniform: [0, 1]}}, search: ") + search +
                     "}\n");
  };
  const SpecRead random = searched("{random: {trials: 50, seed: 3}}");
  CHECK(random.problems == "");
  CHECK(random.spec.search.kind == Search::Kind::random);
  CHECK(random.spec.search.trials == 50);
  CHECK(random.spec.search.seed == 3);
  CHECK(tells(searched("random"), "search random needs a number of trials"));
  CHECK(tells(searched("randon"), "did you mean 'random'?"));
  CHECK(tells(searched("{random: {trials: 0}}"), "trials of search random must be a whole number from 1"));
  CHECK(tells(searched("{random: {trails: 5}}"),
              "search random has no option 'trails'; did you mean 'trials'?"));
  CHECK(tells(searched("{random: 5}"), "search random takes a map"));
  CHECK(tells(searched("[random]"), "sweep.search must be grid, random, list or tpe"));
  CHECK(tells(searched("list"), "search list takes its points from a file"));
  CHECK(tells(searched("{tpe: {trials: 5}}"), "search tpe needs an objective"));
  CHECK(searched("{tpe: {trials: 5}}, objective: minimize loss").problems == "");
  CHECK(tells(searched("{tpe: {trials: 5}}, objective: minimize loss, repeat: 2"),
              "search tpe and repeat exclude each other"));
}

TEST_CASE("early stopping needs a rule and an objective, and reads the options of its rule") {
  const auto stopped = [](const std::string& stop) {
    return read_spec(trained +
                     std::string("sweep: {parameters: {lr: [1]}, objective: minimize loss, stop: ") + stop +
                     "}\n");
  };
  const SpecRead asha = stopped("{asha: {min: 10, max: 90, factor: 3}}");
  CHECK(asha.problems == "");
  CHECK(asha.spec.stop.rule == EarlyStop::Rule::asha);
  CHECK(asha.spec.stop.asha.min == 10);
  CHECK(asha.spec.stop.asha.max == 90);
  CHECK(asha.spec.stop.asha.factor == 3);
  CHECK(stopped("median").spec.stop.rule == EarlyStop::Rule::median);
  CHECK(stopped("{median: {grace: 7, min_trials: 2}}").spec.stop.median.grace == 7);
  CHECK(tells(stopped("asha"), "stop asha needs min, the steps before trials are judged"));
  CHECK(tells(stopped("{asha: {min: 90, max: 10}}"), "stop asha needs min"));
  CHECK(tells(stopped("{asha: {min: 1, max: 10, rate: 3}}"),
              "stop asha has no option 'rate'; it has min, max, factor"));
  CHECK(tells(stopped("medium"), "did you mean 'median'?"));
  CHECK(tells(read_spec(trained + std::string("sweep: {parameters: {lr: [1]}, stop: median}\n")),
              "sweep.stop needs an objective"));
}

TEST_CASE("an exception is refused if it names a parameter that the sweep does not have") {
  const auto excepted = [](const std::string& except) {
    return read_spec(trained + std::string("sweep: {parameters: {lr: [1, 2], batch: [1, 2]}, except: ") +
                     except + "}\n");
  };
  const SpecRead read = excepted("[{lr: 1, batch: [1, 2]}]");
  CHECK(read.problems == "");
  CHECK(is_left_out(read.spec.space, {{"train.optimizer.lr", 1}, {"train.data.batch", 2}}));
  CHECK_FALSE(is_left_out(read.spec.space, {{"train.optimizer.lr", 2}, {"train.data.batch", 2}}));
  CHECK(tells(excepted("{lr: 1}"), "sweep.except must be a list of maps"));
  CHECK(tells(excepted("[{momentum: 1}]"), "sweep.except names train.optimizer.momentum"));
}

TEST_CASE("a condition is refused, with line and column, if its parameter never has the value") {
  const auto asked = [](const std::string& when, const std::vector<std::string>& words = {}) {
    return read_spec(trained +
                         std::string("sweep: {parameters: {train.optimizer.type: [sgd, adam], batch: {int: "
                                     "[1, 8]}, momentum: {choice: [0, 0.9], when: ") +
                         when + "}}}\n",
                     words);
  };
  CHECK(asked("{train.optimizer.type: sgd, batch: 8}").problems == "");
  CHECK(asked("{train.optimizer.type: [sgd, adam]}").problems == "");
  CHECK(tells(asked("{train.optimizer.type: adamw}"),
              "when of momentum: train.optimizer.type is never \"adamw\"; did you mean 'adam'?"));
  CHECK(tells(asked("{train.optimizer.type: [sgd, x]}"), "train.optimizer.type is never \"x\""));
  CHECK(tells(asked("{batch: 9}"), "batch is never 9"));
  CHECK(tells(asked("{batch: \"8\"}"), "batch is never \"8\""));
  // The words of a command may leave fewer values.
  CHECK(asked("{train.optimizer.type: adam}", {"train.optimizer.type=sgd"}).problems == "");
  CHECK(tells(read_spec(trained + std::string("sweep: {parameters: {lr: [1, 2]}, except: [{lr: 3}]}\n")),
              "sweep.except: lr is never 3"));
}

TEST_CASE("a refused value causes no second message about a missing parameter") {
  const std::string own = "name: p\nmode: single\nimage: i\nrun: echo ${sweep.lr}\n";
  for (const char* form :
       {"{uniform: [0.5, 0.5]}", "[0.1, 1e-1]", "[null]", "{log_uniform: [0, 1]}", "{min: 1, max: 2}"}) {
    CAPTURE(form);
    const SpecRead read = read_spec(own + "sweep: {parameters: {lr: " + form +
                                    ", x: {choice: [1], when: {lr: 1}}}, except: [{lr: 1}]}\n");
    CHECK(read.problems != "");
    CHECK_FALSE(tells(read, "no parameter"));
    CHECK_FALSE(tells(read, "does not have"));
  }
  CHECK_FALSE(tells(read_spec(own, {"lr=3..1"}), "no parameter"));
  CHECK(tells(read_spec(own, {"lr=1", "lr=2"}), "lr is given twice; several values are written lr=1,2"));
  CHECK(tells(
      read_spec(trained + std::string("sweep: {parameters: {lr: {choice: [1], when: {batch: 1}}, batch: "
                                      "{choice: [1], when: {lr: 1}}}}\n")),
      "depends on train.optimizer.lr itself"));
}

TEST_CASE("a sweep is refused if it has both a points file and parameters") {
  CHECK(read_spec(trained + std::string("sweep: {points: p.csv}\n")).spec.search.kind == Search::Kind::list);
  CHECK(tells(read_spec(trained + std::string("sweep: {points: p.csv, parameters: {lr: [1]}}\n")),
              "sweep.points and sweep.parameters exclude each other"));
  CHECK(tells(read_spec(trained + std::string("sweep: {points: p.csv, search: grid}\n")),
              "sweep.points is for search list, not grid"));
}

TEST_CASE("a sweep is refused, with line and column, if it is not a map or has an unknown key") {
  CHECK(tells(read_spec(trained + std::string("sweep: [1]\n")), "x.yaml:4:8: sweep must be a map"));
  CHECK(tells(read_spec(trained + std::string("sweep: {paralel: 3}\n")), "did you mean 'parallel'?"));
}

TEST_CASE("put_values() replaces ${sweep.NAME} in `run` and `env` by the text of the value") {
  YamlNode root = parse_yaml(program, "x.yaml");
  put_values(root, texts_of({}, {{"lr", 0.1}, {"depth", json{1, 2}}}));
  CHECK(root.find("run")->text == "python train.py --lr 0.1");
  CHECK(root.find("env")->find("DEPTH")->text == "[1,2]");
  root = parse_yaml("run: [a, '${sweep.x}${sweep.y}${sweep.repeat}-${sweep.', '$${HOME}']\n", "x.yaml");
  put_values(root, {{"x", "v"}});
  CHECK(root.find("run")->items[1].text == "v1-${sweep.");
  CHECK(root.find("run")->items[2].text == "$${HOME}");
}

TEST_CASE("a start point of the search `tpe` is refused if it is not a complete point of the space") {
  const auto with = [](const std::string& start) {
    return read_spec(
        trained + ("sweep: {objective: minimize loss, search: {tpe: {trials: 9, start: " + start + "}}}\n"),
        {"lr=1e-4..1:log", "batch=8,16,32"});
  };
  const SpecRead good = with("[{lr: 0.1, batch: 16}, {train.optimizer.lr: 0.01, batch: 8}]");
  CHECK(good.problems == "");
  CHECK(good.spec.search.start ==
        std::vector<Point>{{{"train.optimizer.lr", 0.1}, {"train.data.batch", 16}},
                           {{"train.optimizer.lr", 0.01}, {"train.data.batch", 8}}});
  CHECK(good.spec.decides != with("[{lr: 0.1, batch: 16}]").spec.decides);
  CHECK(with("{lr: 0.1}").problems.find("must be a list of points") != std::string::npos);
  CHECK(with("[7]").problems.find("must be a map") != std::string::npos);
  CHECK(with("[{lr: 0.1}]").problems.find("lacks train.data.batch") != std::string::npos);
  CHECK(with("[{lr: 2, batch: 8}]").problems.find("is no value of train.optimizer.lr") != std::string::npos);
  CHECK(with("[{lr: 0.1, batch: 8, momentum: 1}]").problems.find("is no parameter of the sweep") !=
        std::string::npos);
}

TEST_CASE("two mistakes in the numbers of a sweep are reported together") {
  const SpecRead read =
      read_spec(trained + std::string("sweep: {parameters: {lr: [1]}, parallel: 99999999, repeat: x}\n"));
  CHECK(tells(read, "x.yaml:4:42: sweep.parallel must be"));
  CHECK(tells(read, "x.yaml:4:60: sweep.repeat must be"));
}
