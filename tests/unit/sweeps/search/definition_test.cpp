#include "sweeps/search/definition.h"

#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/objects/record.h"
#include "sweeps/space/trial.h"
#include "sweeps/space/trial_values.h"
#include "tests/unit/paths.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("sweeps/search/definition");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char smallest_train[] = "name: x\nmode: single\ntrain: {data: {path: /d, batch: 16}, steps: 1}\n";

Definition define(const std::string& text, const std::vector<std::string>& words = {},
                  const std::filesystem::path& folder = "") {
  return define_sweep({"x.yaml", folder, text}, {}, words, Templates());
}

std::string refusal_of(const std::string& text, const std::vector<std::string>& words = {},
                       const std::filesystem::path& folder = "") {
  try {
    define(text, words, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

bool refused(const std::string& what, const std::string& part) {
  return what.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sweep is refused if one of its points takes more than 4 KiB") {
  const std::string program = "name: x\nmode: single\nrun: echo\nenv: {A: \"${sweep.a}${sweep.b}\"}\n";
  const std::string most(3000, 'x'), shorter(900, 'y');
  CHECK(define(program, {"a=" + most, "b=1," + shorter}).points.size() == 2);
  CHECK(refused(refusal_of(program, {"a=" + most, "b=1," + shorter + shorter}), "take more than 4 KiB"));
  const std::string tpe = program + "sweep: {search: {tpe: {trials: 3}}, objective: minimize loss}\n";
  CHECK(refused(refusal_of(tpe, {"a=" + most, "b=1," + shorter + shorter}), "take more than 4 KiB"));
}

TEST_CASE("the owner of a sweep stays below 400 KiB for any number of parameter values") {
  std::string a = "a=", b = "b=";
  for (int i = 0; i < 250; ++i) a += (i > 0 ? "," : "") + std::string(1000, 'x') + std::to_string(i);
  for (int i = 0; i < 300; ++i) b += (i > 0 ? "," : "") + std::string(1500, 'y') + std::to_string(i);
  const std::string program = "name: x\nmode: single\nrun: echo\nenv: {A: \"${sweep.a}${sweep.b}\"}\n";
  const Definition sweep = define(program, {a, b});
  CHECK(sweep.points.size() == 75'000);
  const json overlay = owner_overlay(sweep, true);
  CHECK(overlay.dump().size() < 400 * 1024);
  const Record record = read_record(overlay);
  REQUIRE(record.space.parameters.size() == 2);
  CHECK(record.space.parameters[0].values.size() == 127 * 1024 / 1000);
  CHECK(record.space.parameters[1].values.front() == sweep.points.front().at("b"));
}

TEST_CASE("each example with `sweep:` defines a sweep that the cluster can run without a driver") {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(mlk::test::source_dir() / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const ExperimentFile file = read_experiment_file(entry.path().string());
    if (file.text.find("\nsweep:") == std::string::npos) continue;
    ++examples;
    INFO(file.name);
    const Definition sweep = define_sweep(file, {}, {}, Templates());
    CHECK(sweep.points.size() > 1);
    const FileContext file_context = file_context_of(file, {});
    const TemplateNames template_names = Templates().names();
    const Experiments experiments(sweep.base, sweep.spec.space, template_names, file_context);
    const CommonPart common(sweep.base, sweep.spec.space, sweep.first, json::object());
    for (const Point& point : sweep.points) CHECK(common.delta_of(experiments.of(point), 0).obstacle == "");
  }
  CHECK(examples == 1);
}

TEST_CASE("experiment_at() and the program of a trial get each value as the user wrote it") {
  const std::string program =
      "name: x\nmode: single\nrun: [a, \"${sweep.flag}/${sweep.rate}\"]\nenv: {PYTHON: '3.9', FIXED: 1.50, "
      "MAX_TOKENS: 128}\n";
  const auto check = [](const Definition& sweep) {
    REQUIRE(sweep.points.size() == 1);
    CHECK(sweep.first.effective["env"]["PYTHON"] == "3.10");
    CHECK(sweep.first.effective["run"][1] == "True/1e-3");
    const Record record = read_record(owner_overlay(sweep, true));
    const json best = experiment_at(record.base, record.space, sweep.points.front());
    CHECK(best["run"][1] == "True/1e-3");
    CHECK(best["env"] == json{{"FIXED", "1.50"}, {"MAX_TOKENS", 128}, {"PYTHON", "3.10"}});
  };
  const std::vector<std::string> words{"env.PYTHON=3.10", "flag=True", "rate=1e-3"};
  check(define(program, words));
  check(define(program + "sweep: {parameters: {env.PYTHON: 3.10, flag: [True], rate: {choice: [1e-3]}}}\n"));
  const TemporaryFolder folder;
  folder.write("p.csv", "env.PYTHON,flag,rate\n3.10,True,1e-3\n");
  folder.write("p.yaml", "- {env.PYTHON: 3.10, flag: True, rate: 1e-3}\n");
  for (const char* file : {"p.csv", "p.yaml"})
    check(define(program + "sweep: {points: " + file + "}\n", {}, folder.path()));
  CHECK(hash_of(define(program, words).points.front()) ==
        hash_of(define(program, {"env.PYTHON=3.1", "flag=true", "rate=0.001"}).points.front()));
}

TEST_CASE("a point that cannot be run is reported with the line and the column of its value") {
  const TemporaryFolder folder;
  folder.write("p.csv", "workers.count,train.steps\n1,5\n1,none\n");
  folder.write("p.json", "[{\"workers.count\": 1},\n {\"workers.count\": -2}]\n");
  folder.write("p.yaml", "- {workers.count: 1}\n- {workers.count: -2}\n");
  const auto place_of_mistake = [&](const std::string& sweep, const std::vector<std::string>& words) {
    try {
      const Definition defined = define(smallest_train + sweep, words, folder.path());
      const FileContext file_context;
      const TemplateNames template_names = Templates().names();
      const Experiments experiments(defined.base, defined.spec.space, template_names, file_context);
      for (const Point& point : defined.points) (void)experiments.of(point);
    } catch (const Error& error) {
      std::string what = error.what();
      if (const std::string here = folder.path().string() + "/"; what.find(here) != what.npos)
        what.erase(what.find(here), here.size());
      const std::size_t begin = what.find('\n') + 1, end = what.find(": ", begin);
      return what.substr(begin, end - begin) + "|" + what.substr(what.rfind("\n  "));
    }
    return std::string("accepted");
  };
  struct Case {
    std::string sweep, word, place;
  };
  const std::string count = "sweep: {parameters: {workers.count: ";
  const std::string random = ", search: {random: {trials: 2}}}\n";
  for (const Case& each :
       {Case{count + "[1, -2]}}\n", "", "x.yaml:4:41"}, Case{count + "-2}}\n", "", "x.yaml:4:37"},
        Case{count + "{choice: [1, x]}}}\n", "", "x.yaml:4:50"},
        Case{count + "{range: [1, -2, -3]}}}\n", "", "x.yaml:4:45"},
        Case{count + "{uniform: [-3, -1]}}" + random, "", "x.yaml:4:47"},
        Case{"sweep: {parameters: {train.optimizer: [{lr: 1}, {lr: x}]}}\n", "", "x.yaml:4:49"},
        Case{"sweep: {parameters: {train.nonsense: [1, 2]}}\n", "", "x.yaml:4:39"},
        Case{"", "workers.count=1,-2", "argument:1:17"},
        Case{count + "[-1]}}\n", "workers.count=1,-2", "argument:1:17"},
        Case{"", "workers.count=-3..-1", "argument:1:15"}, Case{"sweep: {points: p.csv}\n", "", "p.csv:3:3"},
        Case{"sweep: {points: p.json}\n", "", "p.json:2:2"},
        Case{"sweep: {points: p.yaml}\n", "", "p.yaml:2:19"}}) {
    INFO(each.sweep << each.word);
    const std::vector<std::string> words(each.word.empty() ? 0 : 1, each.word);
    const std::string told = place_of_mistake(each.sweep, words);
    CHECK(told.substr(0, told.find('|')) == each.place);
    const std::size_t column = std::stoul(each.place.substr(each.place.rfind(':') + 1));
    CHECK(told.substr(told.find('|') + 1) == "\n  " + std::string(column - 1, ' ') + "^");
  }
}

TEST_CASE("why_fewer_points() says that a space has fewer points than the search may try") {
  const auto why = [](const std::string& search, const std::string& words) {
    return why_fewer_points(
        define(smallest_train + ("sweep: {objective: minimize loss, " + search + "}\n"), {words}));
  };
  CHECK(why("search: {random: {trials: 10}}", "lr=1,2,3") ==
        "search random finds only 3 different points, and tries these instead of 10");
  CHECK(why("repeat: 2, search: {random: {trials: 10}}", "lr=1,2,3").find("only 3 ") != std::string::npos);
  CHECK(why("search: {tpe: {trials: 2}}", "lr=1") ==
        "search tpe finds only 1 different point, and tries it instead of 2");
  for (const char* search : {"search: {random: {trials: 3}}", "search: {tpe: {trials: 3}}", "search: grid"})
    CHECK(why(search, "lr=1,2,3") == "");
  CHECK(why("search: {tpe: {trials: 30}}", "lr=0.1..1.5") == "");
}

TEST_CASE("the name of a sweep is the same for start points with 1 and with 1.0") {
  const auto name_of = [](const std::string& lr) {
    return define(smallest_train +
                      ("sweep: {objective: minimize loss, search: {tpe: {trials: 9, start: [{lr: " + lr +
                       "}]}}}\n"),
                  {"lr=0.5..2"})
        .identity.run;
  };
  CHECK(name_of("1") == name_of("1.0"));
  CHECK(name_of("1") != name_of("1.5"));
}

TEST_CASE("a grid has a point for each combination, and the last parameter varies fastest") {
  const Definition sweep = define(smallest_train, {"lr=0.1,0.2", "batch=8,16"});
  REQUIRE(sweep.points.size() == 4);
  CHECK(sweep.points[1] == Point{{"train.optimizer.lr", 0.1}, {"train.data.batch", 16}});
  CHECK(sweep.points[2] == Point{{"train.optimizer.lr", 0.2}, {"train.data.batch", 8}});
  CHECK(sweep.first.effective["train"]["data"]["batch"] == 8);
  CHECK(sweep.identity.run.starts_with("x-"));
}

TEST_CASE("a sweep without parameters is refused if it does not set `repeat`") {
  const std::string what = "the sweep has no parameters: give values to try";
  CHECK(refused(refusal_of(smallest_train), "x.yaml:1:1: " + what));
  CHECK(refused(refusal_of(smallest_train + std::string("sweep: {parallel: 2}\n")), "x.yaml:4:8: " + what));
  CHECK(
      refused(refusal_of(smallest_train + std::string("sweep: {parameters: {}}\n")), "x.yaml:4:21: " + what));
  CHECK(define(smallest_train + std::string("sweep: {repeat: 3}\n")).points.size() == 3);
  CHECK(define(smallest_train, {"lr=0.1"}).points.size() == 1);
}

TEST_CASE("the option `repeat` adds trials with other seeds, and leaves the first trials unchanged") {
  const std::vector<Point> once = define(smallest_train, {"lr=0.1,0.2"}).points;
  const std::vector<Point> thrice =
      define(smallest_train + std::string("sweep: {repeat: 3}\n"), {"lr=0.1,0.2"}).points;
  CHECK(thrice.size() == 6);
  std::set<std::string> hashes;
  for (const Point& point : thrice) hashes.insert(hash_of(point));
  CHECK(hashes.size() == 6);
  for (const Point& point : once) CHECK(hashes.count(hash_of(point)) == 1);
  CHECK(thrice[2].at("train.seed") == 3);
  CHECK(refused(refusal_of(smallest_train + std::string("sweep: {repeat: 3}\n"), {"seed=1,2"}),
                "sweep.repeat varies train.seed, which is a parameter already"));
  const std::string program = "name: x\nmode: single\nrun: a ${sweep.repeat}\nsweep: {repeat: 2}\n";
  CHECK(define(program).first.effective["run"] == "a 1");
  CHECK(define(program).points[1].at("repeat") == 2);
}

TEST_CASE("a grid of a thousand million points is refused without listing its points") {
  std::vector<std::string> words;
  for (const char* path : {"lr", "weight_decay", "momentum"})
    words.push_back(path + std::string("=0.001..1:0.001"));
  CHECK(refused(refusal_of(smallest_train, words),
                "the sweep has 1000000000 points; a sweep has at most 100000"));
}

TEST_CASE("a sweep is refused if its exceptions exclude all points") {
  CHECK(
      refused(refusal_of(smallest_train + std::string("sweep: {parameters: {lr: [1]}, except: [{lr: 1}]}\n")),
              "the sweep has no points"));
}

TEST_CASE("each column of a points file is a parameter") {
  const TemporaryFolder folder;
  const std::string listed = smallest_train + std::string("sweep: {points: points.csv}\n");
  folder.write("points.csv", "lr,train.data.batch\n0.1,8\n0.2,\n");
  const Definition sweep = define(listed, {}, folder.path());
  REQUIRE(sweep.points.size() == 2);
  CHECK(sweep.points[0] == Point{{"train.optimizer.lr", 0.1}, {"train.data.batch", 8}});
  CHECK(sweep.points[1] == Point{{"train.optimizer.lr", 0.2}});
  folder.write("points.csv", "lr,speed\n0.1,8\n");
  const std::string what = refusal_of(listed, {}, folder.path());
  CHECK(refused(what, "points.csv:1:4: the experiment has no value 'speed'"));
  CHECK(refused(refusal_of(smallest_train + std::string("sweep: {points: none.csv}\n"), {}, folder.path()),
                "sweep.points: "));
  CHECK(refused(refusal_of(smallest_train + std::string("sweep: {points: points.txt}\n"), {}, folder.path()),
                "x.yaml:4:17: sweep.points must name a .csv, .tsv, .json or .yaml file"));
}

TEST_CASE("a random search with more trials begins with the points of a search with fewer trials") {
  const auto points = [](const char* trials) {
    return define(std::string(smallest_train) +
                  "sweep: {parameters: {lr: {log_uniform: [1e-5, 1]}}, search: "
                  "{random: {trials: " +
                  trials + "}}}\n")
        .points;
  };
  const std::vector<Point> few = points("5"), many = points("20");
  CHECK(many.size() == 20);
  CHECK(std::vector<Point>(many.begin(), many.begin() + 5) == few);
}

TEST_CASE("ASHA takes the length of a whole trial from the experiment") {
  const std::string sweep = "sweep: {objective: minimize loss, stop: {asha: {min: 1}}}\n";
  const std::string steps =
      "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 9, optimizer: {lr: 0.5}}\n" + sweep;
  const Definition plain = define(steps, {"lr=0.1,0.2"});
  CHECK(plain.spec.stop.asha.max == 9);
  CHECK(plain.spec.objective->position == "step");
  CHECK_FALSE(plain.spec.stop.resumes);
  CHECK(define(steps + "checkpoint: {volume: {pvc: p}}\n", {"lr=0.1,0.2"}).spec.stop.resumes);
  CHECK_FALSE(define(steps + "checkpoint: {volume: {emptyDir: {}}}\n", {"lr=0.1,0.2"}).spec.stop.resumes);
  const std::string epochs =
      "name: x\nmode: single\ntrain: {data: {path: /d}, epochs: 7, optimizer: {lr: 0.5}}\n" + sweep;
  const Definition by_epochs = define(epochs, {"lr=0.1,0.2"});
  CHECK(by_epochs.spec.stop.asha.max == 7);
  CHECK(by_epochs.spec.objective->position == "epoch");
  const auto refused = [](std::string text, const std::string& asha) {
    text.replace(text.find("{min: 1}"), 8, asha);
    try {
      define(text, {"lr=0.1,0.2"});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK(refused(steps, "{min: 1, max: 9}") == "taken");
  CHECK(refused(steps, "{min: 1, max: 8}") == "stop asha has max 8, but a trial trains for 9 steps");
  CHECK(refused(steps, "{min: 9}") == "stop asha has min 9, but a whole trial has 9 steps");
  CHECK(refused("name: x\nmode: single\nrun: 'echo ${sweep.lr}'\n" + sweep, "{min: 1}") ==
        "stop asha needs max, how long a whole trial is");
}

TEST_CASE("the files and the code of a sweep cannot be parameters") {
  const TemporaryFolder folder;
  for (const char* file : {"a/x", "b/x", "a/y"}) folder.write(file, file);
  const std::string program = "name: x\nmode: single\nrun: cat x\ndata: [{name: d, mount: /d, files: a}]\n";
  for (const char* words : {"code.path=a,b", "data.0.files=a,b"})
    CHECK(refused(refusal_of(program + "code: {path: a}\n", {words}, folder.path()),
                  "its trials have the same files and code"));
  const std::string by_lr = "env: {LR: \"${sweep.lr}\"}\n";
  const Definition with_a = define(program + "code: a\n" + by_lr, {"lr=1,2"}, folder.path());
  const Definition with_b = define(program + "code: {path: b}\n" + by_lr, {"lr=1,2"}, folder.path());
  CHECK(with_a.identity.run != with_b.identity.run);
  CHECK(with_a.kin == with_b.kin);
  CHECK(with_a.files.code->digest != with_b.files.code->digest);
}

TEST_CASE("a sweep with code keeps its name if a line is added to its points file or experiment file") {
  const TemporaryFolder folder;
  folder.write("train.py", "print()");
  const std::string text =
      "name: x\nmode: single\nrun: python3 train.py ${sweep.lr}\ncode: .\nsweep: {points: points.csv}\n";
  const auto sweep_of = [&](const std::string& points, const std::string& more) {
    folder.write("points.csv", points);
    folder.write("x.yaml", text + more);
    return define_sweep({(folder.path() / "x.yaml").string(), folder.path(), text + more}, {}, {},
                        Templates())
        .identity.run;
  };
  const std::string first = sweep_of("lr\n1\n", "");
  CHECK(sweep_of("lr\n1\n2\n", "") == first);
  CHECK(sweep_of("lr\n1\n", "note: new\n") == first);
  folder.write("train.py", "print(1)");
  CHECK(sweep_of("lr\n1\n", "") != first);
}
