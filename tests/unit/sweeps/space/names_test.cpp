#include "sweeps/space/names.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/names");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char named_file[] =
    "name: x\nmode: single\nrun: [go, '${sweep.lr} ${sweep.depth}']\nenv: {A: '${sweep.size}', B: 3.10}\n"
    "note: '${sweep.none}'\n";

// The path that a name means, or the first line of the message about the name.
std::string meaning_of(const std::string& written, const std::string& text = named_file) {
  Problems problems;
  const Names names(parse_yaml(text, "x.yaml"));
  const std::optional<std::string> path =
      names.resolve(written, {std::make_shared<const Source>(Source{"w", written}), 0, 0}, problems);
  CHECK(path.has_value() == problems.empty());
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    const std::string all = error.what();
    return all.substr(0, all.find('\n'));
  }
  return *path;
}

}  // namespace

TEST_CASE("resolve() accepts the NAME of a ${sweep.NAME}, a whole path, and the unique last word of a path") {
  for (const char* own : {"lr", "depth", "size", "repeat"}) CHECK(meaning_of(own) == own);
  CHECK(meaning_of("A") == "env.A");
  CHECK(meaning_of("env.NEW") == "env.NEW");
  CHECK(meaning_of("image") == "image");
  CHECK(meaning_of("train.optimizer.lr") == "train.optimizer.lr");
  CHECK(meaning_of("momentum") == "train.optimizer.momentum");
  CHECK(meaning_of("roles.worker.cpu") == "workers.cpu");
  CHECK(meaning_of("roles.server.cpu") == "servers.cpu");
  CHECK(meaning_of("roles.master.cpu") == "roles.master.cpu");
  CHECK(meaning_of("none").find("w:1:1: the experiment has no value 'none', and neither `run` nor `env` has "
                                "${sweep.none}") == 0);
  CHECK(meaning_of("dept").find("did you mean 'depth'?") != std::string::npos);
  CHECK(meaning_of("count") == "w:1:1: 'count' may be workers.count or servers.count: write the whole path");
  // Only an experiment with a program (`run:`) has the name sweep.repeat.
  CHECK(meaning_of("repeat", "name: x\nmode: single\ntrain: {steps: 1}\n").find("has no value 'repeat'") !=
        std::string::npos);
}

TEST_CASE("`name`, `tags`, `note` and `sweep` cannot be parameters") {
  for (const char* path : {"name", "tags", "note", "sweep", "sweep.parallel", "tags.0"})
    CHECK(meaning_of(path) ==
          "w:1:1: " + std::string(path) + " cannot be a parameter: it changes nothing that runs");
}

TEST_CASE("each ${sweep.NAME} in `run` or `env` needs a value, but ${sweep.repeat} does not") {
  Problems problems;
  const Names names(
      parse_yaml("run: 'a ${sweep.lr}'\nenv: {A: '${sweep.repeat}', B: '${sweep.size}'}\n", "x.yaml"));
  Parameter lr;
  lr.path = "lr";
  names.check_all_given({lr}, problems);
  CHECK(problems.size() == 1);
  CHECK_THROWS_WITH_AS(
      problems.throw_if_any(),
      doctest::Contains("x.yaml:2:32: ${sweep.size} has no value: the sweep has no parameter 'size'"), Error);
  CHECK(names.is_own("size"));
  CHECK_FALSE(names.is_own("A"));
}

TEST_CASE("texts_of() spells a value as the user wrote it, or as JSON if that spelling is unknown") {
  CHECK(text_of_value("a b") == "a b");
  CHECK(text_of_value(0.5) == "0.5");
  CHECK(text_of_value(true) == "true");
  CHECK(text_of_value(json{1, "x"}) == "[1,\"x\"]");
  Spellings spellings;
  note_spelling(3.1, "3.10", spellings);
  note_spelling(3.1, "3.100", spellings);
  note_spelling(7, "7", spellings);
  note_spelling(true, "True", spellings);
  note_spelling("a", "'a'", spellings);
  note_spelling(json{1}, "[ 1 ]", spellings);
  CHECK(spellings == Spellings{{3.1, "3.10"}, {true, "True"}});
  Parameter parameter;
  parameter.path = "p";
  parameter.written = spellings;
  using Texts = std::map<std::string, std::string>;
  CHECK(texts_of({{parameter}, {}}, {{"p", 3.1}, {"q", 3.1}}) == Texts{{"p", "3.10"}, {"q", "3.1"}});
  CHECK(texts_of({{parameter}, {}}, {{"p", 3.2}}) == Texts{{"p", "3.2"}});
  CHECK(texts_of({{parameter}, {}}, {}).empty());
}

TEST_CASE("a number keeps its spelling in `run` and `env`, but only its value counts in other fields") {
  const json read = json_of_experiment(parse_yaml(
      "run: [go, 3.10, 7]\nenv: {B: 3.10, C: 1e3, D: 5, E: ['0x10']}\ntrain: {steps: 1e1}\n", "x.yaml"));
  CHECK(read["run"] == json{"go", "3.10", 7});
  CHECK(read["env"] == json{{"B", "3.10"}, {"C", "1e3"}, {"D", 5}, {"E", {"0x10"}}});
  CHECK(read["train"]["steps"] == 10);
}

TEST_CASE("put_values() replaces ${sweep.NAME} in `run` and `env`, but not in other fields") {
  YamlNode root = parse_yaml(named_file, "x.yaml");
  CHECK(has_names(root));
  CHECK(has_names(*root.find("run")));
  CHECK_FALSE(has_names(*root.find("mode")));
  put_values(root, {{"lr", "1"}, {"depth", "${sweep.lr}"}, {"none", "n"}});
  CHECK(root.find("run")->items[1].text == "1 ${sweep.lr}");
  CHECK(root.find("env")->find("A")->text.empty());
  CHECK(root.find("env")->find("B")->text == "3.10");
  CHECK(root.find("note")->text == "${sweep.none}");
}

TEST_CASE("resolve() prefers the arguments of the program to keys of the same name") {
  constexpr char text[] =
      "name: x\nmode: single\nrun: p\nargs: {lr: 0.1, optimizer: {momentum: 0.9, beta: 1}, other: {beta: "
      "2}}\n";
  CHECK(meaning_of("lr", text) == "args.lr");
  CHECK(meaning_of("args.lr", text) == "args.lr");
  CHECK(meaning_of("momentum", text) == "args.optimizer.momentum");
  CHECK(meaning_of("optimizer.momentum", text) == "args.optimizer.momentum");
  CHECK(meaning_of("beta", text) ==
        "w:1:1: 'beta' may be args.optimizer.beta or args.other.beta: write the whole path");
  CHECK(meaning_of("args.new", text) == "args.new");
  CHECK(meaning_of("qqqqqq", text).ends_with("; for an argument of the program write args.qqqqqq"));
}
