// The smallest and the largest value of every key that has bounds, and the words of every choice.
#include <doctest/doctest.h>

#include "cli/experiment/values.h"
#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/bounds");

namespace mlk {
namespace {

using test::contains;

constexpr char host[] =
    "name: x\nmode: ps\ntrain: {data: {path: /d}, epochs: 10}\nworkers: {count: 5000}\n"
    "data: [{name: a, mount: /a, emptyDir: {}}]\n";

std::string with(const std::string& argument) { return test::problems_of(host, test::set({argument})); }

struct Bounds {
  std::string key;  // the text before the value, in the form of --set
  std::string below, low, high, above;
  std::string words;
  std::string end = {};  // the text after the value
};

TEST_CASE(
    "a key whose value is a number accepts the smallest and the largest allowed value, and none beyond "
    "these") {
  const Bounds table[] = {
      {"train.epochs=", "0", "1", "1000000", "1000001", "from 1 to 1000000"},
      {"train={data: {path: /d}, steps: ", "0", "1", "1000000000000", "1000000000001",
       "from 1 to 1000000000000", "}"},
      {"train.seed=", "-1", "0", "9007199254740991", "9007199254740992", "from 0 to 9007199254740991"},
      {"train.report_every=", "0", "1", "1000000000", "1000000001", "from 1 to 1000000000"},
      {"train.evaluate_every=", "-1", "0", "1000000000", "1000000001", "from 0 to 1000000000"},
      {"train.step_delay_ms=", "-1", "0", "60000", "60001", "from 0 to 60000"},
      {"train.model.hidden=[", "0", "1", "65536", "65537", "from 1 to 65536", "]"},
      {"train.data.batch=", "0", "1", "1000000", "1000001", "from 1 to 1000000"},
      {"train.optimizer.lr=", "0", "1e-30", "1000000", "1000000.5", "above 0 and at most 1000000"},
      {"train.optimizer.weight_decay=", "-0.1", "0", "1", "1.1", "from 0 to 1"},
      {"train.optimizer.momentum=", "-0.1", "0", "0.999", "1", "from 0 to below 1"},
      {"train.optimizer={type: adam, beta1: ", "-0.1", "0", "0.999", "1", "from 0 to below 1", "}"},
      {"train.optimizer={type: adam, beta2: ", "-0.1", "0", "0.9999", "1", "from 0 to below 1", "}"},
      {"train.optimizer={type: adam, epsilon: ", "1e-31", "1e-30", "1", "1.1", "from 1e-30 to 1", "}"},
      {"train.optimizer.schedule.warmup=", "-1", "0", "1000000000000", "1000000000001",
       "from 0 to 1000000000000"},
      {"train.optimizer.schedule={type: linear, final: ", "-0.1", "0", "1", "1.1", "from 0 to 1", "}"},
      {"train.optimizer.schedule={type: step, every: ", "0", "1", "1000000000000", "1000000000001",
       "from 1 to 1000000000000", "}"},
      {"train.optimizer.schedule={type: step, every: 1, factor: ", "0", "0.001", "0.999", "1",
       "above 0 and below 1", "}"},
      {"train.model={type: gpt, layers: ", "0", "1", "1000", "1001", "from 1 to 1000", "}"},
      {"train.model={type: gpt, heads: 1, width: ", "0", "1", "65536", "65537", "from 1 to 65536", "}"},
      {"train.model={type: gpt, width: 65536, heads: ", "0", "1", "65536", "65537", "from 1 to 65536", "}"},
      {"train.model={type: gpt, context: ", "0", "1", "65536", "65537", "from 1 to 65536", "}"},
      {"train.optimizer.clip=", "0", "0.001", "1000000", "1000001", "above 0 and at most 1000000"},
      {"train.consistency={staleness: ", "-1", "0", "1000000", "1000001", "from 0 to 1000000", "}"},
      {"workers.count=", "0", "1", "5000", "5001", "from 1 to 5000"},
      {"workers.min=", "0", "1", "5000", "5001", "from 1 to 5000"},
      {"checkpoint.every=", "-1", "0", "1000000000", "1000000001", "from 0 to 1000000000"},
      {"checkpoint.keep=", "0", "1", "10000", "10001", "from 1 to 10000"},
      {"metrics.port=", "1023", "1024", "65535", "65536", "from 1024 to 65535"},
      {"scheduling.node.tolerations=[{key: a, tolerationSeconds: ", "-1", "0", "1000000000", "1000000001",
       "from 0 to 1000000000", "}]"},
      {"restart.retries=", "-1", "0", "100", "101", "from 0 to 100"},
  };
  for (const Bounds& row : table) {
    INFO(row.key);
    CHECK(with(row.key + row.low + row.end) == "accepted");
    CHECK(with(row.key + row.high + row.end) == "accepted");
    for (const std::string& bad : {row.below, row.above})
      CHECK(contains(with(row.key + bad + row.end), " must be " + row.words + ", not '" + bad + "'"));
  }
}

TEST_CASE("the error for a wrong choice lists all words that are accepted") {
  const std::pair<std::string, std::vector<std::string>> table[] = {
      {"image_pull_policy", {"IfNotPresent", "Always", "Never"}},
      {"train.precision", {"float32", "bfloat16", "tf32"}},
      {"train.model.type", {"mlp", "cnn", "gpt"}},
      {"data.0.emptyDir.medium", {"Memory"}},
      {"scheduling.node.tolerations.0.operator", {"Equal", "Exists"}},
      {"scheduling.node.tolerations.0.effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}},
  };
  for (const auto& [key, words] : table) {
    std::string expected;
    for (std::size_t i = 0; i < words.size(); ++i)
      expected += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    const std::vector<std::string> base{"scheduling.node.tolerations=[{key: a}]"};
    for (const std::string& word : words)
      CHECK_MESSAGE(test::refusal(host, test::set({base[0], key + "=" + word})) == "accepted", key, word);
    const std::string refused = test::refusal(host, test::set({base[0], key + "=zzzzzzzz"}));
    CHECK_MESSAGE(contains(refused, " must be " + expected + ", not 'zzzzzzzz'\n"), refused);
  }
  CHECK(
      contains(with("train.data.format=zzzzzzzz"), " must be idx, cifar10, text or tokens, not 'zzzzzzzz'"));
  CHECK(with("scheduling.gang=auto") == "accepted");
  CHECK(with("scheduling.gang=none") == "accepted");
  CHECK(contains(with("scheduling.gang=always"), "must be auto, none or required"));
  const std::string run = "name: x\nmode: single\nrun: a\nframework: ";
  CHECK(test::refusal(run + "none\n") == "accepted");
  for (const char* framework : {"jax", "torch"}) CHECK(test::refusal(run + framework + "\n") == "accepted");
  CHECK(contains(test::refusal(run + "mpi\n"), "there is no framework 'mpi'; there are jax, torch, none"));
}

TEST_CASE("a duration is refused outside of the bounds of its key") {
  CHECK(with("train.patience=1s") == "accepted");
  CHECK(with("train.patience=1000000s") == "accepted");
  CHECK(contains(with("train.patience=1000001s"), "such as 90s, 15m or 12h, at most 1000000s"));
  CHECK(contains(with("train.patience=0s"), "train.patience must be"));
  CHECK(with("train.offline_time=0s") == "accepted");
  for (const char* key : {"time_limit", "start_timeout"}) {
    CHECK(with(std::string(key) + "=1s") == "accepted");
    CHECK(with(std::string(key) + "=3000d") == "accepted");
    CHECK(contains(with(std::string(key) + "=0s"), "such as 90s, 15m or 12h, not '0s'"));
  }
}

TEST_CASE("a name is refused if it is too long or has other characters than allowed") {
  const std::string forty(40, 'a');
  CHECK(with("name=" + forty) == "accepted");
  CHECK(contains(with("name=" + forty + "a"),
                 "name must be lower-case letters, digits and '-', a letter first"));
  CHECK(with("data.0.name=" + forty) == "accepted");
  CHECK(contains(with("data.0.name=" + forty + "a"), "at most 40"));
  for (const char* good : {"a", "z", "a1", "a-1"}) CHECK_MESSAGE(is_dns_label(good, 40), good);
  for (const char* bad : {"", "1a", "-a", "a-", "A", "aB", "a_b", "a.b", "{a", "`a"})
    CHECK_MESSAGE(!is_dns_label(bad, 40), bad);
  const std::string longest(253, 'a');
  for (const std::string& good : {std::string("a"), std::string("1"), std::string("a.b-c.1"), longest})
    CHECK_MESSAGE(with("service_account=" + good) == "accepted", good);
  for (const std::string& bad : {std::string("A"), std::string("a..b"), std::string("-a"), std::string("a-"),
                                 std::string(".a"), std::string("a_b"), longest + "a"}) {
    CHECK_MESSAGE(contains(with("service_account=" + bad), "must be the name of a Kubernetes object"), bad);
  }
}

TEST_CASE("a path is accepted if it is absolute, has no ':', and none of its parts is '..'") {
  for (const char* good : {"/a", "/a..b", "/...", "/a b"})
    CHECK_MESSAGE(with(std::string("data.0.mount=") + good) == "accepted", good);
  for (const char* bad : {"a", "./a", "/a:b", "/..", "/a/../b", "/a/.."}) {
    CHECK_MESSAGE(contains(with(std::string("data.0.mount=") + bad),
                           "must be an absolute path without '..' or ':', not "),
                  bad);
  }
}

TEST_CASE("cpu_millis() and memory_bytes() refuse quantities outside of their bounds") {
  for (const char* good : {"1m", "0.001", "1000000", "1000000000m", "00002", "0.5"})
    CHECK_MESSAGE(cpu_millis(good), good);
  for (const char* bad : {"0m", "0.0", "1000000.001", "1000000001m", "0.0005", "1.", ".5", "1.5.0", "+1"})
    CHECK_MESSAGE(!cpu_millis(bad), bad);
  CHECK(cpu_millis("1000000") == 1'000'000'000);
  CHECK(cpu_millis("1.001") == 1001);
  CHECK(memory_bytes("1000000T") == 1'000'000'000'000'000'000);
  CHECK(memory_bytes("0.001k") == 1);
  CHECK(memory_bytes("99999999999999") == 99'999'999'999'999);
  CHECK(memory_bytes("1.5") == 1);
  for (const char* bad :
       {"0.5", "0.999", "1000001T", "100000000000000", "0.0001Ki", "1Pi", "1ki", "1K", "1m", "k"})
    CHECK_MESSAGE(!memory_bytes(bad), bad);
}

}  // namespace
}  // namespace mlk
