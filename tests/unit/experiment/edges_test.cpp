// All defaults together, shortened texts, and values just beyond the limits.
#include <doctest/doctest.h>

#include "cli/experiment/check.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/suggest.h"
#include "cli/experiment/values.h"
#include "cli/yaml/yaml.h"
#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/edges");

namespace mlk {
namespace {

using nlohmann::json;
using test::load;
using test::problems_of;
using test::set;
using test::smallest;

TEST_CASE(
    "settable_keys() lists all keys except sections and maps with free content, in the order of the schema") {
  std::string all;
  for (const std::string& key : settable_keys()) all += key + " ";
  CHECK(
      all ==
      "name mode image image_pull_policy image_pull_secrets registry train.model.type train.model.weights "
      "train.model.dropout "
      "train.model.channels "
      "train.model.hidden "
      "train.model.layers train.model.width train.model.heads train.model.context "
      "train.data.path train.data.batch train.data.micro_batch train.data.format train.data.vocabulary "
      "train.optimizer.type "
      "train.optimizer.lr "
      "train.optimizer.weight_decay train.optimizer.momentum train.optimizer.nesterov train.optimizer.beta1 "
      "train.optimizer.beta2 train.optimizer.epsilon train.optimizer.clip train.optimizer.schedule.type "
      "train.optimizer.schedule.warmup train.optimizer.schedule.final train.optimizer.schedule.every "
      "train.optimizer.schedule.factor train.precision train.consistency train.steps train.epochs "
      "train.seed train.report_every train.evaluate_every train.sample.tokens train.sample.temperature "
      "train.step_delay_ms train.patience "
      "train.offline_time run args args_style framework elastic code.path code.include code.exclude "
      "code.python "
      "code.python_version code.layer workdir user workers.count "
      "workers.min workers.cpu workers.memory "
      "workers.gpu workers.processes servers.count servers.min servers.cpu servers.memory servers.gpu "
      "servers.processes env data.0.name "
      "data.0.mount data.0.read_only data.0.files data.0.pvc data.0.nfs.server data.0.nfs.path "
      "data.0.hostPath data.0.csi.driver data.0.csi.fsType data.0.csi.volumeAttributes data.0.configMap "
      "data.0.emptyDir.medium data.0.emptyDir.sizeLimit checkpoint.every checkpoint.keep "
      "checkpoint.volume.pvc checkpoint.volume.nfs.server checkpoint.volume.nfs.path "
      "checkpoint.volume.hostPath checkpoint.volume.csi.driver checkpoint.volume.csi.fsType "
      "checkpoint.volume.csi.volumeAttributes checkpoint.volume.emptyDir.medium "
      "checkpoint.volume.emptyDir.sizeLimit outputs.path outputs.to.pvc outputs.to.nfs.server "
      "outputs.to.nfs.path outputs.to.hostPath outputs.to.csi.driver outputs.to.csi.fsType "
      "outputs.to.csi.volumeAttributes metrics.port metrics.tensorboard scheduling.gang "
      "scheduling.priority scheduling.node.selector scheduling.node.tolerations.0.key "
      "scheduling.node.tolerations.0.operator scheduling.node.tolerations.0.value "
      "scheduling.node.tolerations.0.effect scheduling.node.tolerations.0.tolerationSeconds restart.retries "
      "restart.on time_limit start_timeout service_account tags note sweep.points sweep.except sweep.repeat "
      "sweep.search sweep.stop sweep.objective sweep.parallel sweep.max_failures ");
  CHECK_THROWS_WITH_AS(schema_section("nothing"), "no section nothing", std::out_of_range);
}

TEST_CASE("the smallest experiment of mode ps has exactly the expected keys and defaults") {
  const json unit = {{"count", 1}, {"cpu", "1"}, {"memory", "1Gi"}, {"gpu", 0}};
  json worker = unit;
  worker["min"] = 1;
  const json train = {{"model", {{"type", "mlp"}, {"hidden", {128}}}},
                      {"data", {{"path", "/data"}, {"batch", 32}, {"format", "idx"}}},
                      {"optimizer",
                       {{"type", "sgd"},
                        {"lr", 0.01},
                        {"weight_decay", 0.0},
                        {"momentum", 0.9},
                        {"nesterov", false},
                        {"schedule", {{"type", "constant"}, {"warmup", 0}}}}},
                      {"precision", "float32"},
                      {"consistency", "sync"},
                      {"steps", 10},
                      {"seed", 1},
                      {"report_every", 50},
                      {"evaluate_every", 500},
                      {"step_delay_ms", 0},
                      {"patience", "15m"},
                      {"offline_time", "1m"}};
  const json expected = {
      {"name", "x"},
      {"mode", "ps"},
      {"image_pull_policy", "IfNotPresent"},
      {"image_pull_secrets", json::array()},
      {"train", train},
      {"roles", {{"worker", worker}, {"server", unit}}},
      {"parameters", json::object()},
      {"env", json::object()},
      {"data", json::array()},
      {"checkpoint", {{"every", 100}, {"keep", 3}}},
      {"scheduling",
       {{"gang", "auto"}, {"node", {{"selector", json::object()}, {"tolerations", json::array()}}}}},
      {"restart", {{"retries", 3}}},
      {"start_timeout", "15m"},
      {"tags", json::array()}};
  CHECK(load(smallest, set({"mode=ps"})).effective == expected);
}

TEST_CASE("each type of optimizer and of schedule has its own keys and defaults") {
  const auto optimizer = [](const std::string& type) {
    json all = load(smallest, set({"train.optimizer.type=" + type})).effective["train"]["optimizer"];
    all.erase("schedule");
    return all;
  };
  CHECK(optimizer("adam") == json{{"type", "adam"},
                                  {"lr", 0.001},
                                  {"weight_decay", 0.0},
                                  {"beta1", 0.9},
                                  {"beta2", 0.999},
                                  {"epsilon", 1e-8}});
  CHECK(optimizer("adamw") == json{{"type", "adamw"},
                                   {"lr", 0.001},
                                   {"weight_decay", 0.01},
                                   {"beta1", 0.9},
                                   {"beta2", 0.999},
                                   {"epsilon", 1e-8}});
  const auto schedule = [](const std::string& text) {
    return load(smallest, set({"train.optimizer.schedule=" + text}))
        .effective["train"]["optimizer"]["schedule"];
  };
  CHECK(schedule("{type: linear}") == json{{"type", "linear"}, {"warmup", 0}, {"final", 0.0}});
  CHECK(schedule("{type: cosine}") == json{{"type", "cosine"}, {"warmup", 0}, {"final", 0.0}});
  CHECK(schedule("{type: step, every: 2}") ==
        json{{"type", "step"}, {"warmup", 0}, {"every", 2}, {"factor", 0.1}});
}

TEST_CASE("an empty Experiment, Role and DataEntry have their default values") {
  const Role role;
  CHECK(role.count == 1);
  CHECK(role.min == 1);
  CHECK(role.cpu == "1");
  CHECK(role.memory == "1Gi");
  CHECK(role.gpu == 0);
  CHECK(DataEntry{}.read_only);
  const Experiment nothing;
  CHECK_FALSE(nothing.has_train);
  CHECK(nothing.start_timeout == std::chrono::seconds(0));
  CHECK_FALSE(nothing.time_limit);
  CHECK(needs_image(nothing));
}

TEST_CASE("an excerpt of a long line never cuts a character") {
  const auto euros = [](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += "€";
    return out;
  };
  const auto told = [&](std::size_t column) {
    Problems problems;
    problems.add({std::make_shared<const Source>(Source{"f", euros(60)}), 0, column}, "no");
    try {
      problems.throw_if_any();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  CHECK(told(90) == "f:1:31: no\n  " + euros(34) + "\n  " + std::string(17, ' ') + "^");
  CHECK(told(174) == "f:1:59: no\n  " + euros(19) + "\n  " + std::string(17, ' ') + "^");
  CHECK(told(0) == "f:1:1: no\n  " + euros(34) + "\n  ^");
}

TEST_CASE("if a value has the wrong type, the error names the expected type") {
  const auto said = [](const std::string& argument) { return problems_of(smallest, set({argument})); };
  CHECK(said("train.steps='5'") == "--set:1:13: train.steps must be a whole number without quotes, not '5'");
  CHECK(said("train.steps=[5]") == "--set:1:13: train.steps must be a whole number, not a list");
  CHECK(said("train.steps=1.5") == "--set:1:13: train.steps must be a whole number, not '1.5'");
  CHECK(said("train.steps=99999999999999999999") ==
        "--set:1:13: train.steps must be from 1 to 1000000000000, not '99999999999999999999'");
  CHECK(said("train.optimizer.lr='1'") == "--set:1:20: train.optimizer.lr must be a number, not '1'");
  CHECK(said("train.optimizer.lr={}") == "--set:1:20: train.optimizer.lr must be a number, not a map");
  CHECK(said("train.optimizer.nesterov='true'") ==
        "--set:1:26: train.optimizer.nesterov must be true or false, not 'true'");
  CHECK(said("train.consistency=fast") ==
        "--set:1:19: train.consistency must be sync, async or {staleness: N}, not 'fast'");
  CHECK(said("train.consistency={lag: 3}") ==
        "--set:1:19: train.consistency must be sync, async or {staleness: N}, not a map");
  CHECK(said("train.consistency=[staleness]") ==
        "--set:1:19: train.consistency must be sync, async or {staleness: N}, not a list");
  CHECK(said("time_limit=0s") == "--set:1:12: time_limit must be a time such as 90s, 15m or 12h, not '0s'");
  CHECK(said("time_limit=soon") ==
        "--set:1:12: time_limit must be a time such as 90s, 15m or 12h, not 'soon'");
  CHECK(said("train.offline_time=12d") ==
        "--set:1:20: train.offline_time must be a time such as 90s, 15m or 12h, at most 1000000s, not '12d'");
  for (const char* code :
       {"0", "256", "1000", "99999999999999999999", "5-3", "1-256", "1-99999999999999999999"})
    CHECK_MESSAGE(said(std::string("restart.on=['") + code + "']") ==
                      std::string("--set:1:13: restart.on[0] must be preemption, any, an exit code from 1 to "
                                  "255 or a range of them, not '") +
                          code + "'",
                  code);
  for (const char* code : {"1", "255", "99", "100", "1-255", "7-7", "any", "preemption"})
    CHECK_MESSAGE(said(std::string("restart.on=['") + code + "']") == "accepted", code);
}

TEST_CASE("an object's name may have 253 bytes, counting its dots, but not 254") {
  std::string name;
  while (name.size() < 252) name += "a.";
  CHECK(problems_of(smallest, set({"service_account=" + name + "b"})) == "accepted");
  CHECK(problems_of(smallest, set({"service_account=" + name + "bc"}))
            .starts_with("--set:1:17: service_account must"));
}

TEST_CASE("an unknown role is one mistake, whose message suggests a role with a similar name") {
  const auto said = [](const std::string& mode, const std::string& lines) {
    return problems_of("name: x\nmode: " + mode + "\nrun: a\n" + lines);
  };
  CHECK(said("allreduce", "roles: {servr: {count: 2}}\n") ==
        "x.yaml:4:9: mode allreduce has no role 'servr'; did you mean 'server'?");
  CHECK(said("single", "roles: {chief: {count: 2}}\n") == "x.yaml:4:9: mode single has no role 'chief'");
  CHECK(said("single", "data: [{name: A, mount: a, pvc: p}, {name: B, mount: b, pvc: p}]\n") ==
        "x.yaml:4:15: data[0].name must be lower-case letters, digits and '-', a letter first, at most 40, "
        "not 'A'\n"
        "x.yaml:4:25: data[0].mount must be an absolute path without '..' or ':', not 'a'\n"
        "x.yaml:4:44: data[1].name must be lower-case letters, digits and '-', a letter first, at most 40, "
        "not 'B'\n"
        "x.yaml:4:54: data[1].mount must be an absolute path without '..' or ':', not 'b'");
  CHECK(problems_of(smallest, set({"metrics.worker=3"}))
            .starts_with("--set:1:9: unknown key 'worker' in metrics"));
}

TEST_CASE("if the file is no map, the error says 'the file'") {
  Problems problems;
  CHECK(check_section(parse_yaml("[a]", "f"), schema_section("nfs"), "", problems) == json::object());
  CHECK_THROWS_WITH(problems.throw_if_any(), "f:1:1: the file must be a map, not a list\n  [a]\n  ^");
}

TEST_CASE("mlk suggests no unsupported keys and no keys of patches") {
  CHECK(suggest_key("queue", schema_section("nfs"), "nfs") == "; it has server, path");
  CHECK(suggest_key("queue", schema_section("nfs"), "nfs") == "; it has server, path");
  CHECK(suggest_key("pod", schema_section("nfs"), "nfs") == "; it has server, path");
  CHECK(suggest_key("service", schema_section("csi"), "csi") == "; it has driver, fsType, volumeAttributes");
}

TEST_CASE("at each alias of a map, all values of the map count again against the limit of values") {
  std::string map = "{";
  for (int i = 0; i < 98; ++i) map += "k" + std::to_string(i) + ": v, ";
  std::string text = "[&a " + map + "}";
  for (int i = 0; i < 99; ++i) text += ", *a";
  CHECK_NOTHROW(parse_yaml(text + ", x]", "f"));
  CHECK_THROWS_AS(parse_yaml(text + ", x, x]", "f"), Error);
}

TEST_CASE("the place of a value is the line and the column where the value begins") {
  const YamlNode map = parse_yaml("a:\n  b\n", "f");
  CHECK(map.find("a")->place.line == 1);
  CHECK(map.find("a")->place.column == 2);
  CHECK(problems_of("a: b\n\t\nc: [d\n") == "x.yaml:2:1: a tab in the indentation; YAML allows only blanks");
}

TEST_CASE("is_number() accepts numbers of JSON, and numbers such as .5 and 1.") {
  for (const char* good : {"0", "-0", "5", "-7", ".5", "1.", "-.5", "1.50", "1e2", "1E+2", "1.5e-2", "0.0"})
    CHECK_MESSAGE(is_number(good), good);
  for (const char* bad : {"", "-", ".", "e", "e5", "1e", "1e+", "1e2x", "1ex", "+1", "01", "-01.5", "1..",
                          "1.2.3", "1x", "0x1F", "1_0"})
    CHECK_MESSAGE(!is_number(bad), bad);
}

TEST_CASE("an address with a user and a password looks like a secret even if a part is empty") {
  for (const char* bad : {"https://:p@h", "https://u:p@/x", "a://u:@h"})
    CHECK_MESSAGE(looks_like_secret(bad), bad);
  for (const char* good : {"file:///u:p@h", "https://u@h:80/", "https://h:80/a@b", "u:p@h"})
    CHECK_MESSAGE(!looks_like_secret(good), good);
}

}  // namespace
}  // namespace mlk
