#include <limits>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/metrics/reporter.h"
#include "tests/unit/runtime/system_calls.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/metrics/reporter_result");

namespace mlk::rt {
namespace {

using test::read_file;

namespace reporter_result {

// A reporter whose clock the test sets.
struct Bench {
  test::TemporaryFolder folder;
  std::string path = folder / "result";
  std::ostringstream metrics;
  double now = 100;
  Reporter reporter{metrics, path, 7, [this] { return now; }};

  std::string line() {
    const std::string text = metrics.str();
    metrics.str("");
    return text;
  }
};

}  // namespace reporter_result

TEST_CASE(
    "the first throughput is measured from the start of the training, and a report without new samples "
    "repeats the last throughput") {
  reporter_result::Bench bench;
  bench.now = 50;
  bench.reporter.started(40, 1000);
  bench.now = 52;
  bench.reporter.report(41, 1, 1010, 0.5);
  CHECK(bench.line() == "mlk step=41 epoch=1 loss=0.5 samples_per_s=5\n");
  bench.now = 54;
  bench.reporter.report(42, 1, 1010, 0.5);
  CHECK(bench.line() == "mlk step=42 epoch=1 loss=0.5 samples_per_s=5\n");
  bench.reporter.report(43, 1, 1100, 0.5);  // at the same moment
  CHECK(bench.line() == "mlk step=43 epoch=1 loss=0.5 samples_per_s=5\n");
  bench.now = 58;
  bench.reporter.report(44, 1, 1050, 0.5);  // fewer samples than before, after an older checkpoint
  CHECK(bench.line() == "mlk step=44 epoch=1 loss=0.5 samples_per_s=5\n");
  bench.now = 60;
  bench.reporter.report(45, 1, 1051, 0.5);
  CHECK(bench.line() == "mlk step=45 epoch=1 loss=0.5 samples_per_s=0\n");
  bench.now = 61;
  bench.reporter.report(46, 1, 1052, 0.5);
  CHECK(bench.line() == "mlk step=46 epoch=1 loss=0.5 samples_per_s=1\n");
}

TEST_CASE("report() leaves out steps that were made before started() was called") {
  reporter_result::Bench bench;
  bench.reporter.telemetry().step(1, 16, {1, 1, 1});
  bench.reporter.started(0, 0);
  bench.reporter.report(1, 0, 0, 0.5);
  CHECK(bench.line() == "mlk step=1 epoch=0 loss=0.5 samples_per_s=0\n");
}

TEST_CASE("an accuracy is printed only in the first line after its evaluation, but is in each later result") {
  reporter_result::Bench bench;
  bench.reporter.started(0, 0);
  bench.reporter.evaluation(0.12345678);
  CHECK(bench.reporter.telemetry().measurements().accuracy == 0.12345678);
  bench.reporter.report(1, 0, 0, 0.5);
  CHECK(bench.line() == "mlk step=1 epoch=0 loss=0.5 accuracy=0.1235 samples_per_s=0\n");
  bench.reporter.report(2, 0, 0, 0.25);
  CHECK(bench.line() == "mlk step=2 epoch=0 loss=0.25 samples_per_s=0\n");
  CHECK(read_file(bench.path)
            .starts_with(
                "{\"schema\":1,\"step\":2,\"epoch\":0,\"metrics\":{\"loss\":0.25,\"accuracy\":0.1235,"
                "\"samples_per_s\":0},"
                "\"curve\":[[1,0.5],[2,0.25]],\"restored_step\":0,\"done\":false,\"message\":\"\"}\n"));
  const auto report = bench.reporter.telemetry().measurements().report;
  REQUIRE(report);
  CHECK(report->step == 2);
  CHECK(report->loss == 0.25);
}

TEST_CASE("a loss that is not finite is null in the result, and nan or inf in the line") {
  reporter_result::Bench bench;
  bench.reporter.started(0, 0);
  bench.reporter.report(1, 0, 0, std::numeric_limits<double>::quiet_NaN());
  CHECK(bench.line() == "mlk step=1 epoch=0 loss=nan samples_per_s=0\n");
  const auto result = nlohmann::json::parse(read_file(bench.path));
  CHECK(result["metrics"]["loss"].is_null());
  CHECK(result["curve"] == nlohmann::json::parse("[[1,null]]"));
  bench.reporter.report(2, 0, 0, -std::numeric_limits<double>::infinity());
  CHECK(bench.line() == "mlk step=2 epoch=0 loss=-inf samples_per_s=0\n");
}

TEST_CASE("each result, including the last one, has all known values in a fixed order") {
  reporter_result::Bench bench;
  bench.reporter.total_steps(470);
  bench.reporter.started(40, 0);
  bench.reporter.checkpoint(60);
  bench.reporter.checkpoint(50);  // from a process that is behind
  bench.reporter.telemetry().run({3, 5, 2, 0, 1});
  bench.now += 4;
  bench.reporter.report(61, 2, 100, 0.125);
  CHECK(bench.line() ==
        "mlk step=61 epoch=2 steps=470 checkpoint=60 loss=0.125 samples_per_s=25 world=3 generation=5 "
        "restarts=2 "
        "slowest=worker/1\n");
  const std::string start =
      "{\"schema\":1,\"step\":61,\"epoch\":2,\"steps\":470,\"metrics\":{\"loss\":0.125,\"samples_per_s\":25,"
      "\"world\":3,\"generation\":5,\"restarts\":2,\"slowest\":\"worker/1\"},\"curve\":[[61,0.125]],"
      "\"restored_step\":40,\"checkpoint\":60,\"done\":";
  CHECK(read_file(bench.path) == start + "false,\"message\":\"\"}\n");
  CHECK(bench.reporter.trained_result() == start + "true,\"message\":\"\"}\n");
  bench.reporter.finish(false, "lost");
  CHECK(read_file(bench.path).starts_with(start + "false,\"message\":\"lost\"}\n"));
}

TEST_CASE("finish_with() writes a result of 3072 bytes, but not a result of 3073 bytes") {
  reporter_result::Bench bench;
  for (const std::size_t size : {3072u, 3073u}) {
    bench.reporter.finish_with(std::string(size, 'x'));
    const std::string text = read_file(bench.path);
    if (size == 3072) {
      CHECK(text == std::string(3072, 'x'));
    } else {
      CHECK(nlohmann::json::parse(text) ==
            nlohmann::json{{"schema", 1}, {"rank", 7}, {"done", true}, {"message", ""}});
    }
  }
}

TEST_CASE("finish() cuts the message if the result would be longer than 3072 bytes") {
  reporter_result::Bench bench;
  const std::string around = "{\"schema\":1,\"rank\":7,\"done\":false,\"message\":\"\"}\n";
  const std::size_t room = 3072 - around.size();
  bench.reporter.finish(false, std::string(room, 'x'));
  CHECK(read_file(bench.path) == around.substr(0, around.size() - 3) + std::string(room, 'x') + "\"}\n");
  bench.reporter.finish(false, std::string(room + 1, 'y'));
  CHECK(read_file(bench.path) == around.substr(0, around.size() - 3) + std::string(room, 'y') + "\"}\n");
}

TEST_CASE("if there is no path for the result, the lines are still printed") {
  std::ostringstream metrics;
  const test::TemporaryFolder folder;
  Reporter reporter(metrics, "", 0, [] { return 0.0; });
  reporter.report(1, 2, 64, 0.5);
  reporter.finish(true, "");
  CHECK(metrics.str() == "mlk step=1 epoch=2 loss=0.5 samples_per_s=0\n");
}

TEST_CASE("a result file is closed after each report") {
  reporter_result::Bench bench;
  const auto open_files = [] { return test::open_descriptors(); };
  const auto before = open_files();
  bench.reporter.report(1, 0, 0, 1);
  bench.reporter.report(2, 0, 0, 1);
  CHECK(open_files() == before);
}

TEST_CASE(
    "a curve keeps its first 63 points, and drops every other one of these when the 64th point is added") {
  Curve curve;
  for (std::uint64_t step = 1; step <= 63; ++step) curve.add(step * 10, static_cast<double>(step));
  auto points = curve.points();
  REQUIRE(points.size() == 63);
  for (std::size_t i = 0; i < 63; ++i)
    CHECK(points[i] == std::pair<std::uint64_t, double>((i + 1) * 10, i + 1));
  curve.add(640, 64);
  points = curve.points();
  REQUIRE(points.size() == 33);
  for (std::size_t i = 0; i < 32; ++i)
    CHECK(points[i] == std::pair<std::uint64_t, double>((2 * i + 1) * 10, 2 * i + 1));
  CHECK(points[32] == std::pair<std::uint64_t, double>(640, 64));
  curve.add(650, 65);
  CHECK(curve.points().back() == std::pair<std::uint64_t, double>(650, 65));
  CHECK(curve.points().size() == 33);
}

}  // namespace
}  // namespace mlk::rt
