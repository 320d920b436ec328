// The meaning of valid experiment files: defaults, short forms, overrides, the effective experiment.
#include "cli/experiment/load.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/unicode.h"
#include "cli/yaml/problems.h"
#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/load");

namespace mlk {
namespace {

using nlohmann::json;

using test::contains;
using test::load;
using test::refusal;
using test::smallest;

TEST_CASE("train.offline_time accepts 0s, and train.patience refuses 0s") {
  const auto with = [](const std::string& setting) {
    return std::string("name: x\nmode: ps\nservers: {count: 1}\ntrain: {data: {path: /data}, steps: 10, ") +
           setting + "}\n";
  };
  CHECK(load(with("offline_time: 0s")).effective["train"]["offline_time"] == "0s");
  CHECK(contains(refusal(with("offline_time: 12d")), "at most 1000000s"));
  CHECK(contains(refusal(with("patience: 0s")), "train.patience must be a time"));
}

TEST_CASE("`train` needs exactly one of `steps` and `epochs`") {
  const auto with = [](const std::string& length) {
    return "name: x\nmode: single\ntrain: {data: {path: /data}" + length + "}\n";
  };
  const Experiment x = load(with(", epochs: 3"));
  CHECK(x.effective["train"]["epochs"] == 3);
  CHECK_FALSE(x.effective["train"].contains("steps"));
  CHECK(contains(refusal(with(", steps: 5, epochs: 3")),
                 "x.yaml:3:40: train.steps and train.epochs exclude each other"));
  CHECK(contains(refusal(with("")), "train.steps is missing"));
  CHECK(contains(refusal(with("")), "or give train.epochs"));
  CHECK(contains(refusal(with(", epochs: 0")), "train.epochs must be"));
  CHECK_FALSE(contains(refusal(with(", epochs: 0")), "missing"));
}

TEST_CASE("the smallest experiment gets every default") {
  const Experiment x = load(smallest);
  CHECK(x.name == "x");
  CHECK(x.mode == "single");
  CHECK(x.has_train);
  CHECK(x.command.empty());
  CHECK(needs_image(x));
  REQUIRE(x.roles.size() == 1);
  const Role& worker = x.roles.at("worker");
  CHECK(worker.count == 1);
  CHECK(worker.min == 1);
  CHECK(worker.cpu == "1");
  CHECK(worker.memory == "1Gi");
  CHECK(worker.gpu == 0);
  CHECK(x.start_timeout == std::chrono::minutes(15));
  CHECK_FALSE(x.time_limit.has_value());
  CHECK(x.effective["train"]["optimizer"] == json{{"type", "sgd"},
                                                  {"lr", 0.01},
                                                  {"weight_decay", 0.0},
                                                  {"momentum", 0.9},
                                                  {"nesterov", false},
                                                  {"schedule", {{"type", "constant"}, {"warmup", 0}}}});
  CHECK(x.effective["train"]["model"]["hidden"] == json{128});
  CHECK(x.effective["train"]["data"]["batch"] == 32);
  CHECK_FALSE(x.effective["checkpoint"].contains("volume"));
}

TEST_CASE("`workers` and `servers` are short forms of `roles.worker` and `roles.server`") {
  const std::string train = "train: {data: {path: /data}, steps: 10}\n";
  const Experiment shorter =
      load("name: x\nmode: ps\n" + train + "workers: {count: 4, min: 2}\nservers: {count: 2}\n");
  const Experiment longer =
      load("name: x\nmode: ps\n" + train + "roles: {worker: {count: 4, min: 2}, server: {count: 2}}\n");
  CHECK(shorter.effective == longer.effective);
  CHECK(shorter.roles.at("worker").min == 2);
  CHECK(shorter.roles.at("server").count == 2);
  CHECK(shorter.roles.at("server").min == 2);
}

TEST_CASE("mode ps has one server by default") {
  const Experiment x = load("name: x\nmode: ps\ntrain: {data: {path: /data}, steps: 10}\n");
  CHECK(x.roles.at("server").count == 1);
  CHECK(x.roles.at("worker").count == 1);
}

TEST_CASE("workers.min is equal to workers.count by default") {
  CHECK(load("name: x\nmode: allreduce\nrun: a\nworkers: {count: 3}\n").roles.at("worker").min == 3);
}

TEST_CASE("loading the effective experiment gives the same experiment") {
  const char* const texts[] = {
      smallest,
      "name: x\nmode: ps\nimage: i\ntrain: {data: {path: /d}, steps: 10, consistency: {staleness: 3}}\n"
      "workers: {count: 2, gpu: 1, patch: {pod: {spec: {hostNetwork: true}}}}\n"
      "data: [{name: a, mount: /d, files: f}, {name: b, mount: /b, nfs: {server: s, path: /p}, read_only: "
      "false}]\n"
      "env: {A: 1, B: true, C: {secret: s/k}, D: \"\", E: \"a\\\\b \\\"c\\\" é\\n\"}\n"
      "checkpoint: {every: 5, volume: {pvc: c}}\nrestart: {on: [preemption, 3, \"128-255\"]}\n"
      "time_limit: 1h30m\ntags: [a, 1]\nnote: \"yes\"\n",
      "name: x\nmode: mine\nrun: [python, train.py, \"1\"]\nworkdir: /src\nframework: none\nparameters: "
      "{depth: [1, {a: 2}]}\n"};
  for (const char* text : texts) {
    const json first = load(text).effective;
    CHECK(load(first.dump()).effective == first);
  }
}

TEST_CASE("different spellings of a path become one normal form") {
  const Experiment x = load(
      "name: x\nmode: single\ntrain: {data: {path: /data//x/./}, steps: 1}\n"
      "data: [{name: a, mount: //data/, pvc: p}, {name: b, mount: /./b, hostPath: /}]\n");
  CHECK(x.effective["train"]["data"]["path"] == "/data/x");
  CHECK(x.data[0].mount == "/data");
  CHECK(x.data[1].mount == "/b");
  CHECK(x.effective["data"][1]["hostPath"] == "/");
}

TEST_CASE("a command runs in a shell if it is a text and not a list of words") {
  CHECK(load("name: x\nmode: single\nrun: python train.py | tee log\n").command ==
        std::vector<std::string>{"sh", "-c", "python train.py | tee log"});
  CHECK(load("name: x\nmode: single\nrun: [python, train.py, 3]\n").command ==
        std::vector<std::string>{"python", "train.py", "3"});
}

TEST_CASE("numbers and booleans in `env` become the text that was written") {
  const json env =
      load(std::string(smallest) + "env: {A: 012, B: 1.50, C: true, D: yes, E: \"\"}\n").effective["env"];
  CHECK(env == json{{"A", "012"}, {"B", "1.50"}, {"C", "true"}, {"D", "yes"}, {"E", ""}});
}

TEST_CASE("the type of an optimizer or a schedule decides its keys and defaults") {
  const auto optimizer = [](const std::string& text) {
    return load("name: x\nmode: single\ntrain: {data: {path: /d}, steps: 10, optimizer: " + text + "}\n")
        .effective["train"]["optimizer"];
  };
  const json adam = optimizer("{type: adam}");
  CHECK(adam["lr"] == 0.001);
  CHECK(adam["beta1"] == 0.9);
  CHECK(adam["beta2"] == 0.999);
  CHECK(adam["epsilon"] == 1e-8);
  CHECK(adam["weight_decay"] == 0);
  CHECK_FALSE(adam.contains("momentum"));
  CHECK(optimizer("{type: adamw}")["weight_decay"] == 0.01);
  CHECK(optimizer("{type: adamw, weight_decay: 0.1}")["weight_decay"] == 0.1);
  CHECK(optimizer("{schedule: {type: cosine, warmup: 9}}")["schedule"] ==
        json{{"type", "cosine"}, {"warmup", 9}, {"final", 0.0}});
  CHECK(optimizer("{schedule: {type: step, every: 3}}")["schedule"] ==
        json{{"type", "step"}, {"warmup", 0}, {"every", 3}, {"factor", 0.1}});
}

TEST_CASE("train.optimizer.lr accepts a number that begins with its point, such as .001") {
  for (const char* lr : {"0.001", "1e-3", ".001", "1E-3"}) {
    CHECK(load(std::string(smallest) + "",
               {.set = {std::string("train.optimizer.lr=") + lr}, .env = {}, .image = ""})
              .effective["train"]["optimizer"]["lr"] == 0.001);
  }
}

TEST_CASE("a variable is accepted if its name only resembles the name of a secret") {
  CHECK_NOTHROW(load(std::string(smallest) +
                     "env: {TOKENIZERS_PARALLELISM: \"false\", MAX_TOKENS: 5, TOKEN_LIMIT: 5, "
                     "SSL_KEY_FILE: /k, API_KEY_PATH: /k, PASSWORD: \"\", KEYS: a}\n"));
}

TEST_CASE("an error message never shows a secret") {
  for (const char* line :
       {"env: {HF_TOKEN: s3cr3t}", "env: {A: b, PASSWORD: s3cr3t, 9: x}", "env:\n  X: https://u:s3cr3t@h/\n",
        "image: [ghp_0123456789abcdefs3cr3t]", "env: {DB_PASSWORD: s3cr3t"}) {
    const std::string message = refusal(std::string(smallest) + line + "\n");
    CHECK(message != "accepted");
    CHECK_FALSE(contains(message, "s3cr3t"));
  }
  const std::string flag = refusal(smallest, {.set = {}, .env = {"API_KEY=s3cr3t"}, .image = ""});
  CHECK(contains(flag, "-e:1:1: API_KEY looks like a secret"));
  CHECK(contains(flag, "API_KEY: {secret: name/key}"));
  CHECK_FALSE(contains(flag, "s3cr3t"));
  const std::string set = refusal(smallest, {.set = {"env.API_KEY=s3cr3t"}, .env = {}, .image = ""});
  CHECK(contains(set, "--set:1:5: API_KEY looks like a secret"));
  CHECK_FALSE(contains(set, "s3cr3t"));
  const std::string broken = refusal(smallest, {.set = {"env.API_KEY=[s3cr3t"}, .env = {}, .image = ""});
  CHECK(contains(broken, "--set:1:"));
  CHECK_FALSE(contains(broken, "s3cr3t"));
}

TEST_CASE("an error shows a line that has only a reference to a Secret") {
  CHECK(contains(refusal(std::string(smallest) + "env: {A: {secret: no-key}}\n"),
                 "\n  env: {A: {secret: no-key}}\n"));
}

TEST_CASE("an error that shows a part of a long line never cuts a character") {
  for (int shift = 0; shift < 2; ++shift) {
    std::string accents(static_cast<std::size_t>(shift), 'a');
    while (accents.size() < 200) accents += "é";
    const std::string message = refusal(std::string(smallest) + "env: {A: \"" + accents + "\", B: [1]}\n");
    CHECK(contains(message, "é"));
    CHECK(contains(message, "B: [1]"));
    CHECK(is_utf8(message));
    CHECK_FALSE(contains(message, "?"));
    CHECK_FALSE(contains(message, "\xef\xbf\xbd"));
  }
}

TEST_CASE("a toleration with a value is refused if its operator is Exists") {
  const auto with = [](const std::string& toleration) {
    return refusal(std::string(smallest) + "scheduling: {node: {tolerations: [" + toleration + "]}}\n");
  };
  CHECK(with("{key: gpu, operator: Equal, value: a}") == "accepted");
  CHECK(with("{key: gpu, value: a}") == "accepted");
  CHECK(with("{key: gpu, operator: Exists}") == "accepted");
  CHECK(contains(with("{key: gpu, operator: Exists, value: a}"), "has no value"));
  CHECK(contains(with("{value: a}"), "without a key"));
}

TEST_CASE("the largest allowed value of a key is accepted, and a larger value is refused") {
  const auto set = [](const std::string& argument) {
    return refusal("name: x\nmode: ps\ntrain: {data: {path: /data}, steps: 10}\n",
                   {.set = {argument}, .env = {}, .image = ""});
  };
  std::string widths = "1";
  for (int i = 1; i < 100; ++i) widths += ", 1";
  CHECK(set("train.model.hidden=[" + widths + "]") == "accepted");
  CHECK(contains(set("train.model.hidden=[" + widths + ", 1]"), "at most 100 entries, not 101"));
  CHECK(set("train.offline_time=1000000s") == "accepted");
  CHECK(contains(set("train.offline_time=1000001s"), "at most 1000000s"));
  CHECK(set("train.optimizer.schedule={type: constant, warmup: 9}") == "accepted");
  CHECK(contains(set("train.optimizer.schedule={type: constant, warmup: 10}"), "it would never end"));
}

TEST_CASE("checkpoints on an emptyDir are refused if there are several servers") {
  const std::string text =
      "name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 10}\ncheckpoint: {volume: {emptyDir: {}}}\n";
  CHECK(refusal(text + "servers: {count: 1}\n") == "accepted");
  CHECK(contains(refusal(text + "servers: {count: 2}\n"), "every pod has for itself"));
}

TEST_CASE("an error has the mistakes of the file first, then those of flags") {
  const std::string message = refusal("name: x\nmode: singel\ntrain: {data: {path: d}, steps: 1}\n",
                                      {.set = {"workers.cpu=no"}, .env = {}, .image = ""});
  const std::size_t mode = message.find("x.yaml:2:1"), path = message.find("x.yaml:3:"),
                    flag = message.find("--set:1:13");
  CHECK(mode < path);
  CHECK(path < flag);
  CHECK(flag < message.size());
}

TEST_CASE("a file of a megabyte of repeated signs is refused") {
  constexpr std::size_t large = 1 << 20;
  for (const std::string& piece :
       {std::string("["), std::string("{"), std::string("- "), std::string("? "), std::string("a: b\n"),
        std::string("&a "), std::string("\""), std::string("- &a [*a]\n"), std::string("!")}) {
    std::string text;
    while (text.size() < large - piece.size()) text += piece;
    CHECK(refusal(text) != "accepted");
  }
  CHECK(contains(refusal(std::string(large + 1, ' ')), "x.yaml: larger than 1024 KiB"));
}

TEST_CASE("load_experiment() throws only Error for a damaged or cut file") {
  const std::string text =
      std::string(smallest) +
      "data: [{name: a, mount: /a, nfs: {server: s, path: /p}}]\nenv: {A: \"b\", C: {secret: s/k}}\n"
      "roles: {worker: &w {count: 1}}\npatch: {pod: *w}\nrestart: {on: [\"1-2\"]}\n";
  CHECK(refusal(text) == "accepted");
  for (std::size_t i = 0; i < text.size(); ++i) {
    refusal(text.substr(0, i));
    for (const char damage : {'\0', '{', '[', ':', '\n', '*', '&', '"', '-', '\xff', '\t', '~'}) {
      std::string damaged = text;
      damaged[i] = damage;
      refusal(damaged);  // any exception other than Error would end the test
    }
  }
}

TEST_CASE("if a key is a word of another tool, the error suggests mlk's key") {
  const auto problem = [](const std::string& text) {
    try {
      load_experiment(text, "x.yaml", {}, {{"allreduce", "ps", "single"}});
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(0, what.find('\n'));
    }
    return std::string("accepted");
  };
  const std::string head = "name: x\nmode: ps\n", train = head + "train:\n  steps: 1\n  data: {path: /d}\n";
  CHECK(problem(train + "  learning_rate: 1\n") ==
        "x.yaml:6:3: unknown key 'learning_rate' in train; did you mean 'train.optimizer.lr'?");
  CHECK(problem(train + "  optimizer: {learning_rate: 1}\n") ==
        "x.yaml:6:15: unknown key 'learning_rate' in train.optimizer; did you mean 'lr'?");
  CHECK(problem(train + "  batch_size: 1\n") ==
        "x.yaml:6:3: unknown key 'batch_size' in train; did you mean 'train.data.batch'?");
  CHECK(problem(train + "  note: good\n") ==
        "x.yaml:6:3: unknown key 'note' in train; did you mean 'note' of the file itself, outside of train?");
  CHECK(problem(train + "  optimizer: {type: 'Adam'}\n") ==
        "x.yaml:6:21: train.optimizer.type must be sgd, adam or adamw, not 'Adam'; did you mean 'adam'?");
  CHECK(problem(train + "  optimizer: adam\n") ==
        "x.yaml:6:14: train.optimizer must be a map, not 'adam'; write optimizer: {type: adam}");
  CHECK(problem(train + "workers: 3\n") ==
        "x.yaml:6:10: workers must be a map, not '3'; write workers: {count: 3}");
  CHECK(problem(train + "workers: {replicas: 3}\n") ==
        "x.yaml:6:11: unknown key 'replicas' in workers; did you mean 'count'?");
  CHECK(problem(train + "gpus: 3\n") ==
        "x.yaml:6:1: unknown key 'gpus'; did you mean 'workers.gpu' or 'servers.gpu'?");
  CHECK(problem(head + "run: a\ncommand: b\n") == "x.yaml:4:1: unknown key 'command'; did you mean 'run'?");
  CHECK(problem(head + "run: a\nretries: 3\n") ==
        "x.yaml:4:1: unknown key 'retries'; did you mean 'restart.retries'?");
}

TEST_CASE("a missing folder in `files:` is reported together with the other mistakes") {
  const FileContext file_context{
      .wrong_with_folder =
          [](const std::string& folder) { return folder == "good" ? "" : "there is no folder " + folder; },
      .manual = "man -l /checkout/man/mlk-experiment.5"};
  const auto load = [&](const std::string& folder, const std::string& more) {
    return load_experiment(
        "name: x\nmode: single\nrun: a\ndata: [{name: d, mount: /d, files: " + folder + "}]\n" + more,
        "x.yaml", {}, {{"single"}}, file_context);
  };
  CHECK_NOTHROW(load("good", ""));
  try {
    load("nowhere", "framework: torch\n");
    FAIL("accepted");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(what.find("x.yaml:4:29: there is no folder nowhere\n") == 0);
    CHECK(what.find("x.yaml:5:1: there is no framework 'torch'") != std::string::npos);
    CHECK(error.hint() == "`man -l /checkout/man/mlk-experiment.5` describes every key");
  }
}

}  // namespace
}  // namespace mlk
