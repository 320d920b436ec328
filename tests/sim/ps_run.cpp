#include "tests/sim/ps_run.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kernels/reference/reference_ops.h"
#include "runtime/ps/machines/timers.h"
#include "tests/sim/ps_process.h"
#include "tests/sim/ps_wire.h"

namespace mlk::sim {
namespace {

using rt::PeerId;
using rt::Role;
using Place = Network::Place;

constexpr Duration unheard_limit = 15s;
constexpr std::uint64_t most_ps_events = 5'000'000;

// Every process has a place; servers have a second place, for a successor beside them.
std::vector<PeerId> places(const PsScenario& scenario) {
  std::vector<PeerId> ids = scenario.processes();
  for (std::uint32_t rank = 0; rank < scenario.servers; ++rank) ids.push_back({Role::server, rank});
  return ids;
}

class PsRun {
 public:
  PsRun(const PsScenario& scenario, const Print& print)
      : scenario_(scenario),
        print_(print),
        ids_(places(scenario)),
        random_(mix(scenario.seed, 4)),
        begin_(clock_.now()),
        network_(
            clock_, random_, scenario.network, ids_,
            [this](Place place, rt::Event&& event) { deliver(place, std::move(event)); },
            print ? Network::Trace([this](Place place, const std::string& line) { say(place, line); })
                  : Network::Trace()),
        invariants_(scenario),
        probe_draw_(scenario.at_probes),
        surroundings_{
            clock_,
            random_,
            network_,
            disk_,
            invariants_,
            *ops_,
            scenario,
            [this](Place place, rt::ExitCode code, const std::string& why) { ended(place, code, why); },
            [this](Place place, std::string_view probe) { pass(place, probe); },
            print ? [this](Place place, const std::string& line) { say(place, line); }
                  : std::function<void(Place, const std::string&)>()} {
    disk_.there = scenario.disk;
    for (Place place = 0; place < ids_.size(); ++place)
      processes_.emplace_back(surroundings_, place, ids_[place]);
    for (const PsFault& fault : scenario.faults) {
      clock_.at(begin_ + fault.at, [this, fault] { happen(fault); });
      quiet_ = std::max(quiet_, begin_ + fault.at);
    }
    if (scenario.at_probes.seed != 0) quiet_ = std::max(quiet_, begin_ + scenario.at_probes.until);
    clock_.at(quiet_, [this] { calm(); });
  }

  Outcome run() {
    Outcome outcome;
    try {
      while (!over()) {
        if (clock_.now() > deadline() || outcome.events > most_ps_events)
          throw Violation("the run does not end: " + stuck());
        if (!clock_.step()) throw Violation("nothing happens any more: " + stuck());
        ++outcome.events;
      }
    } catch (const Violation& violation) {
      outcome.violation = violation.what();
    }
    outcome.time = clock_.now() - begin_;
    outcome.commits = invariants_.grants();
    return outcome;
  }

 private:
  // The state of the Job of a rank.
  struct Job {
    bool done = false;
    int failures = 0;
    std::uint64_t starts = 0;
    Place place = 0;  // the place of the process that the Job started last
  };

  void deliver(Place place, rt::Event&& event) {
    if (print_ && event.kind == rt::Event::Kind::message) say(place, describe_ps(event));
    const bool heard = event.kind != rt::Event::Kind::down && event.kind != rt::Event::Kind::silent;
    if (event.peer.role == Role::worker && heard) heard_worker_[place] = clock_.now();
    processes_[place].deliver(std::move(event));
  }

  void say(Place place, const std::string& line) const {
    char head[64];
    std::snprintf(head, sizeof head, "%11.6f  %-9s ",
                  std::chrono::duration<double>(clock_.now() - begin_).count(),
                  (to_string(ids_[place]) + (place < first_spare() ? "" : "'")).c_str());
    print_(head + line);
  }

  Place first_spare() const { return scenario_.workers + scenario_.servers; }
  Place current(PeerId id) const {
    const auto job = jobs_.find(id);
    return job == jobs_.end() ? network_.number(id) : job->second.place;
  }
  bool isolated(Place place) const { return isolated_.contains(place); }

  void start(PeerId id) {
    Job& job = jobs_[id];
    if (job.starts == 0) job.place = network_.number(id);
    const bool beside = processes_[job.place].running();
    if (job.done || (beside && !isolated(job.place))) return;
    if (beside) {
      const Place first = network_.number(id), spare = first + scenario_.servers;
      job.place = job.place == first ? spare : first;
      if (processes_[job.place].running()) vanish(job.place);  // at most two processes of a server live
    }
    ++job.starts;
    isolated_.erase(job.place);
    processes_[job.place].start(1 + network_.number(id) + 1000 * job.starts, job.failures);
  }

  void vanish(Place place) {
    network_.kill(place);
    processes_[place].stop();
  }

