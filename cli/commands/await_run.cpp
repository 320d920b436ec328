#include "cli/commands/await_run.h"

#include <map>
#include <memory>
#include <unistd.h>

#include "cli/commands/log_lines.h"
#include "cli/commands/session.h"
#include "cli/commands/views.h"
#include "cli/local/local.h"
#include "cli/run/facts.h"
#include "cli/run/metrics.h"
#include "cli/run/record.h"
#include "cli/run/status.h"
#include "cli/run/watcher.h"
#include "cli/ui/progress.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"
#include "cli/util/time.h"

namespace mlk {
namespace {

using std::chrono::steady_clock;

// After the end the last log lines are still on their way.
constexpr std::chrono::seconds drain_timeout{10};
constexpr std::chrono::seconds server_poll{1};
constexpr std::chrono::seconds log_grace{5};  // a stream that ended is opened again sooner than that

Time now() { return std::chrono::system_clock::now(); }

bool has_started(Phase phase) {
  return phase == Phase::running || phase == Phase::restarting || phase == Phase::succeeded ||
         phase == Phase::failed;
}

// How long the last processes of an ended run are waited for: those of a trained one end by themselves, the
// last of them after 60 s (CONTRACT.md), and their logs would go with their pods.
constexpr std::chrono::seconds patience_if_trained{75}, patience_if_failed{10};

class Await {
 public:
  Await(Session& session, kube::Client& client, const std::string& run, const AwaitOptions& options)
      : session_(session),
        client_(client),
        run_(run),
        options_(options),
        watcher_(client, client.config().name_space, run),
        progress_(session.err, session.err_is_terminal, [] { return ui::terminal_width(STDERR_FILENO); }),
        style_(options.logs_to_stdout ? session.color_out() : session.color_err()) {
    // On a terminal the logs are read for the step alone, also when nobody asked to see them.
    if (options.follow || session.err_is_terminal) {
      follower_ = std::make_unique<RunLogFollower>(client, client.config().name_space, options.filter);
    }
  }

  ExitCode run() {
    while (true) {
      watcher_.wait_for_change(interrupt_poll);
      if (session_.interrupted != 0) interrupted();
      keep_server_up();
      warn_of_trouble();
      if (watcher_.synced()) {
        if (!watcher_.owner_exists())
          throw Error(ExitCode::not_found, "run " + run_ + " is there no more: it was deleted");
        RunObjects objects = watcher_.objects();
        const RunStatus status = observe(objects, now());
        started_ = started_ || has_started(status.phase);
        if (follower_) follower_->update(objects.pods);
        print_due_lines();
        show(status);
        if (is_over(objects, status)) return ended(std::move(objects));
        if (const auto code = given_up(status)) return *code;
        last_ = status;
      }
      if (!options_.timeout || elapsed() <= *options_.timeout) continue;
      if (final_since_) return ended(watcher_.objects());
      timed_out();
    }
  }

 private:
  steady_clock::duration elapsed() const { return steady_clock::now() - begin_; }

  // A stopped run is over when its pods have written their last checkpoint and results, an ended one when its
  // last processes have ended, or had the time to.
  bool is_over(const RunObjects& objects, const RunStatus& status) {
    if (!is_final(status.phase)) {
      final_since_.reset();
      return status.phase == Phase::stopped && !has_live_pods(objects);
    }
    if (!final_since_) final_since_ = steady_clock::now();
    const auto patience = status.phase == Phase::succeeded ? patience_if_trained : patience_if_failed;
    return !has_running_pods(objects) || steady_clock::now() - *final_since_ > patience;
  }

  [[noreturn]] void interrupted() {
    progress_.clear();
    session_.note("run " + run_ + " goes on without us");
    throw Error(ExitCode::interrupted, "interrupted",
                "come back with: " + session_.command("wait " + run_) +
                    ", or: " + session_.command("logs -f " + run_));
  }

  [[noreturn]] void timed_out() {
    progress_.clear();
    const std::string state = last_ ? ": " + phase_line(*last_) : "";
    throw Error(ExitCode::timed_out,
                "run " + run_ + " has not ended after " + format_duration(*options_.timeout) + state,
                "it goes on; come back with: " + session_.command("wait " + run_));
  }

  // Nobody else brings the server on this machine back while we wait. One that was stopped stays down.
  void keep_server_up() {
    if (!session_.global.local || steady_clock::now() < next_look_) return;
    next_look_ = steady_clock::now() + server_poll;
    if (!local::lost()) return;
    progress_.say("mlk: warning: the server of the local cluster is gone; starting it again");
    local::up(local_up_options(session_));
  }

  void warn_of_trouble() {
    const std::string trouble = watcher_.trouble();
    if (!trouble.empty() && trouble != trouble_)
      progress_.say("mlk: warning: " + printable(trouble) + "; trying on");
    trouble_ = trouble;
  }

  void warn_of_logs() {
    const auto now = steady_clock::now();
    for (const std::string& problem : follower_->problems()) {
      const auto [known, is_new] = log_problems_.try_emplace(problem, now);
      if (known->second > now || now - known->second < log_grace) continue;
      progress_.say("mlk: warning: no logs of " + printable(problem));
      known->second = steady_clock::time_point::max();
    }
  }

