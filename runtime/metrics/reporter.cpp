// Metrics lines and the result file. Most numbers have four digits: more digits would be noise, and a result
// with a curve must fit into 3 KiB.
#include "runtime/metrics/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace mlk::rt {
namespace {

constexpr std::size_t max_result_bytes = 3 * 1024, max_reason_bytes = 256;

std::string number(double value, const char* format = "%.4g") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// JSON has no word for NaN.
std::string json_number(double value) { return std::isfinite(value) ? number(value) : "null"; }

// A string as JSON. Messages may quote bytes of files that are not UTF-8.
std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// At most `limit` bytes in quotes, cut at the end, where a message is least important.
std::string json_string_within(std::string text, std::size_t limit) {
  std::string result = json_string(text);
  while (result.size() > limit && !text.empty()) {
    // Cuts in proportion, because a byte may take up to six bytes in JSON, and cuts at least one byte, so
    // that the loop ends.
    text.resize(std::min(text.size() - 1, text.size() * limit / result.size()));
    result = json_string(text);
  }
  return result;
}

}  // namespace

Reporter::Reporter(std::ostream& metrics, std::string result_path, int rank, Clock clock)
    : metrics_(metrics), result_path_(std::move(result_path)), rank_(rank), clock_(std::move(clock)) {}

void Reporter::started(std::uint64_t restored_step, std::uint64_t position, std::uint64_t step) {
  if (curve_file_ && step > 0) {
    if (auto earlier = curve_file_->load(step)) {
      curve_ = std::move(*earlier);
      continued_to_ = curve_.points().back().first;
    }
  }
  restored_step_ = restored_step;
  position_ = position;
  reported_at_ = clock_();
  telemetry_.start_interval();
}

void Reporter::evaluation(double accuracy, std::optional<double> loss) {
  accuracy_ = accuracy;
  held_out_loss_ = loss;
  evaluation_is_new_ = true;
  telemetry_.evaluated(accuracy, loss);
}

void Reporter::report(std::uint64_t step, std::uint64_t epoch, std::uint64_t position, double loss) {
  const double now = clock_(), elapsed = now - reported_at_;
  report_ = {step, epoch, loss, report_.samples_per_s};
  if (elapsed > 0 && position > position_)
    report_.samples_per_s = static_cast<double>(position - position_) / elapsed;
  if (tokens_of_sample_ > 0) report_.tokens_per_s = report_.samples_per_s * tokens_of_sample_;
  if (peak_seconds_of_sample_ > 0) {
    const auto run = telemetry_.measurements().run;
    report_.mfu = report_.samples_per_s * peak_seconds_of_sample_ / std::max(1u, run ? run->workers : 1u);
  }
  reported_at_ = now;
  position_ = position;
  reported_ = true;
  if (continued_to_ == 0 || step > continued_to_) curve_.add(step, loss);
  if (curve_file_ && checkpoint_ > curve_kept_at_) {
    curve_file_->save(curve_);
    curve_kept_at_ = checkpoint_;
  }
  figures_ = figures(report_, telemetry_.report(report_));

  std::string line = "mlk step=" + std::to_string(step) + " epoch=" + std::to_string(epoch);
  if (total_steps_ > 0) line += " steps=" + std::to_string(total_steps_);
  if (checkpoint_ > 0) line += " checkpoint=" + std::to_string(checkpoint_);
  if (unsaved_) line += " unsaved=" + std::to_string(unsaved_->since);
  std::vector<Scalar> scalars = {{"epoch", static_cast<double>(epoch)}};
  for (const Figure& figure : figures_) {
    const bool evaluated = figure.name == "accuracy" || figure.name == "held_out_loss";
    if (evaluated && !evaluation_is_new_) continue;  // an earlier line has this evaluation
    line += " " + figure.name + "=" + figure.text;
    if (figure.value) scalars.push_back({figure.name, *figure.value});
  }
  evaluation_is_new_ = false;
  metrics_.clear();  // a failed line, for example on a full disk, must not suppress later ones
  metrics_ << line + "\n" << std::flush;
  if (events_) events_->write(step, scalars);
  write(result_text(false, ""));
}

