#include "runtime/metrics/reporter.h"

#include <csignal>
#include <limits>
#include <sstream>
#include <sys/resource.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/metrics/reporter");

using namespace mlk::rt;
using mlk::test::read_file;
using nlohmann::json;

namespace {

// A reporter whose clock the test sets.
struct Reports {
  mlk::test::TemporaryFolder folder;
  std::string path = folder / "result";
  std::ostringstream metrics;
  double now = 100;
  Reporter reporter{metrics, path, 7, [this] { return now; }};

  json result() const { return json::parse(read_file(path)); }
};

}  // namespace

TEST_CASE("a report prints one line in the form of CONTRACT.md and writes a result file") {
  Reports bench;
  bench.reporter.started(0, 0);
  bench.now += 2;
  bench.reporter.report(100, 1, 82466, 0.23114);
  CHECK(bench.metrics.str() == "mlk step=100 epoch=1 loss=0.2311 samples_per_s=41233\n");
  CHECK(bench.result() == json::parse(R"({"schema":1,"step":100,"epoch":1,"metrics":{"loss":0.2311,
      "samples_per_s":41233},"curve":[[100,0.2311]],"restored_step":0,"done":false,"message":""})"));

  bench.metrics.str("");
  bench.now += 1;
  bench.reporter.evaluation(0.93);
  bench.reporter.report(200, 2, 82466 + 1000, 0.125);
  CHECK(bench.metrics.str() == "mlk step=200 epoch=2 loss=0.125 accuracy=0.93 samples_per_s=1000\n");

  bench.metrics.str("");
  bench.now += 1;
  bench.reporter.report(300, 3, 82466 + 3000, 1e-9);
  CHECK(bench.metrics.str() == "mlk step=300 epoch=3 loss=1e-09 samples_per_s=2000\n");
  CHECK(bench.result()["metrics"]["accuracy"] == 0.93);  // the newest stays

  bench.metrics.str("");
  bench.now += 1;
  bench.reporter.evaluation(0.5, 1.25);
  bench.reporter.report(400, 4, 82466 + 4000, 1);
  CHECK(bench.metrics.str() ==
        "mlk step=400 epoch=4 loss=1 accuracy=0.5 held_out_loss=1.25 samples_per_s=1000\n");
}

TEST_CASE(
    "a printed line has the known values of the GPU, and tokens per second if the model predicts tokens") {
  Reports bench;
  bench.reporter.tokens_of_sample(64);
  bench.reporter.telemetry().gpu({0.875, 3.0 * (1 << 30), {}});
  bench.reporter.started(0, 0);
  bench.now += 2;
  bench.reporter.report(100, 1, 200, 2.5);
  CHECK(
      bench.metrics.str() ==
      "mlk step=100 epoch=1 loss=2.5 samples_per_s=100 tokens_per_s=6400 gpu_util=0.88 gpu_memory_gib=3.0\n");
}

TEST_CASE("a printed line has the model FLOPs utilisation over all GPUs of the run") {
  Reports bench;
  bench.reporter.peak_seconds_of_sample(0.002);
  bench.reporter.started(0, 0);
  bench.now += 2;
  bench.reporter.report(100, 1, 200, 2.5);
  CHECK(bench.metrics.str() == "mlk step=100 epoch=1 loss=2.5 samples_per_s=100 mfu=0.200\n");
  RunView view;
  view.workers = 4;
  bench.reporter.telemetry().run(view);
  bench.metrics.str("");
  bench.now += 2;
  bench.reporter.report(200, 1, 400, 2.5);
  CHECK(bench.metrics.str() ==
        "mlk step=200 epoch=1 loss=2.5 samples_per_s=100 mfu=0.050 world=4 generation=0 restarts=0\n");
}

