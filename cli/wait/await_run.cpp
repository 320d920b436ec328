#include "cli/wait/await_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/change/suspend.h"
#include "cli/run/change/write_record.h"
#include "cli/run/facts/going_on.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/read/late_lines.h"
#include "cli/run/read/log_follower.h"
#include "cli/run/read/log_warnings.h"
#include "cli/run/read/side_reads.h"
#include "cli/run/read/tails.h"
#include "cli/run/read/watcher.h"
#include "cli/run/state/record.h"
#include "cli/run/state/status.h"
#include "cli/session/session.h"
#include "cli/ui/progress.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "cli/views/log_lines.h"
#include "cli/views/views.h"
#include "cli/wait/server_keeper.h"

namespace mlk {
namespace {

using std::chrono::steady_clock;

// The last log lines of a run may arrive after its end, so mlk waits for them up to these limits.
constexpr std::chrono::seconds drain_timeout{10};
constexpr std::chrono::seconds last_lines_budget{10};

Time now() { return std::chrono::system_clock::now(); }

// Whether a program of the run has started. A retry is no proof of a start: the Job also retries if an init
// container failed, or if the program does not exist.
bool has_started(const RunStatus& status) {
  const bool again = status.phase == Phase::restarting && status.started;
  return again || status.phase == Phase::running || is_final(status.phase);
}

// How long mlk waits for the last processes of a run that has succeeded or failed, because the log of a
// process is lost when its pod is removed. After the training has succeeded, other processes of the bundled
// runtime stay for 60 s at most (runtime/CONTRACT.md).
constexpr std::chrono::seconds patience_if_trained{75}, patience_if_failed{10};

// One of the awaited runs.
class Await {
 public:
  Await(Session& session, kube::Client& client, const std::string& run, bool alone,
        const AwaitOptions& options, ui::Progress& progress)
      : session_(session),
        client_(client),
        run_(run),
        alone_(alone),
        options_(options),
        watcher_(client, client.config().name_space, run),
        progress_(progress),
        style_(options.logs_to_stdout ? session.style_out() : session.style_err()) {
    // On a terminal, mlk always reads the logs, since the live line shows the step. Without `follow`, some
    // lines may be lost, since mlk does not read lines while it writes the record of another run.
    if (options.follow || session.live_err()) {
      LogFilter filter = options.filter;
      filter.lossy = !options.follow;
      follower_ = std::make_unique<RunLogFollower>(client, client.config().name_space, std::move(filter));
    }
  }

  const std::string& run() const { return run_; }
  const std::optional<RunStatus>& last() const { return last_; }
  const std::optional<ExitCode>& code() const { return code_; }  // set when the wait for this run is over
  // Phase and reason at their last change. A new time until the next try does not count as a change.
  const std::string& plain() const { return plain_; }

  // Waits for a change, at most for `patience`, and updates the state.
  void update(std::chrono::milliseconds patience) {
    watcher_.wait_for_change(patience);
    warn_of_trouble();
    if (!watcher_.synced()) return;
    if (!watcher_.owner_exists()) return deleted();
    RunObjects objects = watcher_.objects();
    if (follower_) follower_->update(objects.pods);
    print_due_lines();
    objects.lines = lines_;
    RunStatus seen = observe(objects, now());
    if (seen.absence == Absence::unsure) {  // only fresh lists can show that a Job is gone
      std::optional<RunObjects> read = read_again();
      if (!read) return;
      objects = std::move(*read);
      objects.lines = lines_;
      seen = observe(objects, now());
    }
    last_ = std::move(seen);
    started_ = started_ || has_started(*last_);
    over_ = has_settled(objects, *last_);
    if (over_) drain_logs();
    // With `follow`, the end is reported only after the last log lines, so the shown state does not change
    // before these lines are printed.
    if (options_.follow && is_over(*last_) && !over_) return;
    const std::string line = printable(phase_line(*last_));
    if (untimed(line) != untimed(plain_)) plain_ = line;
  }

  // Call after the newest state was shown. If the run is over, prints how it ended.
  void conclude() {
    if (!last_ || code_) return;
    code_ = over_ ? ended() : given_up(*last_);
  }

