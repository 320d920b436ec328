// The accepted values of each type, and the errors for other values.
#include <doctest/doctest.h>

#include "cli/experiment/values.h"
#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/value_types");

namespace mlk {
namespace {

using nlohmann::json;
using test::contains;

// The error for `line` at the end of a small experiment with `run:`.
std::string of_line(const std::string& line) {
  return test::problems_of("name: x\nmode: mine\nrun: a\n" + line + "\n");
}

struct Row {
  std::string line, said;
};

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) CHECK_MESSAGE(of_line(row.line) == row.said, row.line);
}

TEST_CASE("a key of type `text` accepts any scalar except empty text") {
  check_rows(
      {{"note: 5", "accepted"},
       {"note: true", "accepted"},
       {"note: \"\"", "x.yaml:4:7: note must be text, not ''"},
       {"note: [a]", "x.yaml:4:7: note must be text, not a list"},
       {"note: {a: b}", "x.yaml:4:7: note must be text, not a map"},
       {"tags: [a, \"\"]", "x.yaml:4:11: tags[1] must be text, not ''"},
       {"tags: {a: b}", "x.yaml:4:7: tags must be a list of text, not a map"},
       {"data: [{name: a, mount: /a, files: \"\"}]", "x.yaml:4:36: data[0].files must be a folder, not ''"},
       {"image_pull_secrets: [a, B]",
        "x.yaml:4:25: image_pull_secrets[1] must be the name of a Kubernetes object, not 'B'"},
       {"image_pull_secrets: a", "x.yaml:4:21: image_pull_secrets must be a list of names, not 'a'"}});
}

TEST_CASE("keys for numbers and booleans refuse values in quotes") {
  check_rows(
      {{"restart: {retries: '1'}",
        "x.yaml:4:20: restart.retries must be a whole number without quotes, not '1'"},
       {"restart: {retries: 1.0}", "x.yaml:4:20: restart.retries must be a whole number, not '1.0'"},
       {"restart: {retries: [1]}", "x.yaml:4:20: restart.retries must be a whole number, not a list"},
       {"metrics: {tensorboard: yes}", "x.yaml:4:24: metrics.tensorboard must be true or false, not 'yes'"},
       {"metrics: {tensorboard: 'true'}",
        "x.yaml:4:24: metrics.tensorboard must be true or false, not 'true'"},
       {"metrics: {tensorboard: False}", "accepted"}});
  CHECK(contains(test::refusal(test::smallest, test::set({"train.optimizer.lr='1'"})),
                 "train.optimizer.lr must be a number, not '1'"));
  for (const char* large : {"9223372036854775808", "18446744073709551615", "18446744073709551616"})
    CHECK(contains(test::refusal(test::smallest, test::set({std::string("train.steps=") + large})),
                   "train.steps must be"));
  CHECK(test::load(test::smallest, test::set({"train.optimizer.lr=1"}))
            .effective["train"]["optimizer"]["lr"]
            .is_number_float());
}

TEST_CASE("a command is a text that is not blank, or a list of at least one word") {
  const auto with = [](const std::string& run) {
    return test::problems_of("name: x\nmode: single\nrun: " + run + "\n");
  };
  CHECK(with("[\"\"]") == "accepted");
  CHECK(with("\" \"") == "x.yaml:3:6: run must be a command or a list of its words, not ' '");
  CHECK(with("[]") == "x.yaml:3:6: run must be a command or a list of its words, not a list");
  CHECK(with("{a: b}") == "x.yaml:3:6: run must be a command or a list of its words, not a map");
  CHECK(with("[a, [b]]") == "x.yaml:3:10: run must be a list of words, not a list");
}

TEST_CASE("a $ is escaped for Kubernetes in a text command, but not in a list of words") {
  CHECK(test::load("name: x\nmode: single\nrun: echo $HOME $(ls) 5$\n").command ==
        std::vector<std::string>{"sh", "-c", "echo $$HOME $$(ls) 5$$"});
  CHECK(test::load("name: x\nmode: single\nrun: [echo, $(MLK_RANK), $$]\n").command ==
        std::vector<std::string>{"echo", "$(MLK_RANK)", "$$"});
}

TEST_CASE("`consistency` accepts sync, async or {staleness: N}") {
  const auto with = [](const std::string& value) {
    return test::problems_of("name: x\nmode: ps\ntrain: {data: {path: /d}, steps: 1, consistency: " + value +
                             "}\n");
  };
  for (const char* good : {"sync", "async", "{staleness: 0}"}) CHECK_MESSAGE(with(good) == "accepted", good);
  for (const char* bad : {"{}", "{staleness: 1, a: b}", "{stale: 1}", "[sync]"})
    CHECK_MESSAGE(contains(with(bad), "train.consistency must be sync, async or {staleness: N}, not a "),
                  bad);
  CHECK(with("{staleness: x}") == "x.yaml:3:62: train.consistency.staleness must be a whole number, not 'x'");
}

TEST_CASE("a retry rule is `preemption`, `any`, an exit code or a range of codes") {
  for (const char* good : {"preemption", "any", "1", "255", "1-255", "3-3"})
    CHECK_MESSAGE(of_line(std::string("restart: {on: [") + good + "]}") == "accepted", good);
  for (const char* bad :
       {"0", "256", "0-1", "255-256", "3-2", "1-2-3", "-1", "1-", "-", "Any", "01", "2555"}) {
    CHECK_MESSAGE(
        of_line(std::string("restart: {on: ['") + bad + "']}") ==
            std::string("x.yaml:4:16: restart.on[0] must be preemption, any, an exit code from 1 to 255 or "
                        "a range of them, not '") +
                bad + "'",
        bad);
  }
  CHECK(of_line("restart: {on: any}") ==
        "x.yaml:4:15: restart.on must be a list such as [preemption, \"128-255\"], not 'any'");
}

