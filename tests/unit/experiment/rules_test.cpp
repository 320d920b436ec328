// Combinations of keys that are refused, and similar combinations that are accepted.
#include <doctest/doctest.h>

#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/rules");

namespace mlk {
namespace {

using nlohmann::json;
using test::contains;
using test::load;
using test::problems_of;

constexpr char train[] = "train: {data: {path: /d}, steps: 10}\n";

std::string in_mode(const std::string& mode, const std::string& lines) {
  return problems_of("name: x\nmode: " + mode + "\n" + lines);
}

TEST_CASE("`train` needs a built-in mode, and `parameters` needs a job type that the user has defined") {
  CHECK(in_mode("mine", train) ==
        "x.yaml:3:1: train needs mode single, ps or allreduce; a job type of your own needs run");
  CHECK(in_mode("mine", "run: a\nparameters: {a: 1}\nroles: {chief: {}, server: {count: 3, min: 2}}\n") ==
        "accepted");
  CHECK(load("name: x\nmode: mine\nrun: a\nroles: {chief: {}}\n").roles.size() == 1);
  CHECK(load("name: x\nmode: mine\nrun: a\nroles: {server: {count: 3}}\n").roles.at("server").min == 3);
  for (const char* mode : {"single", "allreduce", "ps"}) {
    CHECK(in_mode(mode, "run: a\nparameters: {a: 1}\n") ==
          std::string("x.yaml:4:1: mode ") + mode + " has no parameters");
    CHECK(in_mode(mode, "run: a\nparameters: {}\n") == "accepted");
    CHECK(in_mode(mode, train) == "accepted");
  }
}

TEST_CASE("`framework` and `workdir` are refused if the file has `train`") {
  CHECK(in_mode("single", "run: a\nframework: none\nworkdir: /a\n") == "accepted");
  CHECK(in_mode("single", std::string(train) + "framework: none\n") ==
        "x.yaml:4:1: framework is for run; train has no use for it");
  CHECK(in_mode("single", std::string(train) + "workdir: /a\n") ==
        "x.yaml:4:1: workdir is for run; train has no use for it");
}

TEST_CASE("a role is refused if the mode has no role of this name") {
  CHECK(in_mode("mine", "run: a\nroles: {abcdefghij: {}}\n") == "accepted");
  CHECK(in_mode("mine", "run: a\nroles: {abcdefghijk: {}}\n") ==
        "x.yaml:4:9: 'abcdefghijk' cannot be the name of a role: lower-case letters, digits and '-', at most "
        "10");
  CHECK(in_mode("ps", "run: a\nroles: {worker: {}, server: {}}\n") == "accepted");
  CHECK(in_mode("allreduce", "run: a\nroles: {server: {}}\n") ==
        "x.yaml:4:9: mode allreduce has no role 'server'");
  CHECK(in_mode("single", "run: a\nroles: {wroker: {}}\n") ==
        "x.yaml:4:9: mode single has no role 'wroker'; did you mean 'worker'?");
  CHECK(in_mode("ps", "run: a\nservers: {}\nroles: {server: {}}\n") ==
        "x.yaml:4:1: servers and roles.server are the same; give one of them");
}

TEST_CASE("the count of a role is refused outside of the bounds of its mode") {
  CHECK(in_mode("single", "run: a\nworkers: {count: 1}\n") == "accepted");
  CHECK(in_mode("single", "run: a\nroles: {worker: {count: 2}}\n") ==
        "x.yaml:4:18: mode single has one worker; several need mode allreduce or ps");
  CHECK(in_mode("allreduce", "run: a\nworkers: {count: 2, min: 2}\n") == "accepted");
  CHECK(in_mode("allreduce", "run: a\nroles: {worker: {count: 2, min: 3}}\n") ==
        "x.yaml:4:28: roles.worker.min is 3, but roles.worker.count is 2");
  CHECK(in_mode("ps", std::string(train) + "servers: {count: 64}\n") == "accepted");
  CHECK(in_mode("ps", std::string(train) + "servers: {count: 65}\n") ==
        "x.yaml:4:11: the runtime has at most 64 servers");
  CHECK(in_mode("ps", "run: a\nservers: {count: 65}\n") == "accepted");
  CHECK(in_mode("ps", "run: a\nroles: {server: {min: 1}}\n") ==
        "x.yaml:4:18: roles.server.min has no meaning: the parameters lie on all servers");
  const json roles = load("name: x\nmode: ps\nrun: a\nworkers: {count: 3}\n").effective["roles"];
  CHECK(roles == json{{"worker", {{"count", 3}, {"min", 3}, {"cpu", "1"}, {"memory", "1Gi"}, {"gpu", 0}}},
                      {"server", {{"count", 1}, {"cpu", "1"}, {"memory", "1Gi"}, {"gpu", 0}}}});
}

TEST_CASE("the mode limits the GPUs of a worker that trains: 1 for `single`, 16 for the other modes") {
  CHECK(in_mode("single", std::string(train) + "workers: {gpu: 1}\n") == "accepted");
  CHECK(in_mode("single", std::string(train) + "workers: {gpu: 2}\n") ==
        "x.yaml:4:11: mode single computes with one GPU; several need mode allreduce or ps");
  CHECK(in_mode("allreduce", std::string(train) + "workers: {gpu: 16}\n") == "accepted");
  CHECK(in_mode("allreduce", std::string(train) + "workers: {gpu: 17}\n") ==
        "x.yaml:4:11: a worker computes with 16 GPUs at most; more workers use more GPUs");
  CHECK(in_mode("single", "run: a\nworkers: {gpu: 64}\n") == "accepted");
  CHECK(contains(in_mode("single", "run: a\nworkers: {gpu: 65}\n"), "must be from 0 to 64, not '65'"));
}

TEST_CASE("a value that the schema has refused gives no further mistake") {
  CHECK(in_mode("single", "run: a\nworkers: {count: many, min: 5}\n") ==
        "x.yaml:4:18: workers.count must be a whole number, not 'many'");
  CHECK(in_mode("nonsense", "run: a\nparameters: {a: 1}\nworkers: {count: 3}\nroles: {chief: {}}\n") ==
        "x.yaml:2:1: there is no job type 'nonsense'; there are allreduce, mine, ps, single");
  CHECK(in_mode("[a]", "run: a\nparameters: {a: 1}\n") == "x.yaml:2:7: mode must be text, not a list");
  CHECK(in_mode("single", "run: a\ndata: [5]\n") == "x.yaml:4:8: data[0] must be a map, not '5'");
  CHECK(in_mode("single", "run: a\ncheckpoint: {volume: 5}\n") ==
        "x.yaml:4:22: checkpoint.volume must be a map, not '5'");
  CHECK(in_mode("single", "train: 5\n") == "x.yaml:3:8: train must be a map, not '5'");
}

TEST_CASE("train.consistency must be sync in every mode except ps") {
  const std::string head = "train: {data: {path: /d}, steps: 10, consistency: ";
  for (const char* mode : {"single", "allreduce"}) {
    CHECK(in_mode(mode, head + "sync}\n") == "accepted");
    CHECK(in_mode(mode, head + "async}\n") ==
          std::string("x.yaml:3:38: only mode ps has a choice of consistency; mode ") + mode +
              " is always sync");
  }
  CHECK(in_mode("ps", head + "async}\n") == "accepted");
}

TEST_CASE("`warmup` must be less than `train.steps`, and `nesterov` needs a momentum above 0") {
  const auto with = [](const std::string& length, const std::string& optimizer) {
    return in_mode("single", "train: {data: {path: /d}, " + length + ", optimizer: {" + optimizer + "}}\n");
  };
  CHECK(with("steps: 10", "schedule: {warmup: 9}") == "accepted");
  CHECK(with("steps: 10", "schedule: {warmup: 10}") ==
        "x.yaml:3:61: train.optimizer.schedule.warmup is 10, but train.steps is 10: it would never end");
  CHECK(with("epochs: 1", "schedule: {warmup: 10}") == "accepted");
  CHECK(with("steps: 10", "nesterov: true, momentum: 0.1") == "accepted");
  CHECK(with("steps: 10", "nesterov: false, momentum: 0") == "accepted");
  CHECK(with("steps: 10", "nesterov: true, momentum: 0") ==
        "x.yaml:3:50: train.optimizer.nesterov needs a momentum above 0");
}

TEST_CASE("`train.sample` needs the model type `gpt` and the key `tokens`") {
  const auto with = [](const std::string& rest) {
    return problems_of("name: x\nmode: single\ntrain: {data: {path: /d}, steps: 10, " + rest + "}\n");
  };
  CHECK(with("model: {type: gpt}, sample: {tokens: 5}") == "accepted");
  CHECK(with("sample: {tokens: 5}") ==
        "x.yaml:3:38: train.sample needs train.model.type gpt: no other model goes on with tokens");
  CHECK(with("model: {type: gpt}, sample: {temperature: 1}").find("train.sample.tokens is missing") !=
        std::string::npos);
}

TEST_CASE("each type of model has its own defaults for the model and for the data") {
  const auto of = [](const std::string& model, const std::string& data) {
    return load("name: x\nmode: single\ntrain: {model: {" + model + "}, data: {path: /d" + data +
                "}, steps: 10}\n")
        .effective["train"];
  };
  CHECK(of("", "")["model"] == json{{"type", "mlp"}, {"hidden", {128}}});
  CHECK(of("", "")["data"]["format"] == "idx");
  CHECK(of("type: cnn", "")["model"] == json{{"type", "cnn"}, {"channels", {32, 64}}, {"hidden", {128}}});
  CHECK(of("type: gpt", "")["model"] ==
        json{{"type", "gpt"}, {"layers", 12}, {"width", 768}, {"heads", 12}, {"context", 1024}});
  CHECK(of("type: gpt", "")["data"] == json{{"path", "/d"}, {"batch", 32}, {"format", "text"}});
  CHECK(of("type: gpt", ", format: tokens")["data"]["vocabulary"] == 50257);
}

TEST_CASE("a model is refused if its sizes are inconsistent or its data is unsuitable") {
  const auto with = [](const std::string& model, const std::string& data) {
    return in_mode("single", "train: {data: {path: /d" + data + "}, steps: 10, model: {" + model + "}}\n");
  };
  CHECK(with("layers: 2", "") == "x.yaml:3:46: train.model.layers is for gpt; mlp has no use for it");
  CHECK(with("type: gpt, hidden: [8]", "") ==
        "x.yaml:3:57: train.model.hidden is for mlp and cnn; gpt has no use for it");
  CHECK(with("type: gpt", ", format: idx") ==
        "x.yaml:3:26: train.data.format must be text or tokens: train.model.type is gpt");
  CHECK(with("", ", format: text") == "x.yaml:3:26: train.data.format text needs train.model.type gpt");
  CHECK(with("type: gpt", ", vocabulary: 9") ==
        "x.yaml:3:26: train.data.vocabulary is for tokens; text has no use for it");
  CHECK(with("type: gpt, heads: 5", "") ==
        "x.yaml:3:38: train.model.width must be a multiple of train.model.heads, which is 5");
  CHECK(with("type: gpt, heads: 5, width: 10", "") == "accepted");
  CHECK(with("type: gpt", ", batch: 16384") == "accepted");
  CHECK(with("type: gpt", ", batch: 16385") ==
        "x.yaml:3:26: train.data.batch times train.model.context must be at most 16777216 tokens");
  CHECK(with("type: gpt", ", batch: 16385, micro_batch: 16384") == "accepted");
  CHECK(with("type: gpt", ", batch: 20000, micro_batch: 16385") ==
        "x.yaml:3:40: train.data.micro_batch times train.model.context must be at most 16777216 tokens");
  CHECK(with("", ", batch: 8, micro_batch: 8") == "accepted");
  CHECK(with("", ", batch: 8, micro_batch: 9")
            .ends_with("train.data.micro_batch is 9, but train.data.batch is 8"));
  CHECK(with("type: cnn, hidden: []", ", format: cifar10") == "accepted");
  CHECK(with("channels: [8]", "") == "x.yaml:3:46: train.model.channels is for cnn; mlp has no use for it");
  CHECK(with("type: cnn, channels: []", "") ==
        "x.yaml:3:57: train.model.channels must name at least one convolution");
  CHECK(with("type: gtp", "").find("did you mean 'gpt'?") != std::string::npos);
}

TEST_CASE("if a key belongs to another optimizer, the error lists the types that have this key") {
  const auto with = [](const std::string& optimizer) {
    return in_mode("single", "train: {data: {path: /d}, steps: 10, optimizer: {" + optimizer + "}}\n");
  };
  const auto refused = [](const std::string& key, const std::string& types, const std::string& own) {
    return "x.yaml:3:61: train.optimizer." + key + " is for " + types + "; " + own + " has no use for it";
  };
  CHECK(with("type: sgd, beta1: 0.5") == refused("beta1", "adam and adamw", "sgd"));
  CHECK(with("type: sgd, beta2: 0.5") == refused("beta2", "adam and adamw", "sgd"));
  CHECK(with("type: sgd, epsilon: 0.5") == refused("epsilon", "adam and adamw", "sgd"));
  CHECK(with("type: adamw, nesterov: false").find("is for sgd; adamw has no use for it") !=
        std::string::npos);
  CHECK(with("type: adamw, lr: 1, weight_decay: 0, beta1: 0, beta2: 0, epsilon: 1") == "accepted");
  CHECK(with("schedule: {final: 0}").find("is for linear and cosine; constant has no use for it") !=
        std::string::npos);
  CHECK(with("schedule: {type: linear, factor: 0.5}").find("is for step; linear has no use for it") !=
        std::string::npos);
  CHECK(with("schedule: {type: step}").find("train.optimizer.schedule.every is missing: step needs it") !=
        std::string::npos);
}

TEST_CASE("a mount of data is refused if it overlaps a mount of the system or of mlk") {
  for (const char* taken : {"/", "/etc", "/etc/mlk", "/etc/mlk/x", "/mlk", "/mlk/x", "/dev", "/dev/shm",
                            "/proc", "/proc/1", "/sys", "/sys/x"}) {
    CHECK_MESSAGE(
        in_mode("single", "run: a\ndata: [{name: a, mount: " + std::string(taken) + ", pvc: a}]\n") ==
            "x.yaml:4:18: " + std::string(taken) + " cannot be a mount: it is the system's or mlk's own",
        taken);
  }
  for (const char* free : {"/etc/mlkx", "/etc/x", "/mlkx", "/devx", "/process", "/system", "/data"}) {
    CHECK_MESSAGE(in_mode("single", "run: a\ndata: [{name: a, mount: " + std::string(free) +
                                        ", pvc: a}]\n") == "accepted",
                  free);
  }
}

TEST_CASE("a volume must have exactly one source") {
  const auto data = [](const std::string& source) {
    return in_mode("single", "run: a\ndata: [{name: a, mount: /a" + source + "}]\n");
  };
  for (const char* source : {"files: f", "pvc: a", "nfs: {server: s, path: /p}", "hostPath: /p",
                             "csi: {driver: d}", "configMap: c", "emptyDir: {}"}) {
    CHECK_MESSAGE(data(std::string(", ") + source) == "accepted", source);
    CHECK_MESSAGE(
        data(std::string(", ") + source + (std::string(source) == "pvc: a" ? ", files: f" : ", pvc: a"))
                .find("data[0] names several volumes (") != std::string::npos,
        source);
  }
  CHECK(
      data("").find("data[0] names no volume: one of files, pvc, nfs, hostPath, csi, configMap, emptyDir") !=
      std::string::npos);
  CHECK(data(", files: f, read_only: true") == "accepted");
  CHECK(data(", files: f, read_only: false") ==
        "x.yaml:4:39: files that travel with the run are always read-only");
  CHECK(data(", pvc: f, read_only: false") == "accepted");
  const auto checkpoint = [](const std::string& source) {
    return in_mode("single", "run: a\ncheckpoint: {volume: {" + source + "}}\n");
  };
  for (const char* source :
       {"pvc: a", "nfs: {server: s, path: /p}", "hostPath: /p", "csi: {driver: d}", "emptyDir: {}"})
    CHECK_MESSAGE(checkpoint(source) == "accepted", source);
  CHECK(checkpoint("files: f").find("unknown key 'files' in checkpoint.volume") != std::string::npos);
}

TEST_CASE("the error for a missing key explains the key") {
  const auto data = [](const std::string& source) {
    return in_mode("single", "run: a\ndata: [{" + source + "}]\n");
  };
  CHECK(data("mount: /a, pvc: p") == "x.yaml:4:8: data[0].name is missing: names the volume");
  CHECK(data("name: a, pvc: p") == "x.yaml:4:8: data[0].mount is missing: where the pods see it");
  CHECK(data("name: a, mount: /a, nfs: {}") ==
        "x.yaml:4:34: data[0].nfs.server is missing: host name or address\n"
        "x.yaml:4:34: data[0].nfs.path is missing: exported folder");
  CHECK(data("name: a, mount: /a, csi: {}") ==
        "x.yaml:4:34: data[0].csi.driver is missing: name of the driver");
  CHECK(in_mode("single", "train: {steps: 1}\n") == "x.yaml:3:8: train.data is missing: the data set");
  CHECK(in_mode("single", "train: {steps: 1, data: {}}\n") ==
        "x.yaml:3:25: train.data.path is missing: folder with the data set, as the pods see it");
}

TEST_CASE("`checkpoint.keep` is refused if the file has no `train`") {
  CHECK(in_mode("single", "run: a\ncheckpoint: {keep: 1}\n") ==
        "x.yaml:4:14: checkpoint.keep is for train: a program of yours saves when it likes");
  CHECK(load("name: x\nmode: single\nrun: a\n").effective["checkpoint"] == json::object());
  CHECK(load(std::string("name: x\nmode: single\n") + train).effective["checkpoint"] ==
        json{{"every", 100}, {"keep", 3}});
  const std::string own = "servers: {count: 2}\ncheckpoint: {volume: {emptyDir: {}}}\n";
  CHECK(in_mode("ps", "run: a\n" + own) == "accepted");
  CHECK(in_mode("ps", train + own) != "accepted");
  CHECK(in_mode("ps", train + std::string("servers: {count: 2}\ncheckpoint: {volume: {pvc: a}}\n")) ==
        "accepted");
}

TEST_CASE("metrics.port cannot be the port of the peers, and metrics.tensorboard needs checkpoint.volume") {
  for (const char* port : {"7069", "7071"})
    CHECK(in_mode("single", std::string("run: a\nmetrics: {port: ") + port + "}\n") == "accepted");
  CHECK(in_mode("single", "run: a\nmetrics: {port: 7070}\n") ==
        "x.yaml:4:11: metrics.port cannot be 7070: peers talk to each other there");
  CHECK(in_mode("single", "run: a\nmetrics: {tensorboard: true}\n").find("needs checkpoint.volume") !=
        std::string::npos);
  CHECK(in_mode("single", "run: a\nmetrics: {tensorboard: true}\ncheckpoint: {volume: {pvc: a}}\n") ==
        "accepted");
  CHECK(in_mode("single", "run: a\nmetrics: {tensorboard: false}\n") == "accepted");
}

TEST_CASE("each mistake in a toleration is reported at its place") {
  const auto with = [](const std::string& tolerations) {
    return in_mode("single", "run: a\nscheduling: {node: {tolerations: [" + tolerations + "]}}\n");
  };
  CHECK(with("{operator: Exists}, {key: a, operator: Exists, tolerationSeconds: 5}") == "accepted");
  CHECK(with("{key: a}, {operator: Equal}") ==
        "x.yaml:4:45: a toleration without a key needs operator: Exists");
  CHECK(with("{key: a}, {key: b, operator: Exists, value: c}") ==
        "x.yaml:4:72: a toleration with operator: Exists has no value");
  CHECK(with("{operator: Exists, value: c}") ==
        "x.yaml:4:54: a toleration with operator: Exists has no value");
}

TEST_CASE("load_experiment() stores the values of the file in the fields of Experiment") {
  const Experiment x = load(
      "name: a-b\nmode: ps\nimage: i:1\nrun: [a]\nworkers: {count: 3, min: 2, cpu: 250m, memory: 4Gi, gpu: "
      "5}\n"
      "data: [{name: d, mount: /d, files: f}, {name: e, mount: /e, pvc: p, read_only: false}]\n"
      "time_limit: 2h\nstart_timeout: 90s\n");
  CHECK(x.name == "a-b");
  CHECK(x.mode == "ps");
  CHECK(x.image == "i:1");
  CHECK_FALSE(needs_image(x));
  CHECK_FALSE(x.has_train);
  const Role& worker = x.roles.at("worker");
  CHECK(worker.count == 3);
  CHECK(worker.min == 2);
  CHECK(worker.cpu == "250m");
  CHECK(worker.memory == "4Gi");
  CHECK(worker.gpu == 5);
  REQUIRE(x.data.size() == 2);
  CHECK(x.data[0].name == "d");
  CHECK(x.data[0].mount == "/d");
  CHECK(x.data[0].files == "f");
  CHECK(x.data[0].read_only);
  CHECK(x.data[1].files == "");
  CHECK_FALSE(x.data[1].read_only);
  CHECK(x.time_limit == std::chrono::hours(2));
  CHECK(x.start_timeout == std::chrono::seconds(90));
}

}  // namespace
}  // namespace mlk
