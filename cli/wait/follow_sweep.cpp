#include "cli/wait/follow_sweep.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/going_on.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/log_follower.h"
#include "cli/run/read/run_logs.h"
#include "cli/run/read/watcher.h"
#include "cli/session/session.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "cli/util/text.h"
#include "cli/views/log_lines.h"
#include "cli/views/sweep_views.h"
#include "cli/wait/await_sweep.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/watch.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::size_t most_streams = 50;  // as in stern, a viewer of logs for Kubernetes
constexpr std::chrono::seconds drain_patience{10};

// Adds the number of each trial that is a run of its own, by the name of this run.
void add_trial_numbers(const sweeps::SweepObjects& objects, std::map<std::string, int>& numbers) {
  for (const json& map : objects.config_maps) {
    const int number = parse_int(kube::annotation_of(map, annotations::trial), -1);
    if (number >= 0) numbers[kube::name_of(map)] = number;
  }
}

// The output of a driver in the cluster does not belong to a trial, so mlk shows it only on request.
const std::vector<json>& pods_of(const sweeps::SweepObjects& objects, const LogFilter& filter) {
  return filter.role == labels::driver ? objects.driver_pods : objects.pods;
}

class SweepLogs {
 public:
  SweepLogs(Session& session, kube::Client& client, const std::string& sweep, std::optional<int> trial,
            const LogFilter& filter)
      : session_(session),
        client_(client),
        sweep_(sweep),
        trial_(trial),
        watch_(client, client.config().name_space, sweep),
        drivers_(client, client.config().name_space, sweep),
        filter_(filter),
        follower_(client, client.config().name_space, filter),
        style_(session.style_out()) {}

  ExitCode run() {
    session_.set_way_back(
        "come back with: " +
        session_.command("logs -f " + (trial_ ? fmt::format("{}/{}", sweep_, *trial_) : sweep_)));
    steady_clock::time_point news = steady_clock::now();
    while (true) {
      const bool changed = watch_.wait(interrupt_poll);
      if (session_.interrupted != 0) interrupted();
      const bool due = steady_clock::now() - looked_ > std::chrono::seconds(1);
      if (changed || due) poll();
      const bool lines = print_due_lines(), over = is_over();
      if (lines || !over) news = steady_clock::now();
      if (over) {
        // The last log lines may arrive after the end of the sweep, so mlk waits for these lines for a
        // limited time.
        const bool whole = follower_.finished() && waiting_ == 0;
        if (whole || steady_clock::now() - news > drain_patience) return end(whole);
      } else if (sweeps::needs_driver(status_) && drivers_.nobody_drives()) {
        throw nobody_drives_error(status_);
      }
    }
  }

 private:
  void poll() {
    std::optional<sweeps::SweepObjects> objects = watch_.objects();
    if (!objects) return;
    objects = sweeps::without_doubt(client_, client_.config().name_space, std::move(*objects));
    looked_ = steady_clock::now();
    status_ = sweeps::observe_sweep(*objects, std::chrono::system_clock::now());
    if (trial_) sweeps::select_trial(status_, *trial_);
    add_trial_numbers(*objects, numbers_);
    const std::vector<json>& pods = pods_of(*objects, filter_);
    any_runs_ =
        has_running_programs({objects->owner, objects->jobs, pods, {}, {}}, std::chrono::system_clock::now());
    follow(memory_.with_gone(pods));
  }

  // Updates the followed pods with their newest state, and follows as many new pods as there are free
  // streams. Waiting pods have no log yet, and use no stream.
  void follow(const std::vector<json>& pods) {
    const std::set<std::string> open = follower_.unfinished();
    std::size_t streams = open.size();
    waiting_ = 0;
    std::vector<json> given;
    for (const json& pod : pods) {
      const std::string uid = kube::uid_of(pod);
      if (open.count(uid) == 1) {
        given.push_back(pod);
        continue;
      }
      if (known_.count(uid) == 1 || text_of(pod, {"status", "phase"}) == "Pending") continue;
      if (streams >= most_streams) {
        ++waiting_;
        continue;
      }
      known_.insert(uid);
      runs_[uid] = kube::label_of(pod, labels::run);
      given.push_back(pod);
      ++streams;
    }
    follower_.update(given);
    if (waiting_ > 0 && !said_)
      session_.note(
          fmt::format("{} logs are followed at a time; others come when these have ended", most_streams));
    said_ = said_ || waiting_ > 0;
  }

  void warn(RunLogFollower::When when) {
    for (const std::string& text : follower_.new_warnings(when)) session_.warn(printable(text));
  }