TEST_CASE("a printed line has the bandwidth that sums by NCCL have reached since the last report") {
  Reports bench;
  bench.reporter.started(0, 0);
  bench.reporter.telemetry().bus({3e9, 0.5});
  bench.reporter.telemetry().bus({1e9, 0.5});
  bench.now += 1;
  bench.reporter.report(1, 1, 10, 1);
  bench.now += 1;
  bench.reporter.report(2, 1, 20, 1);
  CHECK(bench.metrics.str() ==
        "mlk step=1 epoch=1 loss=1 samples_per_s=10 nccl_gb_per_s=4\n"
        "mlk step=2 epoch=1 loss=1 samples_per_s=10\n");
}

TEST_CASE("if the length of a run is given in epochs, each report contains the number of steps of the run") {
  Reports bench;
  bench.reporter.total_steps(470);
  bench.reporter.started(0, 0);
  bench.now += 2;
  bench.reporter.report(100, 1, 100, 0.5);
  CHECK(bench.metrics.str() == "mlk step=100 epoch=1 steps=470 loss=0.5 samples_per_s=50\n");
  CHECK(bench.result()["steps"] == 470);
  CHECK_FALSE(bench.result()["metrics"].contains("steps"));
}

TEST_CASE("a printed line has the mean time per step of each activity since the last report") {
  Reports bench;
  bench.reporter.started(0, 0);
  Telemetry& telemetry = bench.reporter.telemetry();
  telemetry.step(1, 16, {0.001, 0.0002, 0});
  telemetry.step(2, 16, {0.003, 0, 0});
  bench.reporter.report(2, 0, 32, 0.5);
  CHECK(bench.metrics.str() ==
        "mlk step=2 epoch=0 loss=0.5 samples_per_s=0 compute_ms=2.000 data_ms=0.100\n");
  CHECK(bench.result()["metrics"]["compute_ms"] == 2);

  bench.metrics.str("");
  telemetry.step(3, 16, {1, 0, 0});
  bench.reporter.report(3, 0, 48, 0.5);
  CHECK(bench.metrics.str() ==
        "mlk step=3 epoch=0 loss=0.5 samples_per_s=0 compute_ms=1000.000 data_ms=0.000\n");
}

TEST_CASE(
    "a printed line of a distributed run has the state of the run, and lost samples or a slow worker only if "
    "there are any") {
  Reports bench;
  bench.reporter.started(0, 0);
  Telemetry& telemetry = bench.reporter.telemetry();
  telemetry.run({4, 2, 0, 0, {}});
  telemetry.step(1, 16, {0.001, 0, 0.002});
  bench.reporter.report(1, 0, 16, 0.5);
  CHECK(bench.metrics.str() ==
        "mlk step=1 epoch=0 loss=0.5 samples_per_s=0 compute_ms=1.000 data_ms=0.000 comm_ms=2.000 world=4 "
        "generation=2 restarts=0\n");

  bench.metrics.str("");
  telemetry.run({3, 3, 1, 64, 2});
  telemetry.staleness({5, 3, 2});
  bench.reporter.report(2, 0, 32, 0.5);
  CHECK(bench.metrics.str() ==
        "mlk step=2 epoch=0 loss=0.5 samples_per_s=0 world=3 generation=3 restarts=1 staleness=2.5 "
        "staleness_max=3 lost_samples=64 slowest=worker/2\n");
  CHECK(bench.result()["metrics"] == json::parse(R"({"loss":0.5,"samples_per_s":0,"world":3,"generation":3,
      "restarts":1,"staleness":2.5,"staleness_max":3,"lost_samples":64,"slowest":"worker/2"})"));
}

TEST_CASE("in the result, `done` is true after a successful end, and `message` is set after a failure") {
  Reports bench;
  bench.reporter.started(40, 0);
  bench.reporter.report(50, 0, 10, 1);
  CHECK(bench.result()["done"] == false);
  CHECK(bench.result()["restored_step"] == 40);
  bench.reporter.finish(true, "");
  CHECK(bench.result()["done"] == true);
  CHECK(bench.result()["step"] == 50);
  bench.reporter.finish(false, "disk \"full\"\n");
  CHECK(bench.result()["done"] == false);
  CHECK(bench.result()["message"] == "disk \"full\"\n");
}

