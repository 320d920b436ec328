// What a worker reports about its run and when, what it logs about itself, and how a run of one process ends
// after a signal.
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <limits>
#include <pthread.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/train/single.h"
#include "runtime/train/trainer.h"
#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/metrics/run_reports");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

// A worker with a log in a file, and with a clock that stands still.
struct ReportingWorker : WorkerJob {
  std::string log_path = folder / "log";
  int log_fd = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  Log kept{"worker", log_fd};
  Reporter reports_to{metrics, folder / "result", 0, [] { return 1.0; }};
  Job own{env, config, stop, reports_to, kept};

  ReportingWorker() {
    config.data.batch = 16;
    config.steps = 100;
    config.report_every = 2;
  }
  ~ReportingWorker() { close(log_fd); }

  // The lines since the last call, each without its speed.
  std::string said() {
    std::string text = metrics.str();
    metrics.str("");
    for (std::size_t at; (at = text.find(" samples_per_s=0")) != std::string::npos;) text.erase(at, 16);
    return text;
  }
  nlohmann::json result() const { return nlohmann::json::parse(read_file(folder / "result")); }
  std::string log_text() const { return read_file(log_path); }
};

// Runs the body in a thread that has got a signal to stop.
void when_told_to_stop(const std::function<void()>& body) {
  std::thread([&] {
    pthread_kill(pthread_self(), SIGTERM);
    body();
  }).join();
}

}  // namespace

TEST_CASE(
    "a report is due at or after each multiple of the interval, and has the mean loss since the previous "
    "report") {
  ReportingWorker worker;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  CHECK(reports.at_step(0, 0, 0, false));
  reports.add_loss(3, 2);
  CHECK(reports.at_step(1, 16, 0, false));
  CHECK(worker.said() == "");
  reports.add_loss(1, 2);
  CHECK(reports.at_step(2, 132, 0, false));
  CHECK(worker.said() == "mlk step=2 epoch=1 loss=1\n");
  reports.add_loss(5, 1);
  CHECK(reports.at_step(3, 148, 0, false));
  CHECK(worker.said() == "");
  CHECK(reports.at_step(5, 216, 0, false));
  CHECK(worker.said() == "mlk step=5 epoch=2 loss=5\n");
  CHECK(reports.at_step(6, 232, 0, false));
  CHECK(worker.said() == "mlk step=6 epoch=2 loss=5\n");
  CHECK(worker.result()["restored_step"] == 0);

  // The last step is evaluated once, and reported once.
  CHECK(reports.at_step(6, 232, 0, true));
  CHECK(worker.said().starts_with("mlk step=6 epoch=2 loss=5 accuracy="));
  CHECK(reports.at_step(6, 232, 0, true));
  CHECK(worker.said() == "");
  CHECK(reports.at_step(7, 232, 0, true));
  CHECK(worker.said().starts_with("mlk step=7 epoch=2 loss=5 accuracy="));
}

TEST_CASE("an evaluation causes a report even at a step at which no report is due") {
  ReportingWorker worker;
  worker.config.report_every = 4;
  worker.config.evaluate_every = 3;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  reports.at_step(10, 160, 10, false);
  reports.add_loss(2, 1);
  reports.at_step(11, 176, 10, false);
  CHECK(worker.said() == "");
  reports.at_step(12, 192, 10, false);
  CHECK(worker.said().starts_with("mlk step=12 epoch=1 loss=2 accuracy="));
  reports.at_step(15, 240, 10, false);
  CHECK(worker.said().starts_with("mlk step=15 epoch=2 loss=2 accuracy="));
  reports.at_step(16, 256, 10, false);
  CHECK(worker.said() == "mlk step=16 epoch=2 loss=2\n");
  reports.at_step(18, 288, 10, true);
  CHECK(worker.said().starts_with("mlk step=18 epoch=2 loss=2 accuracy="));
  reports.at_step(18, 288, 10, true);
  CHECK(worker.said() == "");
  CHECK(worker.result()["restored_step"] == 10);
  CHECK(worker.result()["curve"].size() == 4);
}

