// Tests how metrics lines are parsed, and how the logs of several ranks are merged into one order.
#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/read/log_follower.h"

TEST_SUITE_BEGIN("run/read/logs");

namespace mlk {
namespace {

using namespace std::chrono_literals;

TEST_CASE("parse_metrics() finds the step and the values of a metrics line") {
  const std::optional<Metrics> metrics =
      parse_metrics("mlk step=100 epoch=2 loss=0.2311 phase=train done lr=1e-3");
  REQUIRE(metrics);
  CHECK(metrics->step == 100);
  CHECK(metrics->values == std::map<std::string, double>{{"epoch", 2}, {"loss", 0.2311}, {"lr", 0.001}});
  const std::optional<Metrics> bad = parse_metrics("mlk step=7 loss=nan");
  REQUIRE(bad);
  CHECK(std::isnan(bad->values.at("loss")));
}

TEST_CASE("a line without the word `mlk`, or without a valid step or epoch, is not a metrics line") {
  for (const char* line : {"",
                           "mlk",
                           "mlk ",
                           "mlk loss=1",
                           "step=3 loss=1",
                           "mlk-runtime worker/0: step=3",
                           "mlk step=",
                           "mlk step=x",
                           "mlk step=-1",
                           "mlk step=nan",
                           "mlk step=1e300",
                           "mlk =3",
                           "mlk step=3,000",
                           "/opt/mlk step=3",
                           "my-mlk step=3",
                           "x.mlk step=3",
                           "mlk2 step=3",
                           "mlk: step=3",
                           "+ mlk submit step=3 a.yaml",
                           "say mlk step={step}",
                           "mlk epoch=x"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_metrics(line));
  }
  CHECK_FALSE(parse_metrics("mlk step=3 loss=" + std::string(5000, '1')));
}

TEST_CASE("parse_metrics() ignores text before and after the metrics") {
  for (const char* line :
       {" mlk step=3 loss=0.5", "INFO:root:mlk step=3 loss=0.5", "\033[32mmlk step=3 loss=0.5\033[0m",
        "\033[1mINFO\033[0m \033[36mmlk\033[0m step=3 loss=0.5", "[rank0]: mlk step=3 loss=0.5",
        "2026-11-26 19:00:00,123 | INFO | main:7 - mlk step=3 loss=0.5 (train.py:12)",
        "I1126 19:00:00.123456 99 train.py:10] mlk  step=3  loss=0.5",
        "mlk submit x.yaml; mlk step=3 loss=0.5",
        "{\"level\": \"info\", \"message\": \"mlk step=3 loss=0.5\"}", "50%|##  |\rmlk step=3 loss=0.5"}) {
    CAPTURE(line);
    const std::optional<Metrics> found = parse_metrics(line);
    REQUIRE(found);
    CHECK(found->step == 3);
    CHECK(found->values == std::map<std::string, double>{{"loss", 0.5}});
  }
}

TEST_CASE("a metrics line with an epoch but no step uses the epoch as the step") {
  CHECK(parse_metrics("mlk epoch=2 loss=0.5")->step == 2);
  CHECK(parse_metrics("mlk loss=0.5 epoch=2 step=7")->step == 7);
  CHECK(parse_metrics("mlk step=1 loss=12,000 acc=5% hex=0x10")->values.empty());
  CHECK(parse_metrics("mlk step=1 loss=12,000")->words ==
        std::map<std::string, std::string>{{"loss", "12,000"}});
}

TEST_CASE("a result stores nan, inf and -inf as words, since JSON lacks these numbers") {
  const nlohmann::json result = to_result(*parse_metrics("mlk step=2 loss=nan gap=inf low=-Infinity"));
  CHECK(result["metrics"] == nlohmann::json{{"loss", "nan"}, {"gap", "inf"}, {"low", "-inf"}});
  CHECK(metric_number(result["metrics"]["gap"]) == HUGE_VAL);
  CHECK(metric_number(0.5) == 0.5);
  CHECK_FALSE(metric_number("worker/1"));
  CHECK_FALSE(metric_number(nullptr));
}

TEST_CASE("parse_metrics() accepts lines up to 4096 bytes, words up to 64 bytes, and steps below 1e15") {
  const std::string start = "mlk step=3 x=";
  CHECK(parse_metrics(start + std::string(4096 - start.size(), '1')));
  CHECK_FALSE(parse_metrics(start + std::string(4097 - start.size(), '1')));
  const std::string word(64, 'w');
  const auto long_words =
      parse_metrics("mlk step=1 a=" + word + " b=" + word + "w " + word + "=2 " + word + "w=2");
  REQUIRE(long_words);
  CHECK(long_words->words == std::map<std::string, std::string>{{"a", word}});
  CHECK(long_words->values == std::map<std::string, double>{{word, 2}});
  CHECK(parse_metrics("mlk step=999999999999999")->step == 999'999'999'999'999);
  CHECK_FALSE(parse_metrics("mlk step=1000000000000000"));
  CHECK(parse_metrics("mlk step=0")->step == 0);
  CHECK(parse_metrics("mlk step=1 slowest=worker/1 x=~")->words ==
        std::map<std::string, std::string>{{"slowest", "worker/1"}, {"x", "~"}});
}

TEST_CASE(
    "to_result() writes whole numbers as integers, and puts `epoch`, `steps` and `checkpoint` beside the "
    "metrics") {
  const nlohmann::json result = to_result(
      *parse_metrics("mlk step=5 loss=0.5 samples=64 epoch=2 steps=10 checkpoint=4 huge=1e15 who=worker/0"));
  CHECK(result ==
        nlohmann::json{{"schema", 1},
                       {"step", 5},
                       {"epoch", 2},
                       {"steps", 10},
                       {"checkpoint", 4},
                       {"metrics", {{"loss", 0.5}, {"samples", 64}, {"huge", 1e15}, {"who", "worker/0"}}}});
  CHECK(result["metrics"]["samples"].is_number_integer());
  CHECK(result["metrics"]["huge"].is_number_float());
  CHECK(to_result(*parse_metrics("mlk step=5"))["metrics"] == nlohmann::json::object());
}

TEST_CASE("of several metrics lines, the last one is used") {
  CHECK(last_metrics("mlk step=1\nhello\nmlk step=2\nend")->step == 2);
  CHECK(last_metrics("mlk step=2\nmlk step=1")->step == 1);
  CHECK_FALSE(last_metrics("hello"));
  CHECK(last_metrics("1%\rmlk step=3\n\033[31mend")->step == 3);
}

class Merging {
 public:
  void push(int stream, int second, const std::string& text, LogMerger::Clock::duration arrived) {
    RunLogLine line;
    line.time = Time{} + std::chrono::seconds(second);
    line.text = text;
    merger.push(stream, line, LogMerger::Clock::time_point{} + arrived);
  }
  std::string take(LogMerger::Clock::duration now) {
    return texts(merger.take(LogMerger::Clock::time_point{} + now));
  }
  static std::string texts(const std::vector<RunLogLine>& lines) {
    std::string all;
    for (const RunLogLine& line : lines) all += line.text;
    return all;
  }
  LogMerger merger{300ms};
};

TEST_CASE("the merger of lines sorts the lines of several streams by time") {
  Merging merging;
  merging.push(0, 5, "c", 0ms);
  CHECK(merging.take(299ms).empty());
  merging.push(1, 3, "a", 299ms);  // an earlier line that arrives late
  merging.push(1, 4, "b", 299ms);
  merging.push(1, 9, "d", 299ms);
  CHECK(merging.take(300ms) == "abc");
  CHECK(merging.take(598ms).empty());
  CHECK(merging.take(599ms) == "d");
  CHECK(merging.merger.size() == 0);
}

TEST_CASE("lines of one stream keep their order of arrival even if the clock is set back") {
  Merging merging;
  merging.push(0, 8, "a", 0ms);
  merging.push(0, 2, "b", 1ms);
  merging.push(1, 5, "x", 2ms);
  merging.push(0, 8, "c", 3ms);
  CHECK(Merging::texts(merging.merger.take_all()) == "xabc");
}

TEST_CASE("a stream with a slow clock does not hold back the other streams") {
  Merging merging;
  merging.push(0, 100, "b", 0ms);
  merging.push(1, 1, "a", 250ms);
  CHECK(merging.take(300ms) == "ab");
  merging.push(1, 2, "c", 310ms);
  merging.push(0, 101, "d", 320ms);
  CHECK(Merging::texts(merging.merger.take_all()) == "cd");
  CHECK(merging.merger.take_all().empty());
}

TEST_CASE("parse_metrics() needs `mlk` as a separate word") {
  for (const char* before : {"a", "z", "A", "Z", "0", "9", "_", "-", ".", "/", "\xc3\xa9"}) {
    CAPTURE(before);
    CHECK_FALSE(parse_metrics(before + std::string("mlk step=3")));
    CHECK(parse_metrics(before + std::string("mlk step=3 mlk step=4"))->step == 4);
  }
  for (const char* before : {"", " ", ":", "[", "{", "`", "@", "^", "|", "="}) {
    CAPTURE(before);
    REQUIRE(parse_metrics(before + std::string("mlk step=3")));
    CHECK(parse_metrics(before + std::string("mlk step=3"))->step == 3);
  }
  CHECK_FALSE(parse_metrics("mlk    "));
  CHECK(parse_metrics("mlk   step=3")->step == 3);
  CHECK_FALSE(parse_metrics("mlk word step=3"));
}

TEST_CASE("parse_metrics() removes quotes and brackets behind a number") {
  for (const char* behind : {"\"", "'", "`", ",", ";", ")", "]", "}", "\"}", ")]}"}) {
    CAPTURE(behind);
    const std::optional<Metrics> found = parse_metrics(std::string("mlk step=3 loss=0.5") + behind);
    REQUIRE(found);
    CHECK(found->values == std::map<std::string, double>{{"loss", 0.5}});
    CHECK(parse_metrics(std::string("mlk step=3") + behind)->step == 3);
    const std::optional<Metrics> word = parse_metrics(std::string("mlk step=3 who=worker") + behind);
    REQUIRE(word);
    CHECK(word->words == std::map<std::string, std::string>{{"who", std::string("worker") + behind}});
  }
  CHECK_FALSE(parse_metrics("mlk step=3>"));
  CHECK(parse_metrics("mlk step=3 x=,")->words == std::map<std::string, std::string>{{"x", ","}});
}

TEST_CASE("if a metrics line repeats a key, mlk uses the last valid value") {
  CHECK(parse_metrics("mlk step=3 step=4 loss=1 loss=2")->step == 4);
  CHECK(parse_metrics("mlk step=3 step=4 loss=1 loss=2")->values.at("loss") == 2);
  CHECK(parse_metrics("mlk step=3 step=x")->step == 3);
  CHECK(parse_metrics("mlk step=3 step=-1")->step == 3);
  CHECK(parse_metrics("mlk step=2.9")->step == 2);
  CHECK(parse_metrics("mlk epoch=3 epoch=x step=-1") == std::nullopt);
  CHECK(parse_metrics("mlk step=5 epoch=-1")->step == 5);
}

TEST_CASE("mlk reads at most 64 keys of a metrics line, not counting the step") {
  std::string line = "mlk";
  for (int i = 0; i < 63; ++i) line += " k" + std::to_string(i) + "=1";
  line += " word=w more=1 step=7";
  const std::optional<Metrics> found = parse_metrics(line);
  REQUIRE(found);
  CHECK(found->step == 7);
  CHECK(found->values.size() == 63);
  CHECK(found->words.size() == 1);
}

TEST_CASE("a line with terminal control codes is read as a terminal shows it") {
  CHECK(parse_metrics("mlk step=33\b \b")->step == 3);
  CHECK(parse_metrics("mlk step=1\rmlk step=2")->step == 2);
  CHECK(parse_metrics("mlk step=\x1b[1m5\x1b[0m loss=1")->step == 5);
}

TEST_CASE("a whole number is written as an integer if its absolute value is less than 1e15") {
  CHECK(metric_to_json(999999999999999.0).is_number_integer());
  CHECK(metric_to_json(-999999999999999.0).is_number_integer());
  CHECK_FALSE(metric_to_json(1e15).is_number_integer());
  CHECK_FALSE(metric_to_json(-1e15).is_number_integer());
  CHECK_FALSE(metric_to_json(0.5).is_number_integer());
  CHECK(metric_to_json(-3.0) == -3);
  CHECK(metric_number("2.5") == 2.5);
  CHECK_FALSE(metric_number(true));
  CHECK(to_result(*parse_metrics("mlk step=1 unsaved=3"))["unsaved"] == 3);
}

}  // namespace
}  // namespace mlk
