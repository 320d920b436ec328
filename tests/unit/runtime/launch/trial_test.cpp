#include "runtime/launch/trial.h"

#include <sstream>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/launch/config.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/launch/trial");

namespace mlk::rt {
namespace {

namespace trials {

using nlohmann::json;

json point(int number, const json& patch = json::object()) {
  json whole = {
      {"trial", number}, {"hash", "abc"}, {"parameters", {{"lr", 0.5}}}, {"config", {{"seed", number}}}};
  whole.merge_patch(patch);
  return whole;
}

Trial read(const std::string& text, int index) {
  std::istringstream file(text);
  return read_trial(file, "points", index);
}

// The reason why the line is refused.
std::string refusal(const std::string& text, int index) {
  try {
    read(text, index);
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    return failure.what();
  }
  return "accepted";
}

}  // namespace trials

TEST_CASE("a trial is read from its own line, and the other lines are not parsed") {
  const std::string text = "not JSON\n" + trials::point(41).dump() + "\n" + trials::point(7).dump();
  const Trial trial = trials::read(text, 1);
  CHECK(trial.number == 41);
  CHECK(trial.values == "lr=0.5");
  CHECK(trial.config == nlohmann::json{{"seed", 41}});
  CHECK(trials::read(text, 2).number == 7);  // the last line needs no newline
  CHECK(trials::read(text + "\n", 2).number == 7);
}

TEST_CASE("if a line is missing or too long, the error names the line and its file") {
  const std::string one = trials::point(0).dump() + "\n";
  CHECK(trials::refusal("", 0) == "points:1: there is no such line");
  CHECK(trials::refusal(one, 1) == "points:2: there is no such line");
  CHECK(trials::refusal(one + one, 9) == "points:10: there is no such line");
  std::string longest = trials::point(3).dump();
  longest += std::string(most_point_bytes - longest.size(), ' ');
  CHECK(trials::read(one + longest + "\n", 1).number == 3);
  CHECK(trials::refusal(one + longest + " \n", 1) == "points:2: has more than 64 KiB");
  CHECK(trials::read(one + longest + longest + "\n" + one, 2).number ==
        0);  // the longer line is of another trial
}

TEST_CASE("read_trial() reads up to the line of the trial, and at most 2 MiB") {
  const std::string line = trials::point(5).dump() + "\n";
  const std::string before(most_points_bytes - line.size() - 1, 'x');
  std::istringstream file(before + "\n" + line + std::string(100, 'x'));
  CHECK(read_trial(file, "points", 1).number == 5);
  CHECK(file.tellg() == static_cast<std::streamoff>(most_points_bytes));
  CHECK(trials::refusal(before + "x\n" + line, 1) == "points:2: lies beyond the first 2 MiB of the file");
}

TEST_CASE("if a line is not a point, the error names the line and its fault") {
  const auto said = [](const std::string& line) { return trials::refusal(line + "\n", 0); };
  CHECK(said("").starts_with("points:1: the point: not JSON: "));
  CHECK(said("{").starts_with("points:1: the point: not JSON: "));
  CHECK(said(std::string(99, '[')) == "points:1: the point: nested deeper than 32");
  CHECK(said("[]") == "points:1: must be an object");
  CHECK(said("null") == "points:1: must be an object");
  for (const char* number : {"-1", "1.5", "\"1\"", "null", "1000000", "99999999999999999999"}) {
    CAPTURE(number);
    CHECK(said(std::string(R"({"hash": "a", "parameters": {}, "config": {}, "trial": )") + number + "}") ==
          "points:1: trial must be a whole number from 0 to 999999");
  }
  CHECK(said(trials::point(1, {{"hash", 5}}).dump()) == "points:1: hash must be a string");
  CHECK(said(trials::point(1, {{"hash", nullptr}}).dump()) == "points:1: hash must be a string");
  for (const char* key : {"parameters", "config"}) {
    CHECK(said(trials::point(1, {{key, "text"}}).dump()) ==
          std::string("points:1: ") + key + " must be an object");
    CHECK(said(trials::point(1, {{key, nullptr}}).dump()) ==
          std::string("points:1: ") + key + " must be an object");
  }
  CHECK(trials::read(trials::point(999'999).dump(), 0).number == 999'999);
}

TEST_CASE("the file of points must exist, and must be a file") {
  const test::TemporaryFolder folder;
  const auto said = [](const std::string& path) {
    try {
      load_trial(path, 0);
      return std::string("accepted");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
  };
  CHECK(said(folder / "none") == (folder / "none") + ": cannot be read");
  CHECK(said(folder.path()) == folder.path().string() + ":1: cannot be read");
  test::write_file(folder / "points", trials::point(2).dump());
  CHECK(load_trial(folder / "points", 0).number == 2);
}

TEST_CASE("the values of a trial are shown as one printable line of at most 1024 bytes") {
  const auto shown = [](const nlohmann::json& parameters) {
    nlohmann::json whole = trials::point(1);
    whole["parameters"] = parameters;
    return trials::read(whole.dump(), 0).values;
  };
  CHECK(shown(nlohmann::json::object()) == "no parameters");
  CHECK(shown({{"train.optimizer.lr", 0.01}, {"train.optimizer.type", "adam"}, {"a", true}}) ==
        "a=true train.optimizer.lr=0.01 train.optimizer.type=adam");
  CHECK(shown({{"a", "5"}, {"b", ""}, {"c", "two words"}, {"d", "x=1"}}) ==
        R"(a="5" b="" c="two words" d="x=1")");
  CHECK(shown({{"a", "line\nbreak\x1b[31m\x7f"}, {"b", "\xc3\xa9"}}) ==
        R"(a="line\nbreak\u001b[31m\u007f" b="\u00e9")");
  CHECK(shown({{"a", {1, {{"b", nullptr}}}}}) == R"(a=[1,{"b":null}])");
  CHECK(shown({{"", 1}, {"a b", 2}}) == R"(""=1 "a b"=2)");
  const std::string exact = shown({{"a", std::string(1022, 'x')}});
  CHECK(exact == "a=" + std::string(1022, 'x'));
  CHECK(shown({{"a", std::string(1023, 'x')}}) == "a=" + std::string(1019, 'x') + "...");
  CHECK(shown({{"a", std::string(2000, 'x')}, {"b", 1}}).size() == 1024);
}

TEST_CASE("enter_folders() appends the number of the trial to the folders of checkpoints and events") {
  LaunchEnv env;
  enter_folders(env, Trial{12, "", {}});
  CHECK(env.checkpoints == "");
  CHECK(env.tensorboard == "");
  env.checkpoints = "/checkpoints/s";
  env.tensorboard = "/events";
  env.data = "/data";
  enter_folders(env, Trial{12, "", {}});
  CHECK(env.checkpoints == "/checkpoints/s/12");
  CHECK(env.tensorboard == "/events/12");
  CHECK(env.data == "/data");
}

}  // namespace
}  // namespace mlk::rt
