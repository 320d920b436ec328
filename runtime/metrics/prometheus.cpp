// Families of samples, each with its help text and type.
#include "runtime/metrics/prometheus.h"

#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace mlk::rt {
namespace {

std::string sample_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[64];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

class Families {
 public:
  void head(const char* name, const char* type, const char* help) {
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& name, double value) { text_ += name + " " + sample_value(value) + "\n"; }
  // Leaves out a value that is not known.
  void one(const char* name, const char* type, const char* help, std::optional<double> value) {
    if (!value) return;
    head(name, type, help);
    sample(name, *value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

double as_double(std::uint64_t value) { return static_cast<double>(value); }

void put_step_seconds(Families& families, const Measurements& m) {
  families.head("mlk_step_seconds", "histogram", "Time of a step of this process.");
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < step_bounds.size(); ++i) {
    count += m.durations[i];
    families.sample("mlk_step_seconds_bucket{le=\"" + sample_value(step_bounds[i]) + "\"}", as_double(count));
  }
  families.sample("mlk_step_seconds_bucket{le=\"+Inf\"}", as_double(m.steps));
  families.sample("mlk_step_seconds_sum", m.times.total());
  families.sample("mlk_step_seconds_count", as_double(m.steps));
}

void put_run(Families& families, const RunView& run) {
  families.one("mlk_world_size", "gauge", "Workers that take part in the run.", run.workers);
  families.one("mlk_generation", "gauge", "Generation of the membership.", as_double(run.generation));
  families.one("mlk_restarts_total", "counter", "Losses of workers and servers that the run went on after.",
               as_double(run.restarts));
  families.one("mlk_lost_samples_total", "counter",
               "Samples trained in part or not at all because a worker was lost.",
               as_double(run.lost_samples));
  if (!run.slowest) return;
  families.head("mlk_slowest", "gauge", "The worker whose steps take clearly longer than the others'.");
  families.sample("mlk_slowest{process=\"worker/" + std::to_string(*run.slowest) + "\"}", 1);
}

// The values that only the reporting rank has.
void put_report(Families& families, const Report& report) {
  families.one("mlk_epoch", "gauge", "Epoch of the run.", as_double(report.epoch));
  families.one("mlk_loss", "gauge", "Mean training loss of the last report.", report.loss);
  families.one("mlk_samples_per_second", "gauge", "Samples that the whole run trains on in a second.",
               report.samples_per_s);
  families.one("mlk_tokens_per_second", "gauge", "Tokens that the whole run trains on in a second.",
               report.tokens_per_s);
  families.one("mlk_mfu", "gauge", "What the model needs, of the most that the GPUs can compute.",
               report.mfu);
}

void put_gpu(Families& families, const GpuView& gpu) {
  families.one("mlk_gpu_utilization", "gauge", "Share of the time in which the GPU of this process computed.",
               gpu.utilization);
  families.one("mlk_gpu_memory_bytes", "gauge", "Memory in use of the GPU of this process.",
               gpu.memory_bytes);
  families.one("mlk_gpu_power_watts", "gauge", "Power of the GPU of this process.", gpu.watts);
}

}  // namespace

std::string prometheus_text(const Measurements& m) {
  Families families;
  if (m.step)
    families.one("mlk_step", "gauge", "Step of the run, as far as this process knows.", as_double(*m.step));
  if (m.report) put_report(families, *m.report);
  families.one("mlk_accuracy", "gauge", "Share of the held-out set that is right.", m.accuracy);
  families.one("mlk_held_out_loss", "gauge", "Mean loss on the held-out set.", m.held_out_loss);
  families.one("mlk_samples_total", "counter", "Samples that this process has trained on.",
               as_double(m.samples));
  put_step_seconds(families, m);
  families.one("mlk_compute_seconds_total", "counter", "Time in steps spent on computing.", m.times.compute);
  families.one("mlk_data_wait_seconds_total", "counter", "Time in steps spent waiting for data.",
               m.times.data);
  families.one("mlk_comm_wait_seconds_total", "counter", "Time in steps spent waiting for peers.",
               m.times.communication);
  if (m.staleness) {
    families.one("mlk_staleness", "gauge", "Mean age of the weights behind a gradient, last report.",
                 m.staleness->mean());
    families.one("mlk_staleness_max", "gauge", "The same, at most.", as_double(m.staleness->most));
  }
  put_gpu(families, m.gpu);
  if (m.bus)
    families.one("mlk_nccl_bus_bytes_per_second", "gauge", "Bus bandwidth of sums by NCCL, last report.",
                 m.bus->bytes_per_second());
  if (m.run) put_run(families, *m.run);
  return families.take();
}

}  // namespace mlk::rt