TEST_CASE("the name of a variable has letters, digits and _, but no digit at the beginning") {
  for (const char* good : {"a", "_", "A1", "a_b", "ML_K", "XMLK_"})
    CHECK_MESSAGE(of_line(std::string("env: {") + good + ": b}") == "accepted", good);
  for (const char* bad : {"1a", "a-b", "a.b", "ä", "\"\""})
    CHECK_MESSAGE(contains(of_line(std::string("env: {") + bad + ": b}"), "cannot be the name of a variable"),
                  bad);
  check_rows({{"env: {MLK_: b}", "x.yaml:4:7: MLK_: variables that begin with MLK_ are mlk's own"},
              {"env: 5", "x.yaml:4:6: env must be a map of variables, not '5'"},
              {"env: {A: [b]}",
               "x.yaml:4:10: env.A must be text or {secret: name/key}; empty text is \"\", not a list"}});
}

TEST_CASE("a variable refers to a key of a Secret as name/key") {
  const std::string long_key(253, 'k');
  for (const std::string& good : {std::string("a/b"), std::string("a.b-1/K_e-y.1"), "a/" + long_key})
    CHECK_MESSAGE(of_line("env: {A: {secret: " + good + "}}") == "accepted", good);
  for (const std::string& bad :
       {std::string("a"), std::string("a/"), std::string("/b"), std::string("a/b/c"), std::string("A/b"),
        std::string("a/b c"), std::string("a/b+"), "a/k" + long_key})
    CHECK_MESSAGE(contains(of_line("env: {A: {secret: " + bad + "}}"),
                           "x.yaml:4:19: env.A.secret must be name/key: a Secret and a key in it, not '"),
                  bad);
  for (const char* bad : {"{}", "{secrets: a/b}", "{secret: a/b, c: d}"})
    CHECK_MESSAGE(of_line(std::string("env: {A: ") + bad + "}") ==
                      "x.yaml:4:10: env.A must be text or {secret: name/key}",
                  bad);
  CHECK(test::load("name: x\nmode: mine\nrun: a\nenv: {A: {secret: s/k}}\n").effective["env"] ==
        json{{"A", {{"secret", "s/k"}}}});
}

TEST_CASE("a variable that is named like a secret may have a number, `true` or empty text as its value") {
  for (const char* good : {"5", "1.5", "true", "\"\""})
    CHECK_MESSAGE(of_line(std::string("env: {MAX_TOKEN: ") + good + "}") == "accepted", good);
  for (const char* bad : {"a", "'5'", "yes"})
    CHECK_MESSAGE(contains(of_line(std::string("env: {MAX_TOKEN: ") + bad + "}"),
                           "x.yaml:4:7: MAX_TOKEN looks like a secret"),
                  bad);
  CHECK(contains(test::refusal(test::smallest, {.set = {}, .env = {"MAX_TOKEN=5"}, .image = ""}),
                 "-e:1:1: MAX_TOKEN looks like a secret"));
}

TEST_CASE("`patch.pod` is a map of any values, and `scheduling.node.selector` is a map of texts") {
  check_rows({{"patch: {pod: {a: [1, {b: c}]}}", "accepted"},
              {"patch: {pod: a}", "x.yaml:4:14: patch.pod must be a map, not 'a'"},
              {"patch: {pod:}", "x.yaml:4:13: patch.pod has no value; it must be a map"},
              {"scheduling: {node: {selector: {a: \"\", b: 1}}}", "accepted"},
              {"scheduling: {node: {selector: {a: {}}}}",
               "x.yaml:4:35: scheduling.node.selector.a must be text, not a map"},
              {"workers: {patch: {service: {}}}",
               "x.yaml:4:19: unknown key 'service' in workers.patch; it has pod, job"}});
  CHECK(test::load("name: x\nmode: mine\nrun: a\npatch: {pod: {a: 1, b: '1'}}\n").effective["patch"]["pod"] ==
        json{{"a", 1}, {"b", "1"}});
  CHECK(test::load("name: x\nmode: mine\nrun: a\nscheduling: {node: {selector: {a: 1}}}\n")
            .effective["scheduling"]["node"]["selector"] == json{{"a", "1"}});
}

TEST_CASE("describe() quotes at most 40 bytes of the first line of a value") {
  const std::string forty(40, 'b');
  const auto described = [](const std::string& text) {
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.text = text;
    return describe(node);
  };
  CHECK(described("a") == "'a'");
  CHECK(described(forty) == "'" + forty + "'");
  CHECK(described(forty + "c") == "'" + forty + "...'");
  CHECK(described("") == "''");
  CHECK(described(forty + "\nc") == "'" + forty + "...'");
  CHECK(described("a\nb") == "'a...'");
  CHECK(described("\nb") == "'...'");
  CHECK(described(std::string(39, 'a') + "äb") == "'" + std::string(39, 'a') + "...'");
  CHECK(described(std::string(38, 'a') + "äb") == "'" + std::string(38, 'a') + "ä...'");
  CHECK(described(std::string(38, 'a') + "€b") == "'" + std::string(38, 'a') + "...'");
  CHECK(described("ghp_0123456789abcdef0123") == "this");
  YamlNode node;
  CHECK(describe(node) == "nothing");
  node.kind = YamlNode::Kind::list;
  CHECK(describe(node) == "a list");
  node.kind = YamlNode::Kind::map;
  CHECK(describe(node) == "a map");
}

}  // namespace
}  // namespace mlk
