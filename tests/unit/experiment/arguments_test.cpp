// `args:` and the words after "--": the command line of the program.
#include "cli/experiment/arguments.h"

#include <doctest/doctest.h>

#include "cli/experiment/argument_words.h"
#include "cli/util/text.h"
#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/arguments");

namespace mlk {
namespace {

using nlohmann::json;
using test::contains;
using test::load;
using test::problems_of;
using Words = std::vector<std::string>;

// The keys `lines`, and the keys that every experiment needs.
std::string experiment_with(const std::string& lines) { return "name: x\nmode: single\n" + lines + "\n"; }

Words words(const std::string& lines, const Words& after_dashes = {}) {
  return program_words(
      load(experiment_with(lines), {.set = {}, .env = {}, .image = "", .arguments = after_dashes}).effective);
}

json args_of(const std::string& lines, const Words& after_dashes = {}) {
  return load(experiment_with(lines), {.set = {}, .env = {}, .image = "", .arguments = after_dashes})
      .effective["args"];
}

TEST_CASE("each kind of value becomes the words that its style says") {
  const std::string args =
      "args: {lr: 0.1, name: a b, amp: true, debug: false, none: null, layers: [64, 32]}\n";
  const auto in_style = [&](const std::string& style) {
    Words all = words("run: [p]\n" + args + (style.empty() ? "" : "args_style: " + style));
    all.erase(all.begin());
    return join(all, "|");
  };
  CHECK(in_style("") == "--amp|--layers|64|32|--lr|0.1|--name|a b");
  CHECK(in_style("--name value") == in_style(""));
  CHECK(in_style("-name value") == "-amp|-layers|64|32|-lr|0.1|-name|a b");
  CHECK(in_style("--name=value") == "--amp=true|--debug=false|--layers=64,32|--lr=0.1|--name=a b");
  CHECK(in_style("name=value") == "amp=true|debug=false|layers=[64,32]|lr=0.1|name=a b");
}

TEST_CASE("the program gets each number as it is written") {
  for (const char* number :
       {"0.1", "1e-3", "1E5", "1.0", "007", "-5", ".5", "1_000", "0x1F", "123456789012345678901"}) {
    INFO(number);
    CHECK(words("run: [p]\nargs: {n: " + std::string(number) + "}") == Words{"p", "--n", number});
  }
  CHECK(args_of("run: p\nargs: {lr: 0.1, n: 5, r: 1e-3}") == json{{"lr", 0.1}, {"n", 5}, {"r", "1e-3"}});
}

TEST_CASE("arguments with dots may be written as maps") {
  const Words expected{"p", "--optimizer.lr", "0.1", "--optimizer.name", "sgd"};
  CHECK(words("run: [p]\nargs: {optimizer: {lr: 0.1, name: sgd}}") == expected);
  CHECK(contains(problems_of(experiment_with("run: [p]\nargs: {a.b: 1}")),
                 "write --lr 0.1 as {lr: 0.1}, and --a.b 1 as {a: {b: 1}}"));
}

TEST_CASE("a script gets the arguments at its end, or at the place of \"$@\"") {
  CHECK(words("run: python train.py\nargs: {lr: 0.1}") ==
        Words{"sh", "-c", "python train.py \"$@\"", "sh", "--lr", "0.1"});
  CHECK(words("run: python train.py \"$@\" | tee log\nargs: {lr: 0.1}") ==
        Words{"sh", "-c", "python train.py \"$@\" | tee log", "sh", "--lr", "0.1"});
  CHECK(words("run: python train.py") == Words{"sh", "-c", "python train.py"});
  for (const char* script :
       {"a | tee log", "a # comment", "for i in 1 2; do a; done", "a &&", "{ a; }", "a \\"}) {
    INFO(script);
    CHECK(contains(
        problems_of(experiment_with("run: \"" + replaced(script, {{'\\', "\\\\"}}) + "\"\nargs: {lr: 0.1}")),
        "write \"$@\" where the script passes them"));
  }
}

TEST_CASE("${args.NAME} in run is the place of an argument, and keeps its value one word") {
  CHECK(
      words("run: [p, \"--lr=${args.lr}\", \"${args.layers}\", q]\nargs: {lr: a b, layers: [1, 2], x: 3}") ==
      Words{"p", "--lr=a b", "1", "2", "q", "--x", "3"});
  CHECK(words("run: p \"${args.lr}\" -- \"$@\"\nargs: {lr: a b, x: 3}") ==
        Words{"sh", "-c", "mlk_arg_1=${1}; shift 1; p \"${mlk_arg_1}\" -- \"$@\"", "sh", "a b", "--x", "3"});
  CHECK(contains(problems_of(experiment_with("run: p ${args.lrr}\nargs: {lr: 1}")),
                 "run has ${args.lrr}, but args has no lrr; did you mean 'lr'?"));
}

TEST_CASE("Kubernetes replaces nothing in arguments and scripts, only in the words of a list") {
  const auto command = [](const std::string& lines) { return load(experiment_with(lines)).command; };
  CHECK(command("run: [p, $(MLK_RANK)]\nargs: {x: $(HOME) $$}") ==
        Words{"p", "$(MLK_RANK)", "--x", "$$(HOME) $$$$"});
  CHECK(command("run: [p, \"$(A)${args.x}\"]\nargs: {x: $(B)}") == Words{"p", "$(A)$$(B)"});
  CHECK(command("run: p $X\nargs: {x: 1}") == Words{"sh", "-c", "p $$X \"$$@\"", "sh", "--x", "1"});
}

TEST_CASE("mlk refuses wrong arguments, each at its place") {
  const auto refused = [](const std::string& lines) { return problems_of(experiment_with(lines)); };
  CHECK(refused("run: p\nargs: {--lr: 1}") ==
        "x.yaml:4:8: '--lr' cannot be the name of an argument in args: write --lr 0.1 as {lr: 0.1}, and "
        "--a.b 1 as "
        "{a: {b: 1}}");
  CHECK(contains(refused("run: p\nargs: [--lr, 1]"),
                 "args must be a map of arguments, such as {lr: 0.1, epochs: 3}"));
  CHECK(contains(refused("run: p\nargs: {x: [[1]]}"), "args.x must be a list of text and numbers"));
  CHECK(contains(refused("run: p\nargs: {password: hunter2}"), "args.password looks like a secret"));
  CHECK(contains(refused("run: p\nargs: {x: ghp_0123456789abcdefghij0123456789abcdef}"),
                 "looks like a secret"));
  CHECK_NOTHROW(load(experiment_with("run: p\nargs: {pad_token: <pad>}")));
  CHECK(contains(refused("train: {data: {path: /d}, steps: 1}\nargs: {lr: 1}"), "args is for run"));
  CHECK(contains(refused("run: p\nargs_style: --x"), "args_style must be"));
}

TEST_CASE("words after -- are arguments of the program") {
  CHECK(args_of("run: [p]", {"--lr", "0.5", "--name", "a b"}) == json{{"lr", 0.5}, {"name", "a b"}});
  CHECK(words("run: [p]", {"--lr", "0.5", "--name", "a b"}) == Words{"p", "--lr", "0.5", "--name", "a b"});
  CHECK(words("run: [p]\nargs: {lr: 0.1, n: 3}", {"--lr", "0.5"}) == Words{"p", "--lr", "0.5", "--n", "3"});
  CHECK(words("run: [p]\nargs: {optimizer: {lr: 0.1}}", {"--optimizer.lr", "0.5"}) ==
        Words{"p", "--optimizer.lr", "0.5"});
  CHECK(words("run: [p]\nargs_style: name=value", {"lr=0.5"}) == Words{"p", "lr=0.5"});
  CHECK(args_of("run: [p]\nargs_style: name=value", {"lr=0.5"}) == json{{"lr", 0.5}});
  CHECK(args_of("run: [p]", {"--x", "true"}) == json{{"x", "true"}});  // the word, not the flag alone
}

TEST_CASE("the program gets words after -- of any form in their order") {
  const Words cases[] = {
      {"train", "--lr", "0.5"},
      {"--amp", "--lr", "0.5", "data folder/"},
      {"--lr=0.5", "-x", "--lr", "--", "--n", "-3"},
      {"--layers", "64", "64", "--layers", "3"},
      {"--a", "1", "--a.b", "2"},
      {"-lr", "0.5", "x=1"},
      {"", "--x", "", "*", "$(HOME)", "$$", "a'b\"c", "${HOME}"},
  };
  for (const Words& given : cases) {
    INFO(join(given, " "));
    Words expected{"p"};
    expected.insert(expected.end(), given.begin(), given.end());
    const Experiment of_list =
        load(experiment_with("run: [p]"), {.set = {}, .env = {}, .image = "", .arguments = given});
    Words unescaped;  // as Kubernetes gives them to the program
    for (const std::string& word : of_list.command) {
      std::string out;
      for (std::size_t i = 0; i < word.size(); ++i) {
        out += word[i];
        if (word[i] == '$' && i + 1 < word.size() && word[i + 1] == '$') ++i;
      }
      unescaped.push_back(out);
    }
    CHECK(unescaped == expected);
  }
}

TEST_CASE("words after -- go to the end of a script, or before its \"$@\"") {
  CHECK(words("run: p a", {"b c", "--lr", "1"}) ==
        Words{"sh", "-c", "mlk_arg_1=${1}; shift 1; p a 'b c' --lr \"${mlk_arg_1}\"", "sh", "1"});
  CHECK(words("run: p \"$@\" | cat", {"b c"}) == Words{"sh", "-c", "set -- 'b c' \"$@\"; p \"$@\" | cat"});
  CHECK(contains(
      problems_of(experiment_with("run: p | cat"), {.set = {}, .env = {}, .image = "", .arguments = {"b"}}),
      "write \"$@\""));
  CHECK(contains(
      problems_of(experiment_with("run: p"), {.set = {}, .env = {}, .image = "", .arguments = {"\xff"}}),
      "--:1:1: not UTF-8 text"));
}

TEST_CASE("set_program() keeps the words of the command line, and makes parameters of its arguments") {
  const auto program = [](const Words& given) {
    Problems problems;
    YamlNode root = parse_yaml("name: x\nmode: single\n", "x.yaml");
    set_program(root, given, problems);
    return to_json(root);
  };
  json found = program({"python", "train.py", "--epochs", "3", "--lr", "1e-3"});
  CHECK(found["run"] == json{"python", "train.py"});
  CHECK(found["args"] == json{{"epochs", 3}, {"lr", "1e-3"}});
  found = program({"python", "train.py", "--lr", "0.1", "--epochs", "3"});  // not in the order of the names
  CHECK(found["run"] == json{"python", "train.py", "--lr", "${args.lr}", "--epochs", "${args.epochs}"});
  CHECK(found["args"] == json{{"epochs", 3}, {"lr", 0.1}});
  found = program({"torchrun", "--nproc_per_node", "2", "train.py", "--lr=0.1", "--amp"});
  CHECK(found["run"] == json{"torchrun", "--nproc_per_node", "${args.nproc_per_node}", "train.py",
                             "--lr=${args.lr}", "--amp"});
  found = program({"train.py", "--n=3", "--lr=0.1", "x"});
  CHECK(found["run"] == json{"train.py", "--n=${args.n}", "--lr=${args.lr}", "x"});
  CHECK(found["args_style"] == "--name=value");
  found = program({"train.py", "--lr=0.1", "--n=3"});
  CHECK(found["run"] == json{"train.py"});
  CHECK(found["args_style"] == "--name=value");
  CHECK(program({"echo hello | cat"})["run"] == "echo hello | cat");
  CHECK(program({"./a.out"})["run"] == json{"./a.out"});
}

TEST_CASE("arguments can follow the last word of a script, whatever its quoted words contain") {
  for (const char* script :
       {"python t.py", "cd x\npython t.py --a '; & |'", "p \"a#b\\\"(c\" d", "p \\; x", "p ''"})
    CHECK_MESSAGE(may_end_with_arguments(script), script);
  for (const char* script : {"p | cat", "p # all", "p; ", "for i in 1; do p; done", "p 'open", "p \"open",
                             "p \\", "cat <<E\nE", "if a\nthen p\nfi"})
    CHECK_FALSE_MESSAGE(may_end_with_arguments(script), script);
}

}  // namespace
}  // namespace mlk
