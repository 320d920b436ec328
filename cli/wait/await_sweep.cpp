#include "cli/wait/await_sweep.h"

#include <unistd.h>

#include <fmt/format.h>

#include "cli/run/facts/going_on.h"
#include "cli/session/session.h"
#include "cli/ui/progress.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "cli/views/sweep_views.h"
#include "cli/views/trial_ends.h"
#include "cli/views/views.h"
#include "cli/wait/server_keeper.h"
#include "sweeps/driver/drive.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/watch.h"
#include "sweeps/read/fetch.h"
#include "sweeps/read/harvest.h"

namespace mlk {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t most_trials_at_end = 20;
constexpr std::chrono::seconds poll_interval{2};

// The progress of a sweep on standard error.
class SweepProgress {
 public:
  explicit SweepProgress(Session& session)
      : session_(session),
        progress_(
            session.err, session.live_err(), [] { return ui::terminal_width(STDERR_FILENO); },
            session.style_err().ascii()) {}

  void show(const sweeps::SweepStatus& status) {
    const std::string phase = phase_of(status);
    if (!progress_.live() && phase != said_phase_ && !is_final(status.phase))
      progress_.print(printable(phase));
    said_phase_ = phase;
    print_ends(status);
    // One column stays free, since a full line would make the terminal scroll.
    const std::size_t width = progress_.live() ? ui::terminal_width(STDERR_FILENO) : 1;
    progress_.show(
        progress_bar(status, width - 1, std::chrono::system_clock::now(), session_.style_err().ascii()));
  }

  void print(const std::string& line) { progress_.print(line); }
  void clear() { progress_.clear(); }

  ExitCode end(const sweeps::SweepStatus& status) {
    progress_.clear();
    print_ends(status, true);
    session_.err << progress_line(status) << "\n\n";
    print_leaderboard(status, most_trials_at_end, session_, Where::err);
    return sweeps::exit_code(status);
  }

 private:
  // The phase, and the reason why the sweep does not continue, without times that change at every poll.
  static std::string phase_of(const sweeps::SweepStatus& status) {
    const std::string phase(to_string(status.phase));
    return status.why.empty() ? phase : untimed(phase + ": " + status.why);
  }

  void print_ends(const sweeps::SweepStatus& status, bool last = false) {
    for (const sweeps::Trial* trial : ends_.since_last(status, last)) {
      if (!progress_.live()) progress_.print(trial_line(status, *trial));
    }
  }

  Session& session_;
  ui::Progress progress_;
  TrialEnds ends_;
  std::string said_phase_;
};

class SweepAwait {
 public:
  SweepAwait(Session& session, kube::Client& client, const std::string& sweep)
      : session_(session),
        client_(client),
        sweep_(sweep),
        watch_(client, client.config().name_space, sweep),
        harvester_(client, client.config().name_space),
        drivers_(client, client.config().name_space, sweep),
        progress_(session) {}

  ExitCode run(std::optional<std::chrono::seconds> timeout,
               std::optional<std::chrono::seconds> start_timeout) {
    session_.set_way_back(come_back());
    while (true) {
      const bool changed = watch_.wait(interrupt_poll);
      warn_of_trouble();
      keeper_.check();
      if (session_.interrupted != 0) interrupted();
      // A new warning Event does not end the wait for changes, so mlk also reads the sweep at intervals.
      const bool due = steady_clock::now() - looked_ > poll_interval;
      if ((changed || due || harvester_.is_due()) && is_over()) {
        return progress_.end(
            sweeps::read_sweep(client_, client_.config().name_space, sweep_, sweeps::Harvest::all));
      }
      const bool late = start_timeout && steady_clock::now() - begin_ > *start_timeout;
      if (cannot_start(late)) {
        return cannot_start_code(late ? " within " + format_duration(*start_timeout) : "");
      }
      if (sweeps::needs_driver(seen_) && drivers_.nobody_drives()) throw nobody_drives_error(seen_);
      if (timeout && steady_clock::now() - begin_ > *timeout) timed_out(*timeout);
    }
  }

 private:
  bool is_over() {
    std::optional<sweeps::SweepObjects> objects = watch_.objects();
    if (!objects) return false;
    objects = sweeps::without_doubt(client_, client_.config().name_space, std::move(*objects));
    sweeps::SweepStatus status = sweeps::observe_sweep(*objects, std::chrono::system_clock::now());
    looked_ = steady_clock::now();
    if (!status.record.driven) harvester_.collect(*objects, status);  // otherwise the driver does
    progress_.show(status);
    const sweeps::Counts& counts = status.counts;
    started_ = started_ || counts.running + counts.succeeded + counts.failed + counts.stopped > 0;
    seen_ = std::move(status);
    const RunObjects all{objects->owner, objects->jobs, objects->pods, {}, {}};
    return (is_final(seen_.phase) || seen_.phase == Phase::stopped) &&
           !has_running_programs(all, std::chrono::system_clock::now());
  }

