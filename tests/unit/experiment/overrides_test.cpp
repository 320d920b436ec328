// --set, -e and $MLK_IMAGE: the values of the file that they replace, and the messages for their mistakes.
#include "cli/experiment/overrides.h"

#include <doctest/doctest.h>

#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/overrides");

namespace mlk {
namespace {

using nlohmann::json;
using test::contains;
using test::load;
using test::problems_of;
using test::refusal;
using test::set;
using test::smallest;

constexpr char roles[] = "name: x\nmode: ps\nrun: a\n";

json roles_of(const std::string& lines, const std::vector<std::string>& arguments) {
  const Experiment x = test::load(roles + lines, set(arguments));
  return json{{"worker", x.roles.at("worker").count}, {"server", x.roles.at("server").count}};
}

TEST_CASE("--set accepts both forms of a role, such as workers and roles.worker") {
  const json both = {{"worker", 3}, {"server", 4}};
  for (const char* file :
       {"", "workers: {count: 2}\nservers: {count: 2}\n", "roles: {worker: {count: 2}, server: {count: 2}}\n",
        "roles: {worker: {count: 2}}\n"}) {
    INFO(file);
    CHECK(roles_of(file, {"workers.count=3", "servers.count=4"}) == both);
    CHECK(roles_of(file, {"roles.worker.count=3", "roles.server.count=4"}) == both);
    CHECK(roles_of(file, {"workers={count: 3}", "roles.server={count: 4}"}) == both);
  }
  CHECK(roles_of("", {"roles={worker: {count: 3}, server: {count: 4}}"}) == both);
  CHECK(problems_of(std::string(roles) + "roles: {worker: {}}\n", set({"workers.cpu=no"})) ==
        "--set:1:13: roles.worker.cpu must be a number of CPUs such as 2, 0.5 or 250m, not 'no'");
}

TEST_CASE("--set finds an entry of a list by its index, counted from 0") {
  const std::string text =
      std::string(smallest) + "data: [{name: a, mount: /a, pvc: p}, {name: b, mount: /b, pvc: p}]\n";
  const auto said = [&](const std::string& argument) { return problems_of(text, set({argument})); };
  CHECK(test::load(text, set({"data.0.mount=/c"})).data[0].mount == "/c");
  CHECK(said("data.2.mount=/c") == "--set:1:6: there is no entry 2: the list has 2, counted from 0");
  CHECK(said("data.9999.mount=/c") == "--set:1:6: there is no entry 9999: the list has 2, counted from 0");
  for (const char* step : {"10000", "-1", "first", "01"})
    CHECK(said(std::string("data.") + step + ".mount=/c") ==
          std::string("--set:1:6: there is no '") + step +
              "' below data, which is a list; its entries are 0, 1 ...");
  CHECK(said("data.1.mount.x=/c") == "--set:1:14: there is no 'x' below data.1.mount, which is no map");
  CHECK(said("data.1={name: b, mount: relative, pvc: p}") ==
        "--set:1:25: data[1].mount must be an absolute path without '..' or ':', not 'relative'");
}

TEST_CASE("the message for a mistake in --set has the column of the mistake") {
  const auto said = [](const std::string& argument) { return problems_of(smallest, set({argument})); };
  CHECK(said("steps") == "--set:1:1: --set needs KEY=VALUE, for example train.steps=500");
  CHECK(said("") == "--set:1:1: --set needs KEY=VALUE, for example train.steps=500");
  CHECK(said("a.=5") == "--set:1:1: --set needs KEY=VALUE, for example train.steps=500");
  CHECK(said("mode=singel") == "--set:1:1: there is no job type 'singel'; did you mean 'single'?");
  CHECK(said("train.steps=") == "--set:1:13: train.steps has no value; it must be a whole number");
  CHECK(said("train.train=5").starts_with("--set:1:7: unknown key 'train' in train"));
  CHECK(said("metrics.port=7070") ==
        "--set:1:9: metrics.port cannot be 7070: peers talk to each other there");
  CHECK(said("note=a=b") == "accepted");
  CHECK(problems_of("name: x\nmode: single\ntrain:\n", set({"train.steps=5"})) ==
        "--set:1:7: train.data is missing: the data set");
}

TEST_CASE("--set has precedence over an earlier --set and over -e") {
  CHECK(test::load(smallest, set({"note=a", "note=b"})).effective["note"] == "b");
  const Experiment x =
      test::load(smallest, {.set = {"env={A: set}"}, .env = {"A=first", "B=lost"}, .image = ""});
  CHECK(x.effective["env"] == json{{"A", "set"}});
}

TEST_CASE("-e sets a variable even if the file has no variables") {
  const auto env = [](const std::string& line, const std::vector<std::string>& arguments) {
    return test::load(std::string(smallest) + line, {.set = {}, .env = arguments, .image = ""})
        .effective["env"];
  };
  CHECK(env("", {"A=5", "B=", "C=a=b", "A=6"}) == json{{"A", "6"}, {"B", ""}, {"C", "a=b"}});
  CHECK(env("env:\n", {"A=[b"}) == json{{"A", "[b"}});
  CHECK(env("env: {A: {secret: s/k}}\n", {"A=plain"}) == json{{"A", "plain"}});
  const auto said = [](const std::string& argument) {
    return problems_of(smallest, {.set = {}, .env = {argument}, .image = ""});
  };
  CHECK(said("A") == "-e:1:1: -e needs NAME=VALUE");
  CHECK(said("=b") == "-e:1:1: -e needs NAME=VALUE");
  CHECK(said("1A=b") == "-e:1:1: '1A' cannot be the name of a variable");
  CHECK(said("MLK_RANK=1") == "-e:1:1: MLK_RANK: variables that begin with MLK_ are mlk's own");
  for (const char* wrong : {"5", "[a]"})
    CHECK(
        problems_of(std::string(smallest) + "env: " + wrong + "\n", {.set = {}, .env = {"A=b"}, .image = ""})
            .find("env must be a map of variables") != std::string::npos);
}

TEST_CASE("MLK_IMAGE replaces the image of the file, and its value is always text") {
  CHECK(test::load(smallest, {.set = {}, .env = {}, .image = "5"}).image == "5");
  CHECK(problems_of(std::string(smallest) + "image: [a]\n", {.set = {}, .env = {}, .image = "i"}) ==
        "accepted");
}

TEST_CASE("flags have precedence over the environment, and the environment over the file") {
  const std::string text = std::string(smallest) + "image: file\nenv: {A: file, B: file}\n";
  CHECK(load(text).image == "file");
  CHECK(load(text, {.set = {}, .env = {}, .image = "environment"}).image == "environment");
  CHECK(load(text, {.set = {"image=flag"}, .env = {}, .image = "environment"}).image == "flag");
  const json env =
      load(text, {.set = {"env.B=set"}, .env = {"A=e=e", "B=e", "C=0x1F"}, .image = ""}).effective["env"];
  CHECK(env == json{{"A", "e=e"}, {"B", "set"}, {"C", "0x1F"}});
}

TEST_CASE("--set does not change text that YAML would fold or cut") {
  const auto note = [](const std::string& value) {
    return test::load(smallest, set({"note=" + value})).effective["note"];
  };
  for (const char* text : {"cd ..\npwd\n# a word\necho two\n", "echo color #fff; echo next", "#fff", "l1\nl2",
                           " blanks at the ends ", "l1\n\n  l2", "&x of", "true #"})
    CHECK(note(text) == text);
  CHECK(note("\"a #b\\nc\"") == "a #b\nc");
  CHECK(note("'  a'") == "  a");
  CHECK(note("|\n  a\n  b\n") == "a\nb\n");
  CHECK(test::load(smallest, set({"env.A=l1\nl2"})).effective["env"]["A"] == "l1\nl2");
  CHECK(test::load(smallest, set({"train.steps= 500 "})).effective["train"]["steps"] == 500);
  CHECK(
      problems_of(smallest, set({"train.steps=500 # five"})).starts_with("--set:1:13: train.steps must be"));
}

TEST_CASE("--set with null removes a key or an entry of a list") {
  const std::string text =
      "name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5, momentum: 0.9}}\n"
      "workers: {count: 2}\nnote: a\n"
      "data: [{name: a, mount: /a, pvc: p}, {name: b, mount: /b, pvc: p}]\n";
  const auto effective = [&](const std::vector<std::string>& arguments) {
    return test::load(text, set(arguments)).effective;
  };
  CHECK(effective({"train.steps=null", "train.epochs=2"})["train"]["epochs"] == 2);
  CHECK_FALSE(effective({"train.steps=null", "train.epochs=2"})["train"].contains("steps"));
  CHECK(effective({"train.optimizer= NULL "}) ==
        test::load("name: x\nmode: ps\nnote: a\nworkers: {count: 2}\n"
                   "train: {data: {path: /d}, steps: 1}\n"
                   "data: [{name: a, mount: /a, pvc: p}, {name: b, mount: /b, "
                   "pvc: p}]\n")
            .effective);
  CHECK(effective({"roles.worker.count=null"}) == effective({"workers=null"}));
  CHECK(test::load(text, set({"data.0=null"})).data.at(0).name == "b");
  CHECK(effective({"note=null", "note=b"})["note"] == "b");
  const auto said = [&](const std::string& argument) { return problems_of(text, set({argument})); };
  CHECK(said("train.stepz=null") ==
        "--set:1:7: there is no 'stepz' in train that could be removed; did you mean 'steps'?");
  CHECK(said("checkpoint.volume.pvc=null") == "--set:1:1: there is no 'checkpoint' that could be removed");
  CHECK(said("data.2=null") == "--set:1:6: there is no entry 2: the list has 2, counted from 0");
  CHECK(said("note.x=null") == "--set:1:6: there is no 'x' below note, which is no map");
  CHECK(said("train.steps=\"null\"") ==
        "--set:1:13: train.steps must be a whole number without quotes, not 'null'");
  CHECK(said("name=null").find("name is missing") != std::string::npos);
}

TEST_CASE("--set with null stores a null below `patch`, where any content is allowed") {
  CHECK(test::load(smallest, set({"patch.job.spec.ttlSecondsAfterFinished=null"}))
            .effective["patch"]["job"]["spec"]["ttlSecondsAfterFinished"]
            .is_null());
  const std::string text = std::string(smallest) + "patch: {job: {spec: {a: 1}}}\n";
  CHECK_FALSE(test::load(text, set({"patch=null"})).effective["patch"].contains("job"));
}

TEST_CASE("--set reads the value of a key as YAML") {
  const std::string text =
      "name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 1}\n"
      "data: [{name: a, mount: /a, pvc: p}, {name: b, mount: /b, pvc: p}]\n";
  const Experiment x =
      load(text, {.set = {"train.steps=500", "train.model.hidden=[64, 32]", "roles.worker.count=3",
                          "workers.min=2", "data.1.mount=/c", "train.consistency={staleness: 2}",
                          "note=\"a: b\"", "checkpoint.volume.pvc=c"},
                  .env = {},
                  .image = ""});
  CHECK(x.effective["train"]["steps"] == 500);
  CHECK(x.effective["train"]["model"]["hidden"] == json{64, 32});
  CHECK(x.roles.at("worker").count == 3);
  CHECK(x.roles.at("worker").min == 2);
  CHECK(x.data[1].mount == "/c");
  CHECK(x.effective["train"]["consistency"] == json{{"staleness", 2}});
  CHECK(x.effective["note"] == "a: b");
  CHECK(x.effective["checkpoint"]["volume"]["pvc"] == "c");
}

TEST_CASE("if the file is not a map, the error lists no mistakes of --set") {
  const std::string said = refusal("only text", {.set = {"train.steps=5"}, .env = {}, .image = ""});
  CHECK_FALSE(contains(said, "below"));
  CHECK_FALSE(contains(said, "--set:"));
  CHECK(contains(said, "an experiment is a map of keys"));
}

TEST_CASE("the message for a mistake in --set shows the argument with a caret") {
  const auto set = [](const std::string& argument) {
    return refusal(smallest, {.set = {argument}, .env = {}, .image = ""});
  };
  CHECK(set("train.steps=many") ==
        "--set:1:13: train.steps must be a whole number, not 'many'\n  train.steps=many\n              ^");
  CHECK(set("train.stepz=5") ==
        "--set:1:7: unknown key 'stepz' in train; did you mean 'steps'?\n  train.stepz=5\n        ^");
  CHECK(contains(set("train.steps.x=5"), "--set:1:13: there is no 'x' below train.steps, which is no map"));
  CHECK(contains(set("name.x=5"), "--set:1:6: there is no 'x' below name, which is no map"));
  CHECK(contains(set("train.steps="), "train.steps has no value"));
  CHECK(contains(set("steps"), "--set needs KEY=VALUE"));
  CHECK(contains(set("=5"), "--set needs KEY=VALUE"));
  CHECK(contains(set("a..b=5"), "--set needs KEY=VALUE"));
  CHECK(contains(set("train.model.hidden=[1"),
                 "a '[' is not closed, or a comma is missing\n  train.model.hidden=[1\n"));
  CHECK(contains(set("data.0.mount=/x"), "data must be a list"));
  const std::string list = std::string(smallest) + "data: [{name: a, mount: /a, pvc: p}]\n";
  for (const char* index : {"1", "9999", "00001", "99999999999999999999999"}) {
    const std::string message =
        refusal(list, {.set = {std::string("data.") + index + ".mount=/x"}, .env = {}, .image = ""});
    CHECK(contains(message, "--set:1:6: there is no "));
  }
  CHECK(contains(refusal(smallest, {.set = {}, .env = {"A"}, .image = ""}), "-e needs NAME=VALUE"));
  CHECK(refusal(smallest, {.set = {}, .env = {"A=\xff"}, .image = ""}) == "-e:1:1: not UTF-8 text");
  CHECK(refusal(smallest, {.set = {}, .env = {}, .image = "\xff"}) == "MLK_IMAGE:1:1: not UTF-8 text");
}

TEST_CASE("if the value of --set is not YAML, the error also lists the other mistakes") {
  const std::string message = refusal(
      "name: x\nmode: single\ntrain: {data: {path: d}, steps: 1}\n",
      {.set = {"train.model.hidden=[1", "train.steps={", "note=a\xff", "tags=5"}, .env = {}, .image = ""});
  CHECK(contains(message, "x.yaml:3:22: train.data.path must be an absolute path"));
  CHECK(contains(message, "a '[' is not closed"));
  CHECK(contains(message, "a '{' is not closed"));
  CHECK(contains(message, "not UTF-8 text"));
  CHECK(contains(message, "tags must be a list"));
  CHECK_FALSE(contains(message, "train.model.hidden has"));
  CHECK_FALSE(contains(message, "train.steps has"));
}

TEST_CASE("a flag such as --steps has precedence over --set") {
  const Overrides good{
      .set = {"train.steps=5"}, .env = {}, .image = "", .flags = {{"--steps", "train.steps", "7"}}};
  CHECK(test::load(smallest, good).effective["train"]["steps"] == 7);
  CHECK(settings_of(good) == std::vector<std::string>{"train.steps=5", "train.steps=7"});
  const Overrides bad{.set = {}, .env = {}, .image = "", .flags = {{"--steps", "train.steps", "many"}}};
  CHECK(test::refusal(smallest, bad).starts_with("--steps:1:1: train.steps must be a "));
  CHECK(contains(test::refusal(smallest, bad), "\n  many\n  ^"));
}

}  // namespace
}  // namespace mlk
