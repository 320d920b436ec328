#include "sweeps/space/reported.h"

#include <cmath>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/reported");

using namespace mlk::sweeps;

namespace {

Objective found_by(const std::string& metric, const std::string& regex = "") {
  Objective objective;
  objective.metric = metric;
  objective.regex = regex;
  return objective;
}

std::optional<Reported> find_loss(std::string_view line) { return MetricFinder(found_by("loss")).find(line); }

std::optional<double> value_by(const std::string& regex, std::string_view line) {
  const std::optional<Reported> found = MetricFinder(found_by("x", regex)).find(line);
  return found ? std::optional(found->value) : std::nullopt;
}

void check_found(std::string_view line, double value, std::optional<std::int64_t> step) {
  const std::optional<Reported> found = find_loss(line);
  REQUIRE_MESSAGE(found.has_value(), line);
  CHECK_MESSAGE(found->value == value, line);
  CHECK_MESSAGE(found->step == step, line);
}

}  // namespace

TEST_CASE("find() reads the metric in lines as training programs print them") {
  check_found("mlk step=100 loss=0.25 world=2", 0.25, 100);
  check_found("loss=0.25", 0.25, {});
  check_found("2026-11-23T10:00:00Z INFO step=7 loss=2.5e-1 lr=0.1", 0.25, 7);
  check_found("[train] loss=0.25, step=7; acc=0.5", 0.25, 7);
  check_found("epoch 3 (loss=\"0.25\")\r\n", 0.25, {});
  check_found("{\"loss\": 0.25, \"step\": 7}", 0.25, 7);
  check_found("  {\"loss\": \"-1\", \"nested\": {\"loss\": 2}}", -1, {});
  check_found("loss=1 loss=2", 2, {});
}

TEST_CASE("find() reads the metric in any other form that programs print") {
  check_found("epoch 1 loss: 0.25", 0.25, 1);
  check_found("{'loss': 0.25, 'epoch': 1.0}", 0.25, 1);
  check_found("[ 10/100] Loss 0.25 | lr 1e-4", 0.25, 10);
  check_found("Loss: 0.25", 0.25, {});
  CHECK(MetricFinder(found_by("val loss")).find("step 3: train loss 1, val loss 0.5")->value == 0.5);
  CHECK(MetricFinder(found_by("val_loss")).find("step 3: train loss 1, val loss 0.5")->value == 0.5);
  CHECK_FALSE(find_loss("the loss was 0.25 lower").has_value());
}

TEST_CASE("find() reads a metric with brackets in its name") {
  const MetricFinder finder(found_by("metrics/mAP50(B)"));
  const std::string line = "epoch=1 metrics/mAP50(B)=0.93, metrics/mAP50-95(B)=0.6";
  const std::optional<Reported> found = finder.find(line);
  REQUIRE(found.has_value());
  CHECK(found->value == 0.93);
  CHECK(found->step == 1);
  CHECK_FALSE(finder.near_miss(line).has_value());
  CHECK_FALSE(finder.find("val_metrics/mAP50(B)=0.5").has_value());
  CHECK_FALSE(finder.find("metrics/mAP50(B)=0.5x").has_value());
  CHECK(MetricFinder(found_by("a[0]")).find("(a[0]=1,000) a[0]=2")->value == 2);
}

TEST_CASE("find() returns nothing for a line without the whole name of the metric or without a number") {
  for (const char* line : {"", "loss", "loss=", "loss=high", "val_loss=1", "loss=1x", "=1",
                           "mlk step=1 val_loss=1", "{\"loss\": null}", "{\"loss\": [1]}", "{\"val\": 1}",
                           "{\"loss\": 1", "{", "[{\"loss\": 1}]", "{\"loss\": true}"})
    CHECK_MESSAGE(!find_loss(line).has_value(), std::string(line));
}

TEST_CASE("NaN and infinite values are reports too") {
  for (const char* line : {"loss=nan", "loss=NaN", "mlk step=1 loss=nan", "{\"loss\": NaN}",
                           "{\"a\": [NaN, \"NaN\\\"NaN\"], \"loss\": NaN, \"b\": Infinity}"}) {
    const std::optional<Reported> found = find_loss(line);
    REQUIRE_MESSAGE(found.has_value(), line);
    CHECK_MESSAGE(std::isnan(found->value), line);
  }
  for (const char* line : {"loss=-inf", "{\"loss\": -Infinity}", "{\"loss\":-Infinity,\"step\":3}"}) {
    const std::optional<Reported> found = find_loss(line);
    REQUIRE_MESSAGE(found.has_value(), line);
    CHECK_MESSAGE(found->value == -HUGE_VAL, line);
  }
}

