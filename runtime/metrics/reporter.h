// What a process reports: metrics lines on stdout and the result file, as in CONTRACT.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/metrics/curve.h"
#include "runtime/metrics/event_writer.h"
#include "runtime/metrics/telemetry.h"

namespace mlk::rt {

// One per process. For one thread at a time, except telemetry(), which any thread may call. A rank becomes
// the reporting rank with its first report(). Until the run is trained, the result file of any other rank has
// only its rank, its newest checkpoint, the reason why a later checkpoint is missing, and its message.
class Reporter {
 public:
  // result_path: empty if no result file is wanted. The file is rewritten in place, never replaced by a
  // rename: in a pod it is a bind mount.
  Reporter(std::ostream& metrics, std::string result_path, int rank, Clock clock = steady_seconds);

  // From now on, a separate thread also writes each report to event files for TensorBoard in this folder.
  void write_events(const std::string& folder, const Log& log) { events_.emplace(folder, log); }

  // Keeps the curve of the run beside its checkpoints in this folder.
  void store_curve_in(const std::string& folder) { curve_file_.emplace(folder); }

  // Adds the number of steps of the run to each report. Needed if the configuration does not have this
  // number.
  void total_steps(std::uint64_t steps) { total_steps_ = steps; }
  // Call this for a model that predicts tokens; its reports then have tokens per second, too.
  void tokens_of_sample(int tokens) { tokens_of_sample_ = tokens; }
  // The seconds that one device would need for a sample at its peak. With this value each report has the
  // model FLOPs utilisation of the run.
  void peak_seconds_of_sample(double seconds) { peak_seconds_of_sample_ = seconds; }

  // Call this when training starts or continues: throughput is measured from now on. restored_step: 0 for a
  // fresh run. step: the curve of earlier processes is kept up to this step.
  void started(std::uint64_t restored_step, std::uint64_t position, std::uint64_t step = 0);

  // Adds the accuracy on the held-out set to the next report(). Models that predict tokens also have a loss
  // on that set.
  void evaluation(double accuracy, std::optional<double> loss = {});

  // Adds the newest step that has a checkpoint (0: none) to the next report, or to the final result.
  void checkpoint(std::uint64_t step) { checkpoint_ = std::max(checkpoint_, step); }
  // Adds the step since which no checkpoint could be saved, and the reason. nullopt: no save has failed
  // since the newest checkpoint.
  void unsaved(const std::optional<Unsaved>& unsaved) { unsaved_ = unsaved; }

  // Prints a line and rewrites the result. position: samples taken by the whole run so far. loss: the mean
  // since the last report. The report includes the values given to telemetry(); times are means over the
  // steps that this process has made since the last report.
  void report(std::uint64_t step, std::uint64_t epoch, std::uint64_t position, double loss);

  // Writes the final result. done: true only if the run is trained. message: why the process ends, if the
  // run is not trained.
  void finish(bool done, const std::string& message);

  // The result of the trained run. The reporting rank sends this result to the other ranks, and each rank
  // writes it with finish_with(), so any surviving file says how the run ended. finish_with() handles an
  // empty or too large result as finish(true, "").
  std::string trained_result() const { return result_text(true, ""); }
  void finish_with(const std::string& trained_result);

  Telemetry& telemetry() { return telemetry_; }

 private:
  // One value of a report: a number, or a bare word.
  struct Figure {
    std::string name, text;
    std::optional<double> value;  // of a number
  };
  void write(std::string text);
  void store_last_curve();
  std::vector<Figure> figures(const Report& report, const Telemetry::Interval& interval) const;
  std::string result_text(bool done, const std::string& message) const;

  std::ostream& metrics_;
  std::string result_path_;
  int rank_;
  Clock clock_;

  Telemetry telemetry_;
  bool reported_ = false;
  Report report_;                // the last report
  std::vector<Figure> figures_;  // of the last report
  std::uint64_t restored_step_ = 0, checkpoint_ = 0, total_steps_ = 0;
  std::optional<Unsaved> unsaved_;
  int tokens_of_sample_ = 0;
  double peak_seconds_of_sample_ = 0;
  std::optional<double> accuracy_, held_out_loss_;  // the newest values; they stay in the result
  bool evaluation_is_new_ = false;                  // not yet printed
  std::uint64_t position_ = 0;                      // at the last report
  double reported_at_ = 0;
  Curve curve_;
  std::uint64_t continued_to_ = 0;  // the last step of the curve of earlier processes
  std::uint64_t curve_kept_at_ = 0;
  std::optional<CurveFile> curve_file_;
  std::optional<EventWriter> events_;
  std::size_t longest_ = 0;  // the longest text in the file so far
  bool cut_ = false;         // the rest of an earlier process's text was removed
};

}  // namespace mlk::rt