TEST_CASE("the newest checkpoint is in each result, even in the result of a rank that never reported") {
  Reports bench, silent;
  bench.reporter.report(50, 0, 10, 1);
  CHECK_FALSE(bench.result().contains("checkpoint"));
  bench.reporter.checkpoint(40);
  bench.reporter.checkpoint(0);  // 0: this process knows of no checkpoint, and the result keeps the known one
  bench.reporter.report(60, 0, 10, 1);
  CHECK(bench.result()["checkpoint"] == 40);
  silent.reporter.checkpoint(70);
  silent.reporter.finish(false, "terminated");
  CHECK(silent.result() ==
        json::parse(R"({"schema":1,"rank":7,"checkpoint":70,"done":false,"message":"terminated"})"));
}

TEST_CASE("the result of a rank that never reported has no metrics, and has the reason why the rank ends") {
  Reports bench;
  bench.reporter.finish(false, "peers lost");
  CHECK(bench.result() == json::parse(R"({"schema":1,"rank":7,"done":false,"message":"peers lost"})"));
}

TEST_CASE("if the run is trained, a rank without reports writes the result of the reporting rank") {
  Reports reporting, other;
  reporting.reporter.report(200, 2, 100, 0.125);
  const std::string result = reporting.reporter.trained_result();
  CHECK(reporting.result()["done"] == false);
  other.reporter.finish_with(result);
  reporting.reporter.finish(true, "");
  CHECK(other.result() == reporting.result());
  CHECK(other.result()["step"] == 200);

  for (const std::string& none : {std::string(), std::string(4000, ' ')}) {
    other.reporter.finish_with(none);
    CHECK(other.result() == json::parse(R"({"schema":1,"rank":7,"done":true,"message":""})"));
  }
}

TEST_CASE("the result has at most 3 KiB, even for long messages and long runs") {
  Reports bench;
  for (std::uint64_t step = 1; step <= 5000; ++step)
    bench.reporter.report(999'999'990'000 + step, step, step, 1.2345e-17);
  const std::vector<std::string> messages = {std::string(100'000, 'x'), std::string(9000, '\x01'),
                                             std::string(9000, '\xff'), std::string(3000, '"'), [] {
                                               std::string text;
                                               for (int i = 0; i < 2000; ++i) text += "ä";
                                               return text;
                                             }()};
  for (const std::string& message : messages) {
    bench.reporter.finish(false, message);
    const std::string text = read_file(bench.path);
    CHECK(text.size() <= 3072);
    const json result = json::parse(text);
    CHECK(result["curve"].size() <= 64);
    CHECK(result["message"].get<std::string>().size() > 100);
  }
}

TEST_CASE("a shorter result completely replaces a longer result, even one that an earlier process wrote") {
  Reports bench;
  mlk::test::write_file(bench.path, std::string(2900, 'x'));
  bench.reporter.finish(false, std::string(500, 'y'));
  CHECK(bench.result()["message"] == std::string(500, 'y'));
  bench.reporter.finish(false, "short");
  CHECK(bench.result()["message"] == "short");
}

TEST_CASE("the result is rewritten in place, because it may be a bind mount") {
  Reports bench;
  mlk::test::write_file(bench.path, "");
  std::filesystem::create_hard_link(bench.path, bench.folder / "same");
  bench.reporter.finish(false, "x");
  CHECK(read_file(bench.folder / "same") == read_file(bench.path));
}

TEST_CASE("a result file that cannot be written does not stop the reports") {
  std::ostringstream metrics;
  Reporter reporter(metrics, "/nowhere/result", 0, [] { return 0.0; });
  reporter.started(0, 0);
  reporter.report(1, 0, 64, 0.5);
  CHECK(metrics.str() == "mlk step=1 epoch=0 loss=0.5 samples_per_s=0\n");
}

TEST_CASE("a reporter prints later lines even if an earlier line could not be printed") {
  Reports bench;
  bench.reporter.report(1, 0, 64, 0.5);
  bench.metrics.str("");
  bench.metrics.setstate(std::ios::badbit);  // as after a disk that was full for a moment
  bench.reporter.report(2, 0, 128, 0.25);
  CHECK(bench.metrics.str().starts_with("mlk step=2 "));
}

TEST_CASE("the result of an earlier process is removed completely, even if the disk was full at first") {
  Reports bench;
  mlk::test::write_file(bench.path, std::string(2900, 'x'));
  rlimit usual;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  bench.reporter.finish(false, "first");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &usual) == 0);
  std::signal(SIGXFSZ, handler);
  bench.reporter.finish(false, "second");
  CHECK(bench.result()["message"] == "second");
}

