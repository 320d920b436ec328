#include "cli/commands/await_sweep.h"

#include <map>
#include <unistd.h>

#include "cli/commands/server_keeper.h"
#include "cli/commands/session.h"
#include "cli/commands/sweep_views.h"
#include "cli/run/facts.h"
#include "cli/ui/progress.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "sweeps/drive.h"
#include "sweeps/fetch.h"
#include "sweeps/harvest.h"
#include "sweeps/watch.h"

namespace mlk {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t most_trials_at_end = 20;

// How a sweep goes on, on standard error.
class SweepProgress {
 public:
  explicit SweepProgress(Session& session)
      : session_(session),
        progress_(session.err, session.err_is_terminal, [] { return ui::terminal_width(STDERR_FILENO); }) {}

  void show(const sweeps::SweepStatus& status) {
    const std::string phase(to_string(status.phase));
    if (!progress_.live() && phase != said_phase_ && !is_final(status.phase)) progress_.say(phase);
    said_phase_ = phase;
    say_ends(status);
    progress_.show(progress_line(status));
  }

  void say(const std::string& line) { progress_.say(line); }
  void clear() { progress_.clear(); }

  ExitCode end(const sweeps::SweepStatus& status) {
    progress_.clear();
    session_.err << progress_line(status) << "\n\n";
    print_leaderboard(status, most_trials_at_end, session_, Where::err);
    return sweeps::exit_code(status);
  }

 private:
  // Each trial that has ended since the last look; of those that had ended before nothing is said.
  void say_ends(const sweeps::SweepStatus& status) {
    for (const sweeps::Trial& trial : status.trials) {
      const auto [known, is_new] = states_.try_emplace(trial.number, trial.state);
      const bool ended = sweeps::has_ended(trial.state) && (known->second != trial.state || is_new);
      known->second = trial.state;
      if (ended && looked_ && !progress_.live()) progress_.say(trial_line(status, trial));
    }
    looked_ = true;
  }

  Session& session_;
  ui::Progress progress_;
  std::map<int, sweeps::TrialState> states_;
  std::string said_phase_;
  bool looked_ = false;
};

class SweepAwait {
 public:
  SweepAwait(Session& session, kube::Client& client, const std::string& sweep)
      : session_(session),
        client_(client),
        sweep_(sweep),
        watch_(client, client.config().name_space, sweep),
        harvester_(client, client.config().name_space),
        progress_(session) {}

  ExitCode run(std::optional<std::chrono::seconds> timeout) {
    while (true) {
      const bool changed = watch_.wait(interrupt_poll);
      warn_of_trouble();
      keeper_.look();
      if (session_.interrupted != 0) interrupted();
      if ((changed || harvester_.is_due()) && is_over()) {
        return progress_.end(
            sweeps::read_sweep(client_, client_.config().name_space, sweep_, sweeps::Harvest::all));
      }
      if (timeout && steady_clock::now() - begin_ > *timeout) timed_out(*timeout);
    }
  }

 private:
  bool is_over() {
    const std::optional<sweeps::SweepObjects> objects = watch_.objects();
    if (!objects) return false;
    sweeps::SweepStatus status = sweeps::observe_sweep(*objects, std::chrono::system_clock::now());
    if (!status.record.driven) harvester_.look(*objects, status);  // else its driver does
    progress_.show(status);
    if (!is_final(status.phase) && status.phase != Phase::stopped) return false;
    return !has_running_pods({objects->owner, objects->jobs, objects->pods, {}, {}});
  }

  void warn_of_trouble() {
    const std::string trouble = watch_.trouble();
    if (!trouble.empty() && trouble != trouble_)
      progress_.say("mlk: warning: " + printable(trouble) + "; trying on");
    trouble_ = trouble;
  }

  [[noreturn]] void interrupted() {
    progress_.clear();
    session_.note("sweep " + sweep_ + " goes on without us");
    throw Error(ExitCode::interrupted, "interrupted",
                "come back with: " + session_.command("wait " + sweep_));
  }

  [[noreturn]] void timed_out(std::chrono::seconds timeout) {
    progress_.clear();
    throw Error(ExitCode::timed_out, "sweep " + sweep_ + " has not ended after " + format_duration(timeout),
                "it goes on; come back with: " + session_.command("wait " + sweep_));
  }

  Session& session_;
  kube::Client& client_;
  const std::string sweep_;
  sweeps::SweepWatch watch_;
  sweeps::Harvester harvester_;
  SweepProgress progress_;
  ServerKeeper keeper_{session_, [this](const std::string& line) { progress_.say(line); }};
  const steady_clock::time_point begin_ = steady_clock::now();
  std::string trouble_;
};

}  // namespace

ExitCode await_sweep(Session& session, kube::Client& client, const std::string& sweep,
                     std::optional<std::chrono::seconds> timeout) {
  return SweepAwait(session, client, sweep).run(timeout);
}

ExitCode drive_sweep(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                     std::optional<std::chrono::seconds> timeout) {
  SweepProgress progress(session);
  std::string driver;
  const steady_clock::time_point begin = steady_clock::now();
  const std::string goes_on =
      "trials that run go on; others are started when the same command is typed again";
  ServerKeeper keeper(session, [&](const std::string& line) { progress.say(line); });
  const auto check = [&] {
    keeper.look();
    if (session.interrupted != 0) {
      progress.clear();
      throw Error(ExitCode::interrupted, "interrupted", goes_on);
    }
    if (timeout && steady_clock::now() - begin > *timeout) {
      progress.clear();
      throw Error(
          ExitCode::timed_out,
          "sweep " + request.definition.identity.run + " has not ended after " + format_duration(*timeout),
          goes_on);
    }
  };
  const auto say = [&](const std::string& text) { progress.say(printable(text)); };
  const sweeps::DriveHooks hooks{
      .submit = {.note = say, .check_interrupted = check},
      .changed = [&](const sweeps::SweepStatus& status) { progress.show(status); },
      .waiting =
          [&](const std::string& holder) {
            if (holder == driver || holder.empty()) return;
            driver = holder;
            say("the sweep is driven by " + holder + "; this command takes over when that is gone");
          }};
  return progress.end(sweeps::drive(client, request, hooks));
}

}  // namespace mlk