  // The Job of a process that has ended starts it again.
  void ended(Place place, rt::ExitCode code, const std::string& why) {
    if (print_) say(place, "ends with " + std::to_string(static_cast<int>(code)) + ": " + why);
    const PeerId id = ids_[place];
    Job& job = jobs_[id];
    const bool replaced = isolated_.erase(place) > 0;
    if (code == rt::ExitCode::trained && !replaced) {
      job.done = true;
      const bool trained = id.role == Role::worker || invariants_.is_evaluated();
      trained ? void(trained_ = true) : abandon(place);
    }
    // If a checkpoint cannot be saved, the run ends, and does not train again.
    if (code == rt::ExitCode::checkpoint_unusable && disk_.has_failed) abandoned_ = true;
    if (abandoned_ && rt::is_final(code)) return;
    if (rt::is_final(code)) throw Violation(to_string(id) + " ends the run: " + why);
    if (code == rt::ExitCode::peers_lost && !replaced && !trained_ &&
        clock_.now() > quiet_ + scenario_.patience + settled_after)
      throw Violation(to_string(id) + " gives up, though all can reach each other: " + why);
    if (job.done || replaced) return;
    start_later(id, code);
  }

  // Called when a server ends with 0 before the run is trained, or before the end is reported. This is right
  // if the server has heard no worker during its whole patience, since the run is then over. If the last
  // checkpoint is there, workers may still find the checkpoint.
  void abandon(Place place) {
    const bool saved = disk_.has(scenario_.steps);
    const Duration patience = scenario_.patience;
    const Duration least =
        disk_.had_last ? std::min<Duration>(rt::ps_timers::trained_patience, patience) : patience;
    if (!processes_[place].knew_of_end() && clock_.now() - heard_worker_[place] < least)
      throw Violation(to_string(ids_[place]) + " ends with 0, though it has heard of a worker");
    (saved ? left_to_workers_ : abandoned_) = true;
  }

  void start_later(PeerId id, rt::ExitCode code) {
    if (id.role == Role::worker && scenario_.never.contains(id.rank)) return;
    clock_.after(restart_pause(code, jobs_[id].failures), [this, id] { start(id); });
  }

  void happen(const PsFault& fault) {
    const Place place = current(fault.first);
    PsProcess& process = processes_[place];
    using enum PsFault::Kind;
    if (print_ && process.running() && fault.kind < cut) say(place, fault_text(fault.kind));
    switch (fault.kind) {
      case PsFault::Kind::start:
        return this->start(fault.first);
      case kill:
      case lose_host:
        if (!process.running()) return;
        fault.kind == kill ? network_.kill(place) : network_.lose_host(place);
        process.stop();
        return ended(place, rt::ExitCode::internal_error, "killed");
      case freeze:
        if (!process.running()) return;
        network_.freeze(place);
        return process.freeze();
      case thaw:
        return thaw_at(place);
      case terminate:
        return this->terminate(place);
      case isolate:
        return isolate_at(place);
      case reconnect:
        return heal_all(fault.first);
      case PsFault::Kind::cut:
        return network_.cut(place, current(fault.second));
      case heal:
        return network_.heal(place, current(fault.second));
      case disk_full:
        disk_.full = fault.value != 0;
        disk_.has_failed = disk_.has_failed || disk_.full;
        return;
      case disk_slow:
        disk_.slowness = std::max(fault.value, 1);
        disk_.has_failed = disk_.has_failed || disk_.slowness > 1;
        return;
      case lose_disk:
        disk_lost_ = disk_lost_ || disk_.has(scenario_.steps);
        abandoned_ = abandoned_ || left_to_workers_;
        disk_.made.clear();
        for (auto& [name, aside] : disk_.aside) aside.lost = true;
        return;
    }
  }

  // A process has passed a probe. During the storm a probe may bring faults to this process or to others.
  void pass(Place place, std::string_view probe) {
    if (probe == "ps.finish-told" && scenario_.lost_at_end && !std::exchange(lost_at_end_, true))
      clock_.after(Duration(0), [this, id = ids_[place]] { happen({{}, PsFault::Kind::kill, id, {}, 0}); });
    const auto seed = probe_draw_.passed(probe, clock_.now() - begin_);
    if (!seed) return;
    if (print_) say(place, "comes to a fault at " + std::string(probe));
    for (const PsFault& fault : draw_at_probe(*seed, scenario_, ids_[place])) {
      if (print_) {
        PsFault as_line = fault;
        as_line.at += clock_.now() - begin_;
        say(place, to_text(as_line));
      }
      clock_.after(fault.at, [this, fault] {
        if (clock_.now() < quiet_) happen(fault);
      });
    }
  }

  static std::string fault_text(PsFault::Kind kind) {
    static constexpr const char* texts[] = {"is to start", "is killed",       "loses its host",
                                            "freezes",     "thaws",           "is stopped",
                                            "is isolated", "is reached again"};
    return texts[static_cast<int>(kind)];
  }