TEST_CASE("find() refuses a number with other characters behind it, and ignores colour codes") {
  for (const char* line : {"loss=12,000", "step=1 loss=12,000 acc=1", "loss=0x1p3", "mlk step=1 loss=12,000",
                           "{\"loss\": \"12,000\"}"})
    CHECK_MESSAGE(!find_loss(line).has_value(), std::string(line));
  check_found("step=1,loss=0.5,acc=0.9", 0.5, 1);
  check_found("loss=5%", 5, {});
  check_found("a:loss=0.5", 0.5, {});
  check_found("loss=0.5:", 0.5, {});
  check_found("loss= 1", 1, {});
  check_found("loss 1", 1, {});
  check_found("\033[32mloss=0.5\033[0m", 0.5, {});
  check_found("INFO:root:mlk step=1 loss=0.5", 0.5, 1);
  check_found("\033[1mmlk\033[0m epoch=2 loss=0.5", 0.5, 2);
  check_found("50%\rloss=0.5", 0.5, {});
}

TEST_CASE("a regex match is read without the punctuation around it") {
  CHECK(value_by("loss: (\\S+)", "epoch 1, loss: 0.5, acc: 0.9") == 0.5);
  CHECK(value_by("loss: (\\S+)", "(loss: 0.5)") == 0.5);
  CHECK(value_by("loss: (\\S+)", "\033[1mloss: 0.5%\033[0m") == 0.5);
  CHECK_FALSE(value_by("loss: (\\S+)", "loss: 12,000").has_value());
  const MetricFinder finder(found_by("loss", "loss: (\\S+)"));
  CHECK(finder.near_miss("loss: 12,000") == "the regex found '12,000', which is not a number");
  CHECK_FALSE(finder.near_miss("loss: 0.5,").has_value());
  CHECK_FALSE(finder.near_miss("acc: x").has_value());
}

TEST_CASE("near_miss() quotes a line that has the metric and a number in another form") {
  const MetricFinder finder(found_by("loss"));
  CHECK(finder.near_miss("epoch 1 loss is 0.6") ==
        "the nearest line is 'epoch 1 loss is 0.6'; print loss=VALUE, or give objective.regex");
  CHECK(finder.near_miss("{'loss': [0.6]}").has_value());
  CHECK(finder.near_miss("loss=12,000").has_value());
  const std::string long_line = "loss is 0.6 " + std::string(100, 'x');
  CHECK(finder.near_miss(long_line)->find("'" + long_line.substr(0, 80) + "...'") != std::string::npos);
  for (const char* line :
       {"", "loss is high", "0.5 loss", "val_loss: 0.5", "losses: 3", "loss=0.5", "acc: 0.5"})
    CHECK_MESSAGE(!finder.near_miss(line).has_value(), line);
}

TEST_CASE("find() ignores a step that is negative, too large or not a number") {
  for (const char* line : {"loss=1 step=-1", "loss=1 step=nan", "loss=1 step=1e15", "loss=1 step=x",
                           "{\"loss\": 1, \"step\": -1}", "{\"loss\": 1, \"step\": 1e300}"})
    check_found(line, 1, {});
  check_found("loss=1 step=999999999999999", 1, 999999999999999);
}