  // True if there were any.
  bool print_due_lines() {
    if (!follower_) return false;
    if (options_.follow) warn_of_logs();
    const std::vector<RunLogLine> lines = follower_->take();
    for (const RunLogLine& line : lines) {
      if (std::optional<Metrics> metrics = parse_metrics(line.text)) latest_ = std::move(metrics);
      if (!options_.follow) continue;
      progress_.clear();
      print_log_line(line, options_.logs_to_stdout ? session_.out : session_.err, style_);
    }
    if (options_.follow) (options_.logs_to_stdout ? session_.out : session_.err).flush();
    if (!session_.out) throw Error(ExitCode::failure, "nobody reads the output any more");
    return !lines.empty();
  }

  void show(const RunStatus& status) {
    progress_.show(printable(progress_line(status, latest_)), printable(phase_line(status)));
  }

  // To their end, or until nothing more comes. The follower goes with it: while it waits for somebody to take
  // its lines, no request is answered.
  void drain_logs() {
    if (follower_ && options_.follow) {
      auto deadline = steady_clock::now() + drain_timeout;
      while (!follower_->finished() && steady_clock::now() < deadline && session_.interrupted == 0) {
        watcher_.wait_for_change(interrupt_poll);
        follower_->update(watcher_.objects().pods);
        if (print_due_lines()) deadline = steady_clock::now() + drain_timeout;
      }
      const bool whole = follower_->finished();
      print_due_lines();
      if (!whole && session_.interrupted == 0)
        session_.warn("the logs may go on: nothing more came for " + format_duration(drain_timeout));
    }
    follower_.reset();
  }

  // As it is now, whatever the watches have told; nothing if it cannot be read.
  std::optional<RunObjects> read_again() {
    try {
      return watcher_.read_again();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // What was seen to be over, with all that belongs to its end; if that cannot be read, as it was seen.
  RunObjects whole_end(RunObjects seen) {
    std::optional<RunObjects> read = read_again();
    return read && is_over(*read, observe(*read, now())) ? std::move(*read) : std::move(seen);
  }

  ExitCode ended(RunObjects seen) {
    drain_logs();
    const RunObjects objects = whole_end(std::move(seen));
    const RunStatus status = observe(objects, now());
    progress_.clear();
    std::string problem;
    if (!write_record(client_, client_.config().name_space, objects.owner, status, &problem) &&
        !problem.empty()) {
      session_.warn("the final record could not be written: " + problem);
    }
    const bool over = is_final(status.phase) && is_over(objects, status);
    if (over && !suspend_what_goes_on(client_, client_.config().name_space, objects, &problem))
      session_.warn("Jobs of the run go on, and could not be suspended: " + problem);
    print_status(status, session_.err, ui::Style(session_.color_err()),
                 session_.err_is_terminal ? ui::terminal_width(STDERR_FILENO) : 0, now());
    return exit_code(status);
  }

  // Whether it cannot start, or has not in time: not from what was seen before the cluster fell silent.
  std::optional<ExitCode> given_up(const RunStatus& seen) {
    const bool late = options_.start_timeout && elapsed() > *options_.start_timeout;
    if (started_ || (!seen.cannot_start && !late)) return std::nullopt;
    const std::optional<RunObjects> objects = read_again();
    if (!objects) return std::nullopt;
    const RunStatus status = observe(*objects, now());
    started_ = has_started(status.phase);
    if (started_ || (!status.cannot_start && !late)) return std::nullopt;
    return cannot_start(status,
                        status.cannot_start ? "" : " within " + format_duration(*options_.start_timeout));
  }

  ExitCode cannot_start(const RunStatus& status, const std::string& within) {
    progress_.clear();
    session_.err << "run " << run_ << " cannot start" << within << ": " << printable(phase_line(status))
                 << '\n';
    session_.note("it is still there; look at it with: " + session_.command("status " + run_) +
                  ", or delete it with: " + session_.command("delete " + run_));
    return ExitCode::cannot_start;
  }

  Session& session_;
  kube::Client& client_;
  const std::string run_;
  const AwaitOptions& options_;
  RunWatcher watcher_;
  ui::Progress progress_;
  const ui::Style style_;
  std::unique_ptr<RunLogFollower> follower_;
  const steady_clock::time_point begin_ = steady_clock::now();
  steady_clock::time_point next_look_ = begin_ + server_poll;
  bool started_ = false;
  std::optional<steady_clock::time_point> final_since_;  // since when the run was seen to have ended
  std::optional<Metrics> latest_;
  std::optional<RunStatus> last_;
  std::string trouble_;
  std::map<std::string, steady_clock::time_point> log_problems_;  // since when; max: it was said
};

}  // namespace

ExitCode await_run(Session& session, kube::Client& client, const std::string& run,
                   const AwaitOptions& options) {
  return Await(session, client, run, options).run();
}

std::optional<std::chrono::seconds> duration_option(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::optional<std::chrono::seconds> duration = parse_duration(text);
  if (!duration)
    throw Error(ExitCode::usage, flag + " must be a duration, not '" + text + "'",
                "for example: " + flag + " 10m");
  return duration;
}

}  // namespace mlk
