#include "cli/run/facts/metrics_reader.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("run/facts/metrics_reader");

namespace mlk {
namespace {

TEST_CASE("lines of a program's own form are read from the second line of the same shape on") {
  MetricsReader reader;
  CHECK_FALSE(reader.read("step 1: loss 0.9"));
  CHECK_FALSE(reader.read("step 1: saving to out/1"));
  const std::optional<Metrics> second = reader.read("step 2: loss 0.8");
  REQUIRE(second.has_value());
  CHECK(second->step == 2);
  CHECK(second->values == std::map<std::string, double>{{"loss", 0.8}});
  CHECK_FALSE(reader.read("eval at step 2: accuracy 0.5"));
  CHECK(reader.read("step 3: loss 0.7"));
}

TEST_CASE("after a metrics line, lines of other forms are not read") {
  MetricsReader reader;
  CHECK_FALSE(reader.read("step 1: loss 0.9"));
  CHECK(reader.read("mlk step=5 loss=0.5"));
  CHECK_FALSE(reader.read("step 2: loss 0.8"));
  CHECK(reader.read("mlk step=6 loss=0.4")->step == 6);
}

TEST_CASE("without a step, the epoch is the step, and a negative or endless step is none") {
  MetricsReader reader;
  CHECK_FALSE(reader.read("epoch 1 | loss 0.9"));
  const std::optional<Metrics> metrics = reader.read("epoch 2 | loss 0.8");
  REQUIRE(metrics.has_value());
  CHECK(metrics->step == 2);
  CHECK(metrics->values.at("epoch") == 2);
  CHECK_FALSE(reader.read("epoch -2 | loss 0.8"));
  CHECK_FALSE(reader.read("epoch nan | loss 0.8"));
  CHECK_FALSE(reader.read("epoch 1e300 | loss 0.8"));
}

TEST_CASE("a log with more shapes of lines than the reader remembers costs bounded memory") {
  MetricsReader reader;
  for (int i = 0; i < 2000; ++i)
    CHECK_FALSE(reader.read("step 1: name" + std::string(static_cast<std::size_t>(i % 50) + 1, 'x') +
                            std::to_string(i) + "y=1"));
}

TEST_CASE("leading_metric() prefers the loss, then another loss, an accuracy and a score") {
  const auto name = [](const nlohmann::json& metrics) {
    const auto found = leading_metric(metrics);
    return found ? found->first : "";
  };
  CHECK(name({{"acc", 0.5}, {"loss", 1}, {"val_loss", 2}}) == "loss");
  CHECK(name({{"acc", 0.5}, {"val_loss", 2}, {"train_loss", 1}}) == "train_loss");
  CHECK(name({{"lr", 0.5}, {"top1_acc", 2}, {"score", 1}}) == "top1_acc");
  CHECK(name({{"lr", 0.5}, {"mfu", 2}, {"time", 1}}) == "mfu");
  CHECK(name({{"lr", 0.5}}) == "lr");
  CHECK(name({{"loss", "worker/1"}, {"b", "nan"}}) == "b");
  CHECK(name({}) == "");
  CHECK(name(nullptr) == "");
}

TEST_CASE("written_result() reads any object of numbers") {
  const auto read = [](const char* text) { return written_result(text).dump(); };
  CHECK(read(R"({"acc": 0.7})") == R"({"metrics":{"acc":0.7},"schema":1})");
  CHECK(read("{\n  \"acc\": 0.7,\n  \"loss\": NaN\n}\n") ==
        R"({"metrics":{"acc":0.7,"loss":"nan"},"schema":1})");
  CHECK(read(R"({"step": 7, "acc": 0.7, "model": "vgg"})") ==
        R"({"metrics":{"acc":0.7},"schema":1,"step":7})");
  CHECK(read(R"({"schema": 1, "step": 3})") == R"({"schema":1,"step":3})");
  for (const char* other : {"", "done", "acc=0.7", "{", "{}", R"({"a": "b"})", "{\"acc\": 0.7} and more"}) {
    CAPTURE(other);
    CHECK(written_result(other).is_null());
  }
}

TEST_CASE("last_metrics() reads the last line with metrics") {
  CHECK(last_metrics("a\nstep 1: loss 0.9\nstep 2: loss 0.8\nTraceback\n")->step == 2);
  CHECK_FALSE(last_metrics("step 1: loss 0.9\n"));
  CHECK(last_metrics("mlk step=1 loss=2\nmlk step=3 loss=1\nend")->step == 3);
}

}  // namespace
}  // namespace mlk
