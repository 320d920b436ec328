#include "runtime/metrics/prometheus.h"

#include <limits>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/metrics/prometheus");

namespace mlk::rt {
namespace {

namespace whole_exposition {

std::string buckets(const std::vector<int>& counts) {
  const char* bounds[] = {"0.0001", "0.00025", "0.001", "0.0025", "0.01", "0.025", "0.1",
                          "0.25",   "1",       "2.5",   "10",     "25",   "100",   "+Inf"};
  std::string text =
      "# HELP mlk_step_seconds Time of a step of this process.\n# TYPE mlk_step_seconds histogram\n";
  for (std::size_t i = 0; i < std::size(bounds); ++i) {
    text += std::string("mlk_step_seconds_bucket{le=\"") + bounds[i] + "\"} " + std::to_string(counts.at(i)) +
            "\n";
  }
  return text;
}

std::string value_of_loss(double loss) {
  Measurements m;
  m.report = Report{1, 1, loss, 1};
  const std::string text = prometheus_text(m), line = "\nmlk_loss ";
  const std::size_t at = text.find(line) + line.size();
  return text.substr(at, text.find('\n', at) - at);
}

}  // namespace whole_exposition

TEST_CASE(
    "before a process has done anything, it exports only its counters and the histogram of its steps, all "
    "zero") {
  CHECK(prometheus_text({}) ==
        "# HELP mlk_samples_total Samples that this process has trained on.\n"
        "# TYPE mlk_samples_total counter\n"
        "mlk_samples_total 0\n" +
            whole_exposition::buckets(std::vector<int>(14, 0)) +
            "mlk_step_seconds_sum 0\n"
            "mlk_step_seconds_count 0\n"
            "# HELP mlk_compute_seconds_total Time in steps spent on computing.\n"
            "# TYPE mlk_compute_seconds_total counter\n"
            "mlk_compute_seconds_total 0\n"
            "# HELP mlk_data_wait_seconds_total Time in steps spent waiting for data.\n"
            "# TYPE mlk_data_wait_seconds_total counter\n"
            "mlk_data_wait_seconds_total 0\n"
            "# HELP mlk_comm_wait_seconds_total Time in steps spent waiting for peers.\n"
            "# TYPE mlk_comm_wait_seconds_total counter\n"
            "mlk_comm_wait_seconds_total 0\n");
}

TEST_CASE("prometheus_text() gives every family a name, a type, a help text and a value, in a fixed order") {
  Measurements m;
  m.step = 12;
  m.steps = 105;
  m.samples = 96;
  m.times = {0.5, 0.25, 2};
  for (std::size_t i = 0; i < m.durations.size(); ++i) m.durations[i] = i + 1;
  m.report = Report{13, 7, 0.125, 41233};
  m.accuracy = 0.75;
  m.held_out_loss = 1.5;
  m.staleness = Staleness{6, 4, 4};
  m.run = RunView{3, 5, 2, 64, 1};
  CHECK(prometheus_text(m) ==
        "# HELP mlk_step Step of the run, as far as this process knows.\n"
        "# TYPE mlk_step gauge\n"
        "mlk_step 12\n"
        "# HELP mlk_epoch Epoch of the run.\n"
        "# TYPE mlk_epoch gauge\n"
        "mlk_epoch 7\n"
        "# HELP mlk_loss Mean training loss of the last report.\n"
        "# TYPE mlk_loss gauge\n"
        "mlk_loss 0.125\n"
        "# HELP mlk_samples_per_second Samples that the whole run trains on in a second.\n"
        "# TYPE mlk_samples_per_second gauge\n"
        "mlk_samples_per_second 41233\n"
        "# HELP mlk_accuracy Share of the held-out set that is right.\n"
        "# TYPE mlk_accuracy gauge\n"
        "mlk_accuracy 0.75\n"
        "# HELP mlk_held_out_loss Mean loss on the held-out set.\n"
        "# TYPE mlk_held_out_loss gauge\n"
        "mlk_held_out_loss 1.5\n"
        "# HELP mlk_samples_total Samples that this process has trained on.\n"
        "# TYPE mlk_samples_total counter\n"
        "mlk_samples_total 96\n" +
            whole_exposition::buckets({1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105}) +
            "mlk_step_seconds_sum 2.75\n"
            "mlk_step_seconds_count 105\n"
            "# HELP mlk_compute_seconds_total Time in steps spent on computing.\n"
            "# TYPE mlk_compute_seconds_total counter\n"
            "mlk_compute_seconds_total 0.5\n"
            "# HELP mlk_data_wait_seconds_total Time in steps spent waiting for data.\n"
            "# TYPE mlk_data_wait_seconds_total counter\n"
            "mlk_data_wait_seconds_total 0.25\n"
            "# HELP mlk_comm_wait_seconds_total Time in steps spent waiting for peers.\n"
            "# TYPE mlk_comm_wait_seconds_total counter\n"
            "mlk_comm_wait_seconds_total 2\n"
            "# HELP mlk_staleness Mean age of the weights behind a gradient, last report.\n"
            "# TYPE mlk_staleness gauge\n"
            "mlk_staleness 1.5\n"
            "# HELP mlk_staleness_max The same, at most.\n"
            "# TYPE mlk_staleness_max gauge\n"
            "mlk_staleness_max 4\n"
            "# HELP mlk_world_size Workers that take part in the run.\n"
            "# TYPE mlk_world_size gauge\n"
            "mlk_world_size 3\n"
            "# HELP mlk_generation Generation of the membership.\n"
            "# TYPE mlk_generation gauge\n"
            "mlk_generation 5\n"
            "# HELP mlk_restarts_total Losses of workers and servers that the run went on after.\n"
            "# TYPE mlk_restarts_total counter\n"
            "mlk_restarts_total 2\n"
            "# HELP mlk_lost_samples_total Samples trained in part or not at all because a worker was lost.\n"
            "# TYPE mlk_lost_samples_total counter\n"
            "mlk_lost_samples_total 64\n"
            "# HELP mlk_slowest The worker whose steps take clearly longer than the others'.\n"
            "# TYPE mlk_slowest gauge\n"
            "mlk_slowest{process=\"worker/1\"} 1\n");
  m.run->slowest.reset();
  CHECK(prometheus_text(m).ends_with("\nmlk_lost_samples_total 64\n"));
}

TEST_CASE(
    "values have at most fifteen digits, and values that are not finite are written as Prometheus spells "
    "them") {
  using whole_exposition::value_of_loss;
  CHECK(value_of_loss(0.123456789012345) == "0.123456789012345");
  CHECK(value_of_loss(-1e-7) == "-1e-07");
  CHECK(value_of_loss(std::numeric_limits<double>::quiet_NaN()) == "NaN");
  CHECK(value_of_loss(std::numeric_limits<double>::infinity()) == "+Inf");
  CHECK(value_of_loss(-std::numeric_limits<double>::infinity()) == "-Inf");
}

TEST_CASE("metrics of tokens and of the GPU are exported if they are known") {
  Telemetry telemetry;
  const auto served = [&](const std::string& line) {
    return prometheus_text(telemetry.measurements()).find("\n" + line + "\n") != std::string::npos;
  };
  telemetry.bus({3e9, 1.5});
  telemetry.report({.step = 1, .tokens_per_s = 6400, .mfu = 0.25});
  telemetry.gpu({0.875, 1024, {}});
  CHECK(served("mlk_tokens_per_second 6400"));
  CHECK(served("mlk_mfu 0.25"));
  CHECK(served("mlk_nccl_bus_bytes_per_second 2000000000"));
  CHECK(served("mlk_gpu_utilization 0.875"));
  CHECK(served("mlk_gpu_memory_bytes 1024"));
  CHECK_FALSE(served("# TYPE mlk_gpu_power_watts gauge"));
  telemetry.gpu({{}, {}, 312.5});
  CHECK(served("mlk_gpu_power_watts 312.5"));
  CHECK_FALSE(served("mlk_gpu_utilization 0.875"));
}

}  // namespace
}  // namespace mlk::rt