  // Call at the timeout. A run that has ended counts as over even if its last processes have not ended. If
  // the run was not read yet (the timeout may be 0), reads it once, so that an ended run is still reported.
  void conclude_now() {
    if (!last_) {
      const RunObjects objects = watcher_.read_again();
      last_ = observe(objects, now());
      over_ = has_settled(objects, *last_);
    }
    if (final_since_ || over_) code_ = ended();
  }

 private:
  steady_clock::duration elapsed() const { return steady_clock::now() - begin_; }

  // A stopped run is over when its pods have ended, since they write their last checkpoint and results after
  // the stop. An ended run is over when its last processes have ended, or when mlk has waited for them long
  // enough.
  bool has_settled(const RunObjects& objects, const RunStatus& status) {
    if (status.absence == Absence::gone && status.phase != Phase::stopped) return true;
    if (!is_final(status.phase)) {
      final_since_.reset();
      return status.phase == Phase::stopped && !has_live_pods(objects, now());
    }
    if (!final_since_) final_since_ = steady_clock::now();
    const auto patience = status.phase == Phase::succeeded ? patience_if_trained : patience_if_failed;
    return !is_settling(objects, now(), steady_clock::now() - *final_since_, patience);
  }

  // Handles a deleted run. If several runs are awaited, the wait for the other runs continues.
  void deleted() {
    const std::string what = "run " + run_ + " was deleted";
    if (alone_) throw Error(ExitCode::not_found, what);
    progress_.print("mlk: warning: " + what);
    follower_.reset();
    code_ = ExitCode::not_found;
  }

  void warn_of_trouble() {
    const std::string trouble = watcher_.trouble();
    if (!trouble.empty() && trouble != trouble_)
      progress_.print("mlk: warning: " + printable(trouble) + "; retrying");
    trouble_ = trouble;
  }

  void warn_of_logs(RunLogFollower::When when) {
    for (const std::string& text : follower_->new_warnings(when))
      progress_.print("mlk: warning: " + printable(text));
  }

  // Reads the new log lines, and prints them if the user follows the logs. Returns whether there were new
  // lines.
  bool print_due_lines() {
    if (!follower_) return false;
    if (options_.follow) warn_of_logs(RunLogFollower::When::going_on);
    const std::vector<RunLogLine> lines = follower_->take();
    for (const RunLogLine& line : lines) {
      std::optional<Metrics> metrics;
      if (line.container.empty()) metrics = readers_[line.uid].read(line.text);
      if (metrics) lines_[line.uid] = {std::move(*metrics), line.time};
      if (!options_.follow) continue;
      progress_.clear();
      print_log_line(line, options_.logs_to_stdout ? session_.out : session_.err, style_);
    }
    if (options_.follow) (options_.logs_to_stdout ? session_.out : session_.err).flush();
    if (!session_.out) throw OutputFailed();
    return !lines.empty();
  }

  // Stops following the logs. With `follow`, first prints the logs until they end, or until no line has
  // arrived for drain_timeout. If pods without a Job continue, prints the logs for at most drain_timeout in
  // all.
  void drain_logs() {
    if (follower_ && options_.follow) {
      const bool go_on = last_->pods_left > last_->pods_ending;
      auto deadline = steady_clock::now() + drain_timeout;
      while (!follower_->finished() && steady_clock::now() < deadline && session_.interrupted == 0) {
        watcher_.wait_for_change(interrupt_poll);
        follower_->update(watcher_.objects().pods);
        if (print_due_lines() && !go_on) deadline = steady_clock::now() + drain_timeout;
      }
      const bool whole = follower_->finished();
      print_due_lines();
      if (!whole && session_.interrupted == 0)
        session_.warn(go_on ? "the logs go on, since pods of the run still run"
                            : "the logs may go on: nothing more came for " + format_duration(drain_timeout));
      warn_of_logs(RunLogFollower::When::at_end);
      for (const std::string& text : lost_logs(*last_, watcher_.objects().pods, options_.filter))
        session_.warn(text);
    }
    follower_.reset();
  }