TEST_CASE("if no step was trained, the reported loss is the loss of the evaluation") {
  ReportingWorker worker;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  const auto evaluation = trainer.model().evaluate(*trainer.data().held_out, [] { return false; });
  REQUIRE(evaluation);
  CHECK(reports.at_step(100, 1600, 100, true));
  CHECK(worker.result()["metrics"]["loss"].get<double>() == doctest::Approx(evaluation->loss).epsilon(1e-3));
  CHECK(worker.result()["metrics"]["accuracy"].get<double>() ==
        doctest::Approx(evaluation->accuracy).epsilon(1e-3));
  CHECK(worker.said().starts_with("mlk step=100 epoch=16 loss="));
}

TEST_CASE(
    "if a step was trained, the last report has the loss of the training, and not that of the evaluation") {
  ReportingWorker worker;
  worker.config.report_every = 1000;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  reports.at_step(0, 0, 0, false);
  reports.add_loss(42, 1);
  CHECK(reports.at_step(1, 16, 0, true));
  CHECK(worker.result()["metrics"]["loss"] == 42);
}

TEST_CASE("a run fails as diverged if its loss on the held-out set is not a number") {
  ReportingWorker worker;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  for (float& value : trainer.model().parameters()) value = std::numeric_limits<float>::quiet_NaN();
  try {
    reports.at_step(5, 80, 0, true);
    FAIL("it goes on");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::diverged);
    CHECK(std::string(failure.what()) == "diverged: the loss on the held-out set is not a number");
  }
  CHECK(worker.said() == "");
}

TEST_CASE("an evaluation that a signal interrupts is not reported") {
  ReportingWorker worker;
  Trainer trainer(worker.own);
  RunReports reports(worker.own, trainer);
  when_told_to_stop([&] { CHECK_FALSE(reports.at_step(5, 80, 0, true)); });
  CHECK(worker.said() == "");
}

TEST_CASE("a worker logs a description of its data, and warns if its processor only emulates the precision") {
  for (const auto precision : {mlk::kernels::Precision::float32, mlk::kernels::Precision::bfloat16}) {
    ReportingWorker worker;
    worker.config.precision = precision;
    const Trainer trainer(worker.own);
    const bool imitates =
        precision == mlk::kernels::Precision::bfloat16 && !mlk::kernels::multiplies_bfloat16();
    CHECK(worker.log_text() ==
          "worker: 100 samples to train on, 40 held out, 163 parameters, 3 classes of 4 x 4\n" +
              std::string(imitates
                              ? "worker: this processor does not multiply bfloat16: imitated, no faster than "
                                "float32\n"
                              : ""));
  }
}

TEST_CASE("a run of one process counts its steps, its samples and their times") {
  ReportingWorker worker;
  worker.config.steps = 7;
  worker.config.report_every = 1000;
  CHECK(run_single(worker.own) == ExitCode::trained);
  const Measurements measured = worker.reports_to.telemetry().measurements();
  CHECK(measured.step == 7);
  CHECK(measured.steps == 7);
  CHECK(measured.samples == 7 * 16);
  CHECK(measured.times.compute > 0);
  CHECK(measured.times.data > 0);
  CHECK_FALSE(measured.run);
  CHECK_FALSE(worker.result().contains("checkpoint"));
}

TEST_CASE("a run of one process that gets SIGTERM says whether its last step has a checkpoint") {
  ReportingWorker worker;
  const auto stopped = [&] {
    ExitCode code = ExitCode::trained;
    when_told_to_stop([&] { code = run_single(worker.own); });
    CHECK(code == ExitCode::terminated);
    return worker.log_text().substr(worker.log_text().rfind("worker: "));
  };
  CHECK(stopped() == "worker: terminated after step 0, no checkpoint\n");
  worker.env.checkpoints = worker.folder / "checkpoints";
  CHECK(stopped() == "worker: terminated after step 0, no checkpoint\n");
  worker.config.steps = 5;
  worker.config.checkpoint.every = 2;
  REQUIRE(run_single(worker.own) == ExitCode::trained);
  CHECK(worker.result()["checkpoint"] == 5);
  worker.config.steps = 100;
  CHECK(stopped() == "worker: terminated after step 5, checkpoint written\n");
  CHECK(worker.log_text().find("worker: goes on from the checkpoint of step 5\n") != std::string::npos);
  CHECK(worker.result()["done"] == false);
  CHECK(worker.result()["checkpoint"] == 5);
  CHECK(worker.result()["message"] == "terminated after step 5");
}
