// What the run tells the outside: metrics lines on stdout and the result file, as in CONTRACT.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/metrics/event_writer.h"
#include "runtime/metrics/telemetry.h"

namespace mlk::rt {

// The loss over a run in at most 64 points, evenly thinned: first and last are always there.
class Curve {
 public:
  void add(std::uint64_t step, double loss);
  std::vector<std::pair<std::uint64_t, double>> points() const;

 private:
  std::vector<std::pair<std::uint64_t, double>> kept_;
  std::optional<std::pair<std::uint64_t, double>> last_;
  std::uint64_t seen_ = 0, stride_ = 1;
};

// One per process; not for two threads at once, but telemetry() is for any. A rank becomes the one that
// reports with its first report(); a rank that never reported leaves only its rank and message in the result
// file, unless the run is trained.
class Reporter {
 public:
  // result_path: empty for none. It is rewritten in place, never renamed over: in a pod it is a bind mount.
  Reporter(std::ostream& metrics, std::string result_path, int rank, Clock clock = steady_seconds);

  // Reports go to event files for TensorBoard in this folder as well, by a thread of their own.
  void write_events(const std::string& folder, const Log& log) { events_.emplace(folder, log); }

  // How many steps the run makes, where its configuration does not say so: goes out with each report.
  void total_steps(std::uint64_t steps) { total_steps_ = steps; }

  // Training starts or goes on here: throughput counts from now on. step 0 for a fresh run.
  void started(std::uint64_t restored_step, std::uint64_t position);

  // Accuracy on the held-out set; goes out with the next report().
  void evaluation(double accuracy);

  // The newest step of which there is a checkpoint, 0: of none. Goes out with the next report or the last
  // words.
  void checkpoint(std::uint64_t step) { checkpoint_ = std::max(checkpoint_, step); }

  // Prints a line and rewrites the result. position: samples taken by the whole run so far; loss: mean since
  // the last report. What telemetry() was told goes out with it, times as the mean of a step of this process.
  void report(std::uint64_t step, std::uint64_t epoch, std::uint64_t position, double loss);

  // The last words: done only when the run is trained; message: why the process ends otherwise.
  void finish(bool done, const std::string& message);

  // The result of the trained run, for the ranks that did not report, and how they leave it: whichever
  // process's file survives, it tells what came of the run. Without one, or with one that is too large, as
  // finish(true, "").
  std::string trained_result() const { return result_text(true, ""); }
  void finish_with(const std::string& trained_result);

  Telemetry& telemetry() { return telemetry_; }

 private:
  // One of the things that a report says: a number, or a bare word.
  struct Figure {
    std::string name, text;
    std::optional<double> value;  // of a number
  };
  void write(std::string text);
  std::vector<Figure> figures(const Report& report, const Telemetry::Interval& interval) const;
  std::string result_text(bool done, const std::string& message) const;

  std::ostream& metrics_;
  std::string result_path_;
  int rank_;
  Clock clock_;

  Telemetry telemetry_;
  bool reported_ = false;
  Report report_;                // the last
  std::vector<Figure> figures_;  // of the last report
  std::uint64_t restored_step_ = 0, checkpoint_ = 0, total_steps_ = 0;
  std::optional<double> accuracy_;  // the newest, stays in the result
  bool accuracy_is_new_ = false;    // not yet printed
  std::uint64_t position_ = 0;      // at the last report
  double reported_at_ = 0;
  Curve curve_;
  std::optional<EventWriter> events_;
  std::size_t longest_ = 0;  // text in the file so far
  bool cut_ = false;         // what an earlier process left behind it
};

}  // namespace mlk::rt