  // Reads the run now, instead of using the watches; nullopt if the run cannot be read.
  std::optional<RunObjects> read_again() {
    try {
      return watcher_.read_again();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // The objects of the ended run, with its last metrics. Reads the objects again. If this fails, or if the
  // run is not over in these objects, returns the objects of the watches.
  RunObjects whole_end() {
    RunObjects seen = watcher_.objects();
    std::optional<RunObjects> read = read_again();
    const bool newer = read && (!watcher_.synced() || has_settled(*read, observe(*read, now())));
    RunObjects end = newer ? std::move(*read) : std::move(seen);
    end.lines = lines_;
    const std::string& name_space = client_.config().name_space;
    const auto read_logs = [&] { read_tails(client_, name_space, {&end}, last_lines_budget); };
    read_logs();
    const auto read_logs_again = [&] {
      read_logs();
      SideReads(client_, name_space, SideReads::Scope::runs).wait({&end}, last_lines_budget);
    };
    (void)read_late_lines([&] { return may_complete(end); }, read_logs_again,
                          steady_clock::now() + last_lines_budget);
    return end;
  }

  // Whether the record may become complete if the logs are read again. In the cluster on this machine, a log
  // is complete when its program ends.
  bool may_complete(const RunObjects& end) const {
    if (session_.local() || session_.interrupted != 0 || recorded_status(end.owner)) return false;
    return may_complete_record(observe(end, now()), now());
  }

  ExitCode ended() {
    drain_logs();
    const RunObjects objects = whole_end();
    RunStatus status = observe(objects, now());
    progress_.clear();
    if (const auto problem = write_record(client_, client_.config().name_space, objects.owner, status))
      session_.warn("the final record could not be written: " + *problem);
    if (is_over(status) && has_settled(objects, status)) {
      if (const auto problem = suspend_what_goes_on(client_, client_.config().name_space, objects))
        session_.warn("Jobs of the run go on, and could not be suspended: " + *problem);
    }
    session_.find_folders(status, client_.config().name_space);
    print_status(status, session_.err, session_.style_err(),
                 session_.err_is_terminal ? ui::terminal_width(STDERR_FILENO) : 0, now());
    return exit_code(status);
  }

  static bool is_hopeless(const RunStatus& status) {
    return status.cannot_start || status.absence == Absence::cut_off;
  }

  // The exit code if the run cannot start or has not started in time; otherwise nullopt. Reads the run again
  // before the decision, since the watches may have been silent for a while.
  std::optional<ExitCode> given_up(const RunStatus& seen) {
    const bool late = options_.start_timeout && elapsed() > *options_.start_timeout;
    if (started_ || (!is_hopeless(seen) && !late)) return std::nullopt;
    const std::optional<RunObjects> objects = read_again();
    if (!objects) return std::nullopt;
    const RunStatus status = observe(*objects, now());
    started_ = has_started(status);
    if (started_ || (!is_hopeless(status) && !late)) return std::nullopt;
    return cannot_start(status,
                        is_hopeless(status) ? "" : " within " + format_duration(*options_.start_timeout));
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
  const bool alone_;  // no other run is awaited
  const AwaitOptions& options_;
  RunWatcher watcher_;
  ui::Progress& progress_;
  const ui::Style style_;
  std::unique_ptr<RunLogFollower> follower_;
  const steady_clock::time_point begin_ = steady_clock::now();
  std::optional<steady_clock::time_point> final_since_;  // when the run was first seen to have ended
  bool started_ = false, over_ = false;
  std::map<std::string, MetricsReader> readers_;  // of the logs of each pod, by uid
  std::map<std::string, MetricsLine> lines_;      // the newest metrics of each pod, by uid
  std::optional<RunStatus> last_;
  std::string plain_;
  std::optional<ExitCode> code_;
  std::string trouble_;
};

// All awaited runs, with one line on the terminal that shows their state.
class AwaitAll {
 public:
  AwaitAll(Session& session, kube::Client& client, const std::vector<std::string>& runs,
           const AwaitOptions& options)
      : session_(session),
        options_(options),
        progress_(
            session.err, has_live_line(session, options), [] { return ui::terminal_width(STDERR_FILENO); },
            session.style_err().ascii()) {
    for (const std::string& run : runs)
      awaits_.push_back(std::make_unique<Await>(session, client, run, runs.size() == 1, options, progress_));
    said_.resize(awaits_.size());
  }

  ExitCode run() {
    session_.set_way_back(come_back());
    while (true) {
      std::chrono::milliseconds patience = interrupt_poll;
      bool over = true;
      for (const auto& one : awaits_) {
        if (one->code()) continue;
        one->update(patience);
        patience = std::chrono::milliseconds(0);
        show();
        one->conclude();
        over = over && one->code();
      }
      if (over) return code();
      if (session_.interrupted != 0) interrupted();
      keeper_.check();
      if (options_.timeout && steady_clock::now() - begin_ > *options_.timeout) {
        for (const auto& one : awaits_) {
          if (!one->code()) one->conclude_now();
        }
        if (unfinished().empty()) return code();
        timed_out();
      }
    }
  }

 private:
  // Whether the terminal shows a live line. If standard output is a pipe, the reader of the pipe may write to
  // this terminal: `mlk logs -f RUN | head` would write into the live line.
  static bool has_live_line(const Session& session, const AwaitOptions& options) {
    struct stat out{};
    const bool piped = ::fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode);
    return session.live_err() && !(options.logs_to_stdout && piped);
  }

  void show() {
    std::vector<std::string> live;
    for (std::size_t i = 0; i < awaits_.size(); ++i) {
      const Await& one = *awaits_[i];
      if (!one.last() || one.code()) continue;
      const std::string name = awaits_.size() > 1 ? one.run() + ": " : "";
      live.push_back(printable(name + progress_line(*one.last())));
      if (said_[i] == one.plain()) continue;
      said_[i] = one.plain();
      if (!progress_.live()) progress_.print(printable(name) + one.plain());
    }
    if (progress_.live() && !live.empty()) progress_.show(join(live, "   "));
  }

  // The code of the first run, in the order of await_runs(), that did not end well.
  ExitCode code() const {
    for (const auto& one : awaits_) {
      if (*one->code() != ExitCode::ok) return *one->code();
    }
    return ExitCode::ok;
  }

  // The names of the runs that have not ended, as words of a command line.
  std::string unfinished() const {
    std::vector<std::string> runs;
    for (const auto& one : awaits_) {
      if (!one->code()) runs.push_back(one->run());
    }
    return join(runs, " ");
  }

  [[noreturn]] void interrupted() {
    progress_.clear();
    session_.note("run " + unfinished() + " goes on without us");
    throw Error(ExitCode::interrupted, "interrupted", come_back());
  }

  std::string come_back() const {
    const std::string runs = unfinished();
    return "come back with: " + session_.command("wait " + runs) +
           (awaits_.size() > 1 ? "" : ", or: " + session_.command("logs -f " + runs));
  }

  [[noreturn]] void timed_out() {
    progress_.clear();
    const std::string runs = unfinished();
    const auto& first = *std::ranges::find_if(awaits_, [](const auto& one) { return !one->code(); });
    const std::string state = awaits_.size() == 1 && first->last() ? ": " + phase_line(*first->last()) : "";
    throw Error(ExitCode::timed_out,
                "run " + runs + " has not ended after " + format_duration(*options_.timeout) + state,
                "it goes on; come back with: " + session_.command("wait " + runs));
  }

  Session& session_;
  const AwaitOptions& options_;
  ui::Progress progress_;
  std::vector<std::unique_ptr<Await>> awaits_;
  std::vector<std::string> said_;  // plain() of each run when it was last shown
  const steady_clock::time_point begin_ = steady_clock::now();
  ServerKeeper keeper_{session_, [this](const std::string& line) { progress_.print(line); }};
};

}  // namespace

ExitCode await_runs(Session& session, kube::Client& client, const std::vector<std::string>& runs,
                    const AwaitOptions& options) {
  return AwaitAll(session, client, runs, options).run();
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