  bool print_due_lines() {
    warn(RunLogFollower::When::going_on);
    const std::vector<RunLogLine> lines = follower_.take();
    for (RunLogLine line : lines) {
      if (const auto number = numbers_.find(runs_[line.uid]); number != numbers_.end())
        line.role = fmt::format("{}/{}", number->second, line.role);
      print_log_line(line, session_.out, style_);
    }
    session_.out.flush();
    if (!session_.out) throw OutputFailed();
    return !lines.empty();
  }

  bool is_over() const {
    if (looked_ == steady_clock::time_point{}) return false;
    if (trial_ && sweeps::has_ended(status_.trials.front().state)) return true;
    return (is_final(status_.phase) || status_.phase == Phase::stopped) && !any_runs_;
  }

  ExitCode end(bool whole) {
    if (!whole) session_.warn("the logs may go on: nothing more came for " + format_duration(drain_patience));
    warn(RunLogFollower::When::at_end);
    if (!trial_) {
      session_.note(progress_line(status_));
      return sweeps::exit_code(status_);
    }
    const sweeps::Trial& trial = status_.trials.front();
    session_.note(trial_line(status_, trial));
    if (trial.state == sweeps::TrialState::succeeded) return ExitCode::ok;
    return trial.state == sweeps::TrialState::failed ? ExitCode::run_failed : ExitCode::stopped;
  }

  [[noreturn]] void interrupted() {
    session_.note("sweep " + sweep_ + " goes on without us");
    throw Error(ExitCode::interrupted, "interrupted");
  }

  Session& session_;
  kube::Client& client_;
  const std::string sweep_;
  const std::optional<int> trial_;
  sweeps::SweepWatch watch_;
  sweeps::DriverWatch drivers_;
  const LogFilter filter_;
  RunLogFollower follower_;
  const ui::Style style_;
  PodMemory memory_;
  sweeps::SweepStatus status_;
  std::map<std::string, int> numbers_;       // the numbers of trials, by their runs
  std::set<std::string> known_;              // the uids of pods that are or were followed
  std::map<std::string, std::string> runs_;  // the run of each followed pod, by the pod's uid
  std::size_t waiting_ = 0;                  // pods that have a log and wait for a stream
  bool any_runs_ = false, said_ = false;
  steady_clock::time_point looked_{};
};

void say_no_pods(Session& session, const std::string& sweep, const sweeps::SweepObjects& objects,
                 const LogFilter& filter) {
  if (filter.role == labels::driver)
    return session.note("sweep " + sweep + " has no pod of a driver; look at the sweep with: " +
                        session.command("status " + sweep));
  const sweeps::Counts counts = sweeps::observe_sweep(objects, std::chrono::system_clock::now()).counts;
  if (counts.running + counts.succeeded + counts.failed + counts.stopped > 0)
    return session.note("no log of sweep " + sweep +
                        " is left, as its pods were deleted; look at the results with: " +
                        session.command("results " + sweep));
  session.note("no trial of sweep " + sweep +
               " has started; wait for their logs with: " + session.command("logs -f " + sweep) +
               ", or for those of one with: " + session.command("logs -f " + sweep + "/0"));
}

}  // namespace

ExitCode follow_sweep(Session& session, kube::Client& client, const std::string& sweep,
                      std::optional<int> trial, const LogFilter& filter) {
  return SweepLogs(session, client, sweep, trial, filter).run();
}

void print_sweep_logs(Session& session, kube::Client& client, const std::string& sweep,
                      const LogFilter& filter) {
  const std::string& name_space = client.config().name_space;
  const sweeps::SweepObjects objects = sweeps::fetch_sweep(client, name_space, sweep, sweeps::WithPods::yes);
  std::map<std::string, int> numbers;
  add_trial_numbers(objects, numbers);
  const std::vector<json>& pods = pods_of(objects, filter);
  require_container(sweep, pods, filter.container);
  std::map<std::string, std::string> runs;  // the run of each pod, by its uid
  for (const json& pod : pods) runs[kube::uid_of(pod)] = kube::label_of(pod, labels::run);
  std::vector<std::string> problems;
  const LogTaker printer = printing_taker(session, [&](RunLogLine& line) {
    if (const auto number = numbers.find(runs[line.uid]); number != numbers.end())
      line.role = fmt::format("{}/{}", number->second, line.role);
  });
  read_run_logs(client, name_space, pods, filter, printer, &problems);
  require_all_printed(session);
  for (const std::string& problem : problems) session.warn(problem);
  if (pods.empty()) say_no_pods(session, sweep, objects, filter);
}

}  // namespace mlk