TEST_CASE("the result is valid JSON although the loss is NaN") {
  Reports bench;
  bench.reporter.report(1, 0, 64, std::numeric_limits<double>::quiet_NaN());
  CHECK(bench.result()["metrics"]["loss"].is_null());
}

TEST_CASE("a curve keeps its first and last point, and is thinned evenly") {
  Curve curve;
  for (std::uint64_t step = 1; step <= 10'000; ++step) {
    curve.add(step, 1.0 / static_cast<double>(step));
    const auto points = curve.points();
    REQUIRE(points.size() <= 64);
    REQUIRE(points.size() >= std::min<std::uint64_t>(step, 32));
    REQUIRE(points.front().first == 1);
    REQUIRE(points.back().first == step);
    // All gaps are the same, except that the gap before the last point may be shorter.
    for (std::size_t i = 2; i + 1 < points.size(); ++i) {
      REQUIRE(points[i].first - points[i - 1].first == points[1].first - points[0].first);
    }
  }
  CHECK(Curve().points().empty());
}

TEST_CASE("a curve has the last step once, with its latest loss") {
  Curve curve;
  curve.add(10, 0.5);
  curve.add(20, 0.25);
  curve.add(20, 0.2);
  CHECK(curve.points() == std::vector<std::pair<std::uint64_t, double>>{{10, 0.5}, {20, 0.2}});
}

TEST_CASE("a curve that was read from its text takes new points, and is thinned as before") {
  for (const std::uint64_t length : {1u, 2u, 63u, 64u, 65u, 200u, 1000u}) {
    CAPTURE(length);
    Curve whole, before;
    for (std::uint64_t step = 1; step <= length; ++step) before.add(step, 1.0 / static_cast<double>(step));
    CHECK(Curve::up_to(length, before.text())->points() == before.points());
    Curve after = *Curve::up_to(length, before.text());
    for (std::uint64_t step = length + 1; step <= 5000; ++step) {
      after.add(step, 0.5);
      REQUIRE(after.points().size() <= 64);
    }
    const auto points = after.points();
    CHECK(points.front().first == 1);
    CHECK(points.back().first == 5000);
    // The gaps are nearly even: points from before the restart are as dense as points after it.
    for (std::size_t i = 2; i + 1 < points.size(); ++i)
      CHECK(points[i].first - points[i - 1].first <= 2 * (points[1].first - points[0].first));
  }
}

TEST_CASE("a curve is read from its text only up to the given step") {
  Curve curve;
  for (const std::uint64_t step : {10, 20, 30}) curve.add(step, static_cast<double>(step) / 100);
  const std::string text = curve.text();
  CHECK(Curve::up_to(25, text)->points() == std::vector<Curve::Point>{{10, 0.1}, {20, 0.2}});
  CHECK(Curve::up_to(30, text)->points().size() == 3);
  CHECK(Curve::up_to(10, text)->points().size() == 1);
  CHECK_FALSE(Curve::up_to(9, text));
  for (const char* other : {"", "7", "[]", "{", R"({"schema": 2, "every": 1, "curve": [[1, 2]]})",
                            R"({"schema": 1, "every": 0, "curve": [[1, 2]]})", R"({"schema": 1, "every": 1})",
                            R"({"schema": 1, "every": 1, "curve": [[1, "2"]]})",
                            R"({"schema": 1, "every": 1, "curve": [[1, 2], [1, 2]]})"}) {
    CAPTURE(other);
    CHECK_FALSE(Curve::up_to(100, other));
  }
}