// People read the line. So it leaves out values that are not known or do not apply to the run, and
// lost_samples while it is 0. CONTRACT.md explains each key under "Metrics".
std::vector<Reporter::Figure> Reporter::figures(const Report& report,
                                                const Telemetry::Interval& interval) const {
  std::vector<Figure> figures;
  const auto add = [&](const char* name, double value, const char* format = "%.4g") {
    figures.push_back({name, number(value, format), value});
  };
  const auto count = [&](const char* name, std::uint64_t value) {
    figures.push_back({name, std::to_string(value), static_cast<double>(value)});
  };
  add("loss", report.loss);
  if (accuracy_) add("accuracy", *accuracy_);
  if (held_out_loss_) add("held_out_loss", *held_out_loss_);
  add("samples_per_s", report.samples_per_s, "%.0f");
  if (report.tokens_per_s) add("tokens_per_s", *report.tokens_per_s, "%.0f");
  if (report.mfu) add("mfu", *report.mfu, "%.3f");
  const Measurements measured = telemetry_.measurements();
  const std::optional<RunView>& run = measured.run;
  if (interval.steps > 0) {
    const double to_ms = 1000 / static_cast<double>(interval.steps);
    add("compute_ms", interval.times.compute * to_ms, "%.3f");
    add("data_ms", interval.times.data * to_ms, "%.3f");
    if (run) add("comm_ms", interval.times.communication * to_ms, "%.3f");
  }
  constexpr double gib = 1 << 30;
  if (measured.gpu.utilization) add("gpu_util", *measured.gpu.utilization, "%.2f");
  if (measured.gpu.memory_bytes) add("gpu_memory_gib", *measured.gpu.memory_bytes / gib, "%.1f");
  if (measured.gpu.watts) add("gpu_watts", *measured.gpu.watts, "%.0f");
  if (interval.bus.seconds > 0) add("nccl_gb_per_s", interval.bus.bytes_per_second() / 1e9, "%.3g");
  if (!run) return figures;
  count("world", run->workers);
  count("generation", run->generation);
  count("restarts", run->restarts);
  if (interval.staleness.count > 0) {
    add("staleness", interval.staleness.mean());
    count("staleness_max", interval.staleness.most);
  }
  if (run->lost_samples > 0) count("lost_samples", run->lost_samples);
  if (run->slowest) figures.push_back({"slowest", "worker/" + std::to_string(*run->slowest), {}});
  return figures;
}

void Reporter::finish(bool done, const std::string& message) {
  store_last_curve();
  write(result_text(done, message));
}

void Reporter::store_last_curve() {
  if (reported_ && curve_file_) curve_file_->save_now(curve_);
}

void Reporter::finish_with(const std::string& trained_result) {
  store_last_curve();
  const bool usable = !trained_result.empty() && trained_result.size() <= max_result_bytes;
  write(usable ? trained_result : result_text(true, ""));
}

std::string Reporter::result_text(bool done, const std::string& message) const {
  std::string text = "{\"schema\":1,";
  if (reported_) {
    text += "\"step\":" + std::to_string(report_.step) + ",\"epoch\":" + std::to_string(report_.epoch);
    if (total_steps_ > 0) text += ",\"steps\":" + std::to_string(total_steps_);
    text += ",\"metrics\":{";
    for (const Figure& figure : figures_) {
      const bool finite = figure.value && std::isfinite(*figure.value);
      const std::string value = finite ? figure.text : figure.value ? "null" : json_string(figure.text);
      text += (&figure == figures_.data() ? "\"" : ",\"") + figure.name + "\":" + value;
    }
    text += "},\"curve\":[";
    bool first = true;
    for (const auto& [step, loss] : curve_.points()) {
      text += (first ? "[" : ",[") + std::to_string(step) + "," + json_number(loss) + "]";
      first = false;
    }
    text += "],\"restored_step\":" + std::to_string(restored_step_);
  } else {
    text += "\"rank\":" + std::to_string(rank_);
  }
  if (checkpoint_ > 0) text += ",\"checkpoint\":" + std::to_string(checkpoint_);
  if (unsaved_) {
    text += ",\"unsaved\":" + std::to_string(unsaved_->since) +
            ",\"unsaved_reason\":" + json_string_within(unsaved_->reason, max_reason_bytes);
  }
  text += std::string(",\"done\":") + (done ? "true" : "false") + ",\"message\":";
  return text + json_string_within(message, max_result_bytes - text.size() - 2) + "}\n";
}

void Reporter::write(std::string text) {
  if (result_path_.empty()) return;
  // Pads the text to the length of the longest text so far, so that one write replaces the whole text: if the
  // process were killed between a write and a truncation, the file would keep the tail of a longer text. The
  // first write also truncates the file, because an earlier process may have left a longer text.
  longest_ = std::max(longest_, text.size());
  text.resize(longest_, ' ');
  const int fd = open(result_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return;  // the metrics lines still have all values
  if (pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) && !cut_)
    cut_ = ftruncate(fd, static_cast<off_t>(text.size())) == 0;
  close(fd);
}

}  // namespace mlk::rt
