#include "sweeps/space/trial_values.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/render/render.h"
#include "cli/render/runtime_config.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/text.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("sweeps/space/trial_values");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

const TemplateNames all_modes{{"allreduce", "ps", "single"}};
const FileContext nowhere;

constexpr char trained_file[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 10, optimizer: {lr: 0.5}}\n";
constexpr char program_file[] =
    "name: x\nmode: single\nrun: echo ${sweep.word} $LR\nenv: {LR: '${sweep.lr}', FIXED: a}\n";

struct Trials {
  explicit Trials(const std::string& text, Space of = {})
      : base(parse_yaml(text, "x.yaml")), space(std::move(of)) {}

  Experiment of(const Point& point) const { return Experiments(base, space, all_modes, nowhere).of(point); }
  Delta delta(const Point& point, const Point& first) const {
    const Experiment experiment = of(first);
    const json config = experiment.has_train ? runtime_config(experiment) : json();
    return CommonPart(base, space, experiment, config).delta_of(of(point), 7);
  }

  const YamlNode base;
  const Space space;
};

// Runs the program of the trial whose line is at `index` in `lines`, and returns its output.
std::string run_trial(const std::vector<std::string>& lines, int index,
                      const std::vector<std::string>& command, const std::string& variables = "") {
  const TemporaryFolder folder;
  const std::filesystem::path points = folder.write("points.env", join(lines, "\n") + "\n");
  std::string shell =
      variables + " MLK_POINTS=" + shell_word(points.string()) + " MLK_TRIAL_INDEX=" + std::to_string(index);
  for (std::string word : trial_command(command)) {
    for (std::size_t at = word.find("$$"); at != std::string::npos; at = word.find("$$", at + 1))
      word.erase(at, 1);
    shell += " " + shell_word(word);
  }
  std::FILE* pipe = popen((shell + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 256> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    out.append(buffer.data(), count);
  pclose(pipe);
  return out;
}

}  // namespace

TEST_CASE("a point sets the values at its paths, and replaces ${sweep.NAME} in `run` and `env`") {
  const Experiment trained = Trials(trained_file).of({{"train.optimizer.lr", 0.25}, {"workers.cpu", 2}});
  CHECK(trained.effective["train"]["optimizer"]["lr"] == 0.25);
  CHECK(trained.roles.at("worker").cpu == "2");
  const Experiment program = Trials(program_file).of({{"lr", 0.25}, {"word", "a b"}});
  CHECK(program.effective["run"] == "echo a b $LR");
  CHECK(program.effective["env"]["LR"] == "0.25");
}

TEST_CASE("the error about a point that cannot be run shows its values and the mistake") {
  try {
    Trials(trained_file).of({{"train.optimizer.lr", "fast"}, {"train.steps", 5}});
    FAIL("was accepted");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(what.find("the point train.optimizer.lr=fast train.steps=5 cannot be run\n") == 0);
    CHECK(what.find("sweep:1:1: train.optimizer.lr must be a number") != std::string::npos);
    CHECK(error.code() == ExitCode::usage);
  }
}

TEST_CASE("the delta of a trial with `train:` is a merge patch for the configuration of the runtime") {
  const Trials trials(trained_file);
  const Point first{{"train.optimizer.lr", 0.5}};
  CHECK(trials.delta(first, first).config == json::object());
  CHECK(trials.delta({{"train.optimizer.lr", 0.1}}, first).config == json{{"optimizer", {{"lr", 0.1}}}});
  const Point adam{{"train.optimizer.type", "adam"}, {"train.optimizer.lr", 0.5}};
  json config = runtime_config(trials.of(first));
  config.merge_patch(trials.delta(adam, first).config);
  CHECK(config == runtime_config(trials.of(adam)));
  CHECK(config["optimizer"].contains("momentum") == false);
}

TEST_CASE("delta_of() names the value because of which one Job cannot run all trials") {
  const Trials trials(trained_file);
  CHECK(trials.delta({{"workers.cpu", 2}}, {{"workers.cpu", 1}}).obstacle ==
        "roles.worker.cpu differs from trial to trial");
  CHECK(trials.delta({{"train.data.path", "/other"}}, {}).obstacle ==
        "train.data.path differs from trial to trial");
  CHECK(trials.delta({{"train.model.weights", "/first"}}, {{"train.model.weights", "/second"}}).obstacle ==
        "train.model.weights differs from trial to trial");
  CHECK(trials.delta({{"image", "b"}}, {{"image", "a"}}).obstacle == "image differs from trial to trial");
  CHECK(trials.delta({{"env.A", "b"}}, {{"env.A", "a"}}).obstacle == "env.A differs from trial to trial");
  CHECK(trials.delta({{"train.steps", 5}}, {}).obstacle.empty());
}

TEST_CASE("the delta of a trial with `run:` is a line of sh that sets the trial's values") {
  const Trials trials(program_file);
  const Delta delta = trials.delta({{"lr", 0.1}, {"word", "x"}}, {{"lr", 1}, {"word", "y"}});
  CHECK(delta.obstacle.empty());
  CHECK(delta.environment == "export MLK_TRIAL=7 LR=0.1; set -- sh -c 'echo x $LR'");
  CHECK(trials.delta({{"lr", "$(MLK_RANK)"}, {"word", "x"}}, {}).obstacle ==
        "env.LR is for Kubernetes to expand");
}

TEST_CASE("the line of a trial in points.env unsets a variable for which the trial has no value") {
  const Trials trials("name: x\nmode: single\nrun: a\nenv: {B: c}\n",
                      {{{"env.A", Parameter::Kind::choice, {"1"}, 0, 0, {}}}, {}});
  CHECK(trials.delta({}, {}).environment == "export MLK_TRIAL=7; unset A");
  CHECK(trials.delta({{"env.A", "1"}}, {}).environment == "export MLK_TRIAL=7 A=1");
}

TEST_CASE("the program of a trial gets its values unchanged, even with quotes and newlines") {
  const Trials trials(program_file);
  const std::string hostile = "it's \"$HOME\" `date` \\ $(id)\n;second line";
  const Trials listed("name: x\nmode: single\nrun: [printf, '%s|%s', '${sweep.word}', last]\n");
  const std::vector<std::string> lines{trials.delta({{"lr", 0.1}, {"word", "first"}}, {}).environment,
                                       trials.delta({{"lr", "a'b"}, {"word", "second"}}, {}).environment,
                                       "export MLK_TRIAL=7; set -- printf '%s|%s' \"$(printf %b 'it'\\''s "
                                       "\"$HOME\" `date` \\\\ $(id)\\0012;second "
                                       "line')\" last"};
  CHECK(run_trial(lines, 0, {"false"}) == "first 0.1\n");
  CHECK(run_trial(lines, 1, {"false"}) == "second a'b\n");
  CHECK(run_trial(lines, 2, {"false"}) == hostile + "|last");
  CHECK(run_trial({"export MLK_TRIAL=3"}, 0, {"sh", "-c", "echo $$MLK_TRIAL $0", "name"}) == "3 name\n");
  CHECK(run_trial(lines, 3, {"false"}).find("has no line for trial 3") != std::string::npos);
}

TEST_CASE("each trial of one Job has folders of its own for checkpoints and event files") {
  const TemporaryFolder claim;
  const std::string folders =
      "MLK_CHECKPOINTS=" + shell_word(claim.path().string()) + " MLK_TENSORBOARD=/events";
  for (const std::string number : {"3", "12"}) {
    const std::string shown = run_trial({"export MLK_TRIAL=" + number}, 0,
                                        {"sh", "-c", "echo $$MLK_CHECKPOINTS $$MLK_TENSORBOARD"}, folders);
    CHECK(shown == (claim.path() / number).string() + " /events/" + number + "\n");
    CHECK(std::filesystem::is_directory(claim.path() / number));
  }
  const std::vector<std::string> shows = {"sh", "-c", "echo \"$$MLK_CHECKPOINTS|$$MLK_TENSORBOARD\""};
  CHECK(run_trial({"export MLK_TRIAL=3"}, 0, shows) == "|\n");
}

TEST_CASE("the program of a trial gets its variables `n` and `line` unchanged") {
  CHECK(run_trial({"export MLK_TRIAL=3"}, 0, {"sh", "-c", "echo $$n $$line"}, "n=5 line=abc") == "5 abc\n");
}

TEST_CASE("one Job cannot run all trials if $(NAME) in the pod refers to a swept variable") {
  const auto obstacle = [](const std::string& text) {
    const Trials trials("name: x\nmode: single\n" + text,
                        {{{"env.LR", Parameter::Kind::choice, {"1"}, 0, 0, {}}}, {}});
    return trials.delta({{"env.LR", "1"}}, {{"env.LR", "1"}}).obstacle;
  };
  const std::string of_run = "run refers to a variable that differs from trial to trial";
  CHECK(obstacle("run: [echo, '--lr=$(LR)']\n") == of_run);
  CHECK(obstacle("run: [echo, $(MLK_CHECKPOINTS)]\n") == of_run);
  CHECK(obstacle("run: [echo, $(MLK_TRIAL)]\n") == of_run);
  CHECK(obstacle("run: a\nenv: {OUT: '/results/$(LR)'}\n") ==
        "env.OUT refers to a variable that differs from trial to trial");
  CHECK(obstacle("run: [echo, $(LRS), $(MLK_RANK), $LR]\n") == "");
  CHECK(obstacle("run: echo $(LR)\n") == "");  // sh reads this text
}

TEST_CASE("describe() lists the values of a point, or says that it has no parameters") {
  CHECK(describe(Point{}) == "no parameters");
  CHECK(describe(Point{{"a", "x y"}, {"b", json{1, 2}}}) == "a=x y b=[1,2]");
}

TEST_CASE("one Job cannot run all trials if sh cannot set one of the swept variables") {
  const auto obstacle = [](const std::string& text, const std::string& path, const Point& point) {
    const Trials trials(text, {{{path, Parameter::Kind::choice, {"1"}, 0, 0, {}}}, {}});
    return trials.delta(point, point).obstacle;
  };
  const std::string run = "name: x\nmode: single\nrun: a\n";
  CHECK(obstacle(run, "env.A-B", {}) == "env.A-B is no name for sh");
  CHECK(obstacle(run, "env.1A", {}) == "env.1A is no name for sh");
  CHECK(obstacle(run, "env.A1_", {}) == "");
  CHECK(obstacle(run + "env: {KEY: {secret: team/key}}\n", "env.KEY", {}) == "env.KEY comes from a Secret");
  CHECK(obstacle(run, "env.A", {{"env.A", "$(POD)"}}) == "env.A is for Kubernetes to expand");
  CHECK(obstacle(run, "env.A", {{"env.A", "$POD (x)"}}) == "");
  const Trials listed("name: x\nmode: single\nrun: [echo, '${sweep.word}']\n");
  CHECK(listed.delta({{"word", "$(POD)"}}, {}).obstacle == "run has words that are for Kubernetes to expand");
  CHECK(listed.delta({{"word", "a"}}, {}).environment == "export MLK_TRIAL=7; set -- echo a");
  // If the command is a text, sh expands it itself.
  const Trials text("name: x\nmode: single\nrun: echo ${sweep.word}\n");
  CHECK(text.delta({{"word", "$(date)"}}, {}).obstacle == "");
}

TEST_CASE("an argument of the program may differ from trial to trial, and is written as in the sweep") {
  Parameter lr{"args.lr", Parameter::Kind::choice, {0.001}, 0, 0, {}};
  lr.written = {{0.001, "1e-3"}};
  const Trials listed("name: x\nmode: single\nrun: [p]\nargs: {lr: 0.1, n: 2}\n", {{lr}, {}});
  CHECK(listed.delta({{"args.lr", 0.001}}, {}).environment == "export MLK_TRIAL=7; set -- p --lr 1e-3 --n 2");
  const Trials script("name: x\nmode: single\nrun: p\nargs: {lr: 0.1}\n", {{lr}, {}});
  CHECK(script.delta({{"args.lr", 0.001}}, {}).environment ==
        "export MLK_TRIAL=7; set -- sh -c 'p \"$@\"' sh --lr 1e-3");
  const Trials spliced("name: x\nmode: single\nrun: [p]\nargs: {path: 'out/${sweep.a}'}\n");
  CHECK(spliced.delta({{"a", "b c"}}, {}).environment == "export MLK_TRIAL=7; set -- p --path 'out/b c'");
}

TEST_CASE("experiment_at() replaces the values of the base by the values of the point") {
  const json base = {
      {"name", "x"}, {"mode", "single"}, {"run", "a ${sweep.lr} ${sweep.other}"}, {"env", {{"B", "1"}}}};
  Parameter lr{"lr", Parameter::Kind::choice, {3.1}, 0, 0, {}};
  lr.written = {{3.1, "3.10"}};
  const json there = experiment_at(base, {{lr}, {}}, {{"lr", 3.1}, {"env.B", "2"}, {"workers.count", 3}});
  CHECK(there["run"] == "a 3.10 ");
  CHECK(there["env"]["B"] == "2");
  CHECK(there["workers"]["count"] == 3);
  CHECK(there["name"] == "x");
  CHECK_THROWS_AS(experiment_at(base, {}, {{"run.deeper", 1}}), Error);
}