  void thaw_at(Place place) {
    if (!network_.is_frozen(place)) return;
    processes_[place].thaw();
    if (processes_[place].running()) network_.thaw(place);
  }

  // Sends SIGTERM, and SIGKILL after the grace period.
  void terminate(Place place) {
    PsProcess& process = processes_[place];
    if (!process.running()) return;
    process.terminate();
    clock_.after(termination_grace, [this, place, own = process.incarnation()] {
      PsProcess& same = processes_[place];
      if (!same.running() || same.incarnation() != own) return;
      vanish(place);
      ended(place, rt::ExitCode::terminated, "killed after its grace");
    });
  }

  void isolate_at(Place place) {
    if (!processes_[place].running() || isolated(place)) return;
    isolated_.insert(place);
    for (Place other = 0; other < ids_.size(); ++other) {
      if (other == place) continue;
      network_.cut(place, other);
      network_.cut(other, place);
    }
    start_later(ids_[place], rt::ExitCode::internal_error);
  }

  void heal_all(PeerId id) {
    for (Place place = 0; place < ids_.size(); ++place) {
      if (ids_[place] != id) continue;
      for (Place other = 0; other < ids_.size(); ++other) heal_between(place, other);
    }
  }
  void heal_between(Place one, Place other) {
    if (one == other) return;
    if (network_.is_cut(one, other)) network_.heal(one, other);
    if (network_.is_cut(other, one)) network_.heal(other, one);
  }

  // No more faults from here on. If a server has a successor, the old process is gone with its host.
  void calm() {
    for (Place place = 0; place < ids_.size(); ++place) {
      thaw_at(place);
      for (Place other = 0; other < ids_.size(); ++other) heal_between(place, other);
      if (isolated_.erase(place) == 0) continue;
      if (current(ids_[place]) != place) {
        if (processes_[place].running()) vanish(place);
      }
    }
    disk_.full = false;
    disk_.slowness = 1;
    watch();
  }

  bool settled() const { return clock_.now() > quiet_ + settled_after; }

  // In calm server 0 sends every worker a work or wait message every few seconds.
  void watch() {
    clock_.after(1s, [this] { watch(); });
    if (!settled()) return;
    for (const PsProcess& process : processes_) {
      if (process.unheard() > unheard_limit + 2 * scenario_.network.longest)
        throw Violation(process.describe() + ", and server 0 tells it nothing");
    }
  }

  // True if all workers know that the run is trained, and all servers have ended. Without the last checkpoint
  // on disk a late worker cannot learn that the run is trained.
  bool over() const {
    if (abandoned_) return true;
    if (!trained_) return false;
    if (!disk_.there || disk_lost_) return true;
    for (const auto& [id, job] : jobs_) {
      const bool comes =
          id.role == Role::server || !scenario_.never.contains(id.rank) || processes_[job.place].running();
      if (!job.done && comes) return false;
    }
    return true;
  }

  // The time by which the run must be over. In calm this time is enough to start and connect all processes
  // again, to seed the servers, perhaps twice, and to make all steps, as if one worker made them alone.
  SteadyTime deadline() const {
    const auto steps = static_cast<std::int64_t>(scenario_.steps);
    const std::int64_t slices = scenario_.consistency.sync ? scenario_.workers : 1;
    return quiet_ + settled_after + scenario_.patience + 2 * scenario_.late + 60s + 2 * termination_grace +
           steps * (slices * scenario_.compute + 12 * scenario_.network.longest) + 20 * scenario_.write +
           2 * scenario_.longest_write;
  }

  std::string stuck() const {
    std::string text;
    for (const PsProcess& process : processes_) {
      if (!process.running()) continue;
      text += (text.empty() ? "" : "; ") + process.describe();
    }
    return text;
  }

  const PsScenario& scenario_;
  const Print& print_;
  const std::vector<PeerId> ids_;
  Clock clock_;
  Random random_;
  const SteadyTime begin_;
  SteadyTime quiet_ = begin_;
  Network network_;
  PsDisk disk_;
  bool disk_lost_ = false;  // the disk was lost with the last checkpoint
  bool lost_at_end_ = false;
  bool trained_ = false;          // a rank has ended as trained
  bool left_to_workers_ = false;  // a server has ended, since the last checkpoint is on the disk
  bool abandoned_ = false;        // a server has heard no worker during all of its patience: the run is over
  std::map<Place, SteadyTime> heard_worker_;  // when each server last heard a worker
  PsInvariants invariants_;
  ProbeFaultDraw probe_draw_;
  std::unique_ptr<kernels::Ops> ops_ = kernels::make_reference_ops();
  const PsWorld surroundings_;
  std::deque<PsProcess> processes_;  // in the order of their places
  std::map<PeerId, Job> jobs_;
  std::set<Place> isolated_;  // places of processes that their Jobs have given up
};

}  // namespace

Outcome simulate(const PsScenario& scenario, const Print& print) { return PsRun(scenario, print).run(); }

}  // namespace mlk::sim