  // In a driven sweep, the driver decides which trials cannot start, so this function returns false.
  bool cannot_start(bool late) const {
    return !started_ && looked_ != steady_clock::time_point{} && !seen_.record.driven &&
           (late || seen_.cannot_start);
  }

  ExitCode cannot_start_code(const std::string& within) {
    progress_.clear();
    session_.err << "sweep " << sweep_ << " cannot start" << within
                 << (seen_.why.empty() ? "" : ": " + printable(seen_.why)) << '\n';
    session_.note("it is still there; look at it with: " + session_.command("status " + sweep_) +
                  ", or delete it with: " + session_.command("delete " + sweep_));
    return ExitCode::cannot_start;
  }

  void warn_of_trouble() {
    const std::string trouble = watch_.trouble();
    if (!trouble.empty() && trouble != trouble_)
      progress_.print("mlk: warning: " + printable(trouble) + "; retrying");
    trouble_ = trouble;
  }

  [[noreturn]] void interrupted() {
    progress_.clear();
    session_.note("sweep " + sweep_ + " goes on without us");
    throw Error(ExitCode::interrupted, "interrupted");
  }

  [[noreturn]] void timed_out(std::chrono::seconds timeout) {
    progress_.clear();
    throw Error(ExitCode::timed_out, "sweep " + sweep_ + " has not ended after " + format_duration(timeout),
                "it goes on; " + come_back());
  }

  std::string come_back() const { return "come back with: " + session_.command("wait " + sweep_); }

  Session& session_;
  kube::Client& client_;
  const std::string sweep_;
  sweeps::SweepWatch watch_;
  sweeps::Harvester harvester_;
  sweeps::DriverWatch drivers_;
  SweepProgress progress_;
  ServerKeeper keeper_{session_, [this](const std::string& line) { progress_.print(line); }};
  sweeps::SweepStatus seen_;
  bool started_ = false;
  steady_clock::time_point looked_{};
  const steady_clock::time_point begin_ = steady_clock::now();
  std::string trouble_;
};

}  // namespace

Error nobody_drives_error(const sweeps::SweepStatus& status) {
  const std::string left = status.counts.waiting == 0
                               ? "all trials have ended, but the end of the sweep is not recorded"
                               : fmt::format("no trial runs, and {} of {} wait to be started",
                                             status.counts.waiting, status.counts.all());
  return Error(ExitCode::failure, "nobody drives sweep " + status.sweep + ": " + left,
               "type its mlk sweep command again, which goes on where it was");
}

ExitCode await_sweep(Session& session, kube::Client& client, const std::string& sweep,
                     std::optional<std::chrono::seconds> timeout,
                     std::optional<std::chrono::seconds> start_timeout) {
  return SweepAwait(session, client, sweep).run(timeout, start_timeout);
}

ExitCode drive_sweep(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                     std::optional<std::chrono::seconds> timeout) {
  SweepProgress progress(session);
  std::string driver;
  const steady_clock::time_point begin = steady_clock::now();
  const std::string goes_on = "running trials continue; type the same command again to start the others";
  session.set_way_back(goes_on);
  ServerKeeper keeper(session, [&](const std::string& line) { progress.print(line); });
  const auto check = [&] {
    keeper.check();
    if (session.interrupted != 0) {
      progress.clear();
      throw Error(ExitCode::interrupted, "interrupted");
    }
    if (timeout && steady_clock::now() - begin > *timeout) {
      progress.clear();
      throw Error(
          ExitCode::timed_out,
          "sweep " + request.definition.identity.run + " has not ended after " + format_duration(*timeout),
          goes_on);
    }
  };
  const auto print = [&](const std::string& text) { progress.print(printable(text)); };
  const sweeps::DriveHooks hooks{
      .submit = {.note = print, .check_interrupted = check},
      .changed = [&](const sweeps::SweepStatus& status) { progress.show(status); },
      .waiting =
          [&](const std::string& holder) {
            if (holder == driver || holder.empty()) return;
            driver = holder;
            print("the sweep is driven by " + holder + "; this command takes over when that driver is gone");
          }};
  const sweeps::SweepStatus last = sweeps::drive(client, request, hooks);
  if (is_final(last.phase) || last.phase == Phase::stopped) return progress.end(last);
  print("the trials of this command have ended; another command has added some, and starts them");
  progress.clear();
  std::optional<std::chrono::seconds> left;
  if (timeout) {
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begin);
    left = std::max(std::chrono::seconds(0), *timeout - passed);
  }
  return await_sweep(session, client, last.sweep, left);
}

}  // namespace mlk