TEST_CASE("a regex finds the value of the metric by its first group") {
  CHECK(value_by("acc: ([0-9.]+)%", "epoch 1 acc: 93.5% loss: 1") == 93.5);
  CHECK(value_by("^acc (\\S+)$", "acc 1e-3\n") == 1e-3);
  CHECK(value_by("(?:val|test) acc=(\\S+)", "train acc=1 test acc=2 val acc=3") == 2);
  CHECK(value_by("(\\d+)", "a 12 b 34") == 12);
  CHECK(value_by("(\\d+)$", "a 12 b 34") == 34);
  CHECK(value_by("'loss': (nan|[\\d.]+)", "{'loss': 0.5, 'epoch': 1}") == 0.5);
  CHECK(std::isnan(value_by("'loss': (nan|[\\d.]+)", "{'loss': nan}").value()));
  CHECK_FALSE(value_by("loss=(.*) ;", "loss=1 2 ;").has_value());
  CHECK_FALSE(value_by("acc: ([0-9.]+)", "loss: 1").has_value());
  CHECK_FALSE(value_by("acc: (\\w*)", "acc: high").has_value());
  CHECK_FALSE(value_by("a(b)?", "a").has_value());
  CHECK_FALSE(MetricFinder(found_by("x", "(\\d)")).find("1")->step.has_value());
}

TEST_CASE("if an objective has a regex, this regex also reads lines that begin with the word mlk") {
  CHECK_FALSE(value_by("acc: (\\S+)", "mlk step=1 x=2").has_value());
  CHECK(value_by("y=(\\S+)", "mlk step=1 x=2 y=3") == 3);
}

TEST_CASE("a regex that is invalid or has no group is refused with the reason") {
  CHECK(why_no_regex("a(b)c").empty());
  CHECK(why_no_regex("") == "is empty");
  CHECK(why_no_regex("abc") == "needs a group in parentheses that matches the number");
  CHECK(why_no_regex("(?:abc)") == "needs a group in parentheses that matches the number");
  CHECK(why_no_regex("(a") == "is not valid: missing ): (a");
  CHECK_THROWS_AS(MetricFinder(found_by("x", "(")), mlk::Error);
}

TEST_CASE("a regex takes time in proportion to the length of the line") {
  CHECK(why_no_regex("(\\d{1,3}\\.\\d{4})").empty());
  CHECK(why_no_regex("\\{\"loss\": ([0-9.]+)").empty());
  // A regex engine that backtracks would try 2^4000 ways here.
  const std::string line(4000, 'a');
  CHECK_FALSE(value_by("(a+)+b", line).has_value());
  CHECK_FALSE(value_by("((a|a)*)*b", line).has_value());
  CHECK_FALSE(value_by(".*.*.*=(\\S+)", line).has_value());
  CHECK(value_by(".*.*.*=(\\S+)", line + "=3") == 3);
}

TEST_CASE("find() does not read lines of more than 4 KiB") {
  CHECK(find_loss("loss=1 " + std::string(4096 - 7, 'x')).has_value());
  CHECK_FALSE(find_loss("loss=1 " + std::string(4096 - 6, 'x')).has_value());
  CHECK_FALSE(value_by("(\\d)", "1" + std::string(4096, 'x')).has_value());
}

TEST_CASE("find() counts the progress of a trial in steps or in epochs") {
  Objective objective;
  objective.metric = "loss";
  const auto place = [&](std::string_view line) {
    return MetricFinder(objective).find(line)->step.value_or(-1);
  };
  CHECK(place("mlk step=100 epoch=3 loss=1") == 100);
  CHECK(place("epoch=3 loss=1") == 3);
  CHECK(place(R"({"epoch": 3, "loss": 1})") == 3);
  objective.position = "epoch";
  CHECK(place("mlk step=100 epoch=3 loss=1") == 3);
  CHECK(place("step=100 epoch=3 loss=1") == 3);
  CHECK(place(R"({"step": 100, "epoch": 3, "loss": 1})") == 3);
  CHECK(place("step=100 loss=1") == -1);
}

TEST_CASE("find() reads the last value of a key, and ends a word at blanks, commas and brackets") {
  for (const char* line : {"a loss=0.5", "a\tloss=0.5\tb", "a,loss=0.5,b", "a;loss=0.5;b", "(loss=0.5)",
                           "[loss=0.5]", "x{loss=0.5}", "loss=0.5,"})
    check_found(line, 0.5, {});
  check_found("step=1 loss=0.5 step=2", 0.5, 2);
  check_found("loss=0.5 step=0", 0.5, 0);
  check_found("{\"loss\": 0.5, \"step\": 0}", 0.5, 0);
  for (const char* line : {"loss==0.5", "loss=\"0.5", "loss=1,5"})
    CHECK_MESSAGE(!find_loss(line).has_value(), std::string(line));
}
