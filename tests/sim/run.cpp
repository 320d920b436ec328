#include "tests/sim/run.h"

#include <cstdio>

#include "runtime/membership/peers.h"

namespace mlk::sim {
namespace {

constexpr std::uint64_t most_events = 20'000'000;

NetworkSettings network_of(const RunSettings& settings) {
  NetworkSettings network = settings.network;
  network.suspected_after = rt::gpu_suspect_after;
  if (settings.devices) network.suspect_after = rt::gpu_suspect_after;
  return network;
}

class Run {
 public:
  Run(const Scenario& scenario, const Print& print)
      : scenario_(scenario),
        settings_(scenario.settings),
        print_(print),
        random_(mix(scenario.seed, 2)),
        begin_(clock_.now()),
        network_(
            clock_, random_, network_of(settings_), workers(settings_.ranks),
            [this](std::uint32_t rank, rt::Event&& event) { deliver(rank, std::move(event)); },
            print ? Network::Trace([this](std::uint32_t rank, const std::string& line) { say(rank, line); })
                  : Network::Trace()),
        invariants_(settings_.step_samples, scenario.disk),
        probe_draw_(scenario.at_probes),
        jobs_(settings_.ranks),
        incarnations_(2 * settings_.ranks) {
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank) jobs_[rank].newest = rank;
    disk_.there = scenario.disk;
    const RankWorld world{clock_,
                          random_,
                          network_,
                          disk_,
                          invariants_,
                          settings_,
                          transfer_slowness_,
                          [this](std::uint32_t number, rt::ExitCode code) { ended(number, code); },
                          [this](std::uint32_t number, std::string_view probe) { pass(number, probe); },
                          print ? [this](std::uint32_t rank, const std::string& line) { say(rank, line); }
                                : std::function<void(std::uint32_t, const std::string&)>()};
    for (std::uint32_t number = 0; number < 2 * settings_.ranks; ++number) {
      const std::uint32_t rank = number % settings_.ranks;
      processes_.push_back(std::make_unique<SimulatedRank>(world, number, rank, scenario.drift_ppm[rank]));
    }
    // A state that is sent in slow times delays the messages after it.
    Duration longest_transfer{0};
    for (const Fault& fault : scenario.faults) {
      if (fault.kind == Fault::Kind::transfer_slow)
        longest_transfer = std::max(longest_transfer, settings_.ranks * fault.first * settings_.transfer);
      clock_.at(begin_ + fault.at, [this, fault] { happen(fault); });
      quiet_ =
          std::max(quiet_, begin_ + fault.at +
                               (fault.kind == Fault::Kind::transfer_slow ? longest_transfer : Duration(0)));
    }
    if (scenario.at_probes.seed != 0) quiet_ = std::max(quiet_, begin_ + scenario.at_probes.until);
    clock_.at(quiet_, [this] { calm(); });
    if (scenario.apart) {
      network_.cut(scenario.apart->first, scenario.apart->second);
      network_.cut(scenario.apart->second, scenario.apart->first);
    }
  }

  Outcome run() {
    Outcome outcome;
    try {
      while (!over()) {
        if (clock_.now() > deadline() || outcome.events > most_events)
          throw Violation("the run does not end: " + stuck());
        if (!clock_.step()) throw Violation("nothing happens any more: " + stuck());
        ++outcome.events;
      }
    } catch (const Violation& violation) {
      outcome.violation = violation.what();
    }
    outcome.time = clock_.now() - begin_;
    outcome.commits = invariants_.commits();
    outcome.generations = invariants_.generations();
    return outcome;
  }

 private:
  static std::vector<rt::PeerId> workers(std::uint32_t count) {
    std::vector<rt::PeerId> ids;
    for (std::uint32_t number = 0; number < 2 * count; ++number)
      ids.push_back({rt::Role::worker, number % count});
    return ids;
  }
  // The state of the Job of a rank.
  struct Job {
    std::uint32_t newest = 0;  // its newest process: the rank's number, or the number of a process beside it
    bool trained = false;
    int failures = 0;
    std::uint64_t starts = 0;
  };

  SimulatedRank& process(std::uint32_t rank) const { return *processes_[jobs_[rank].newest]; }

  void deliver(std::uint32_t rank, rt::Event&& event) {
    if (print_ && event.kind == rt::Event::Kind::message && event.header.type != rt::MessageType::reduce)
      say(rank, describe(event));
    processes_[rank]->deliver(std::move(event));
  }

  static std::string describe(const rt::Event& event) {
    static const std::map<rt::MessageType, const char*> names = {
        {rt::MessageType::status, "status"},   {rt::MessageType::propose, "propose"},
        {rt::MessageType::accept, "accept"},   {rt::MessageType::refuse, "refuse"},
        {rt::MessageType::begin, "begin"},     {rt::MessageType::feed, "state"},
        {rt::MessageType::trouble, "trouble"}, {rt::MessageType::done, "done"}};
    const auto name = names.find(event.header.type);
    return std::string("hears ") + (name == names.end() ? "?" : name->second) + " of " +
           to_string(event.peer) + ": generation " + std::to_string(event.header.generation) + ", clock " +
           std::to_string(static_cast<std::int64_t>(event.header.clock)) + ", key " +
           std::to_string(event.header.key);
  }

  void say(std::uint32_t rank, const std::string& line) const {
    char head[48];
    std::snprintf(head, sizeof head, "%11.6f  %2u  ",
                  std::chrono::duration<double>(clock_.now() - begin_).count(), rank);
    print_(head + line);
  }

  void start(std::uint32_t rank) {
    if (!process(rank).running()) start_another(rank);
  }

  // Starts a process beside the running one, if there is one.
  void start_another(std::uint32_t rank) {
    Job& job = jobs_[rank];
    const std::uint32_t number = processes_[rank]->running() ? rank + settings_.ranks : rank;
    if (job.trained || processes_[number]->running()) return;
    job.newest = number;
    incarnations_[number] = 1 + rank + 1000 * ++job.starts;
    processes_[number]->start(incarnations_[number]);
  }

  // The Job of a process that has ended starts it again.
  void ended(std::uint32_t number, rt::ExitCode code) {
    const std::uint32_t rank = number % settings_.ranks;
    invariants_.gone({rank, incarnations_[number]});
    if (number != jobs_[rank].newest) return;
    if (code == rt::ExitCode::trained) {
      jobs_[rank].trained = true;
      return;
    }
    if (code == rt::ExitCode::peers_lost && number != started_apart_ && must_find_peers())
      throw Violation("rank " + std::to_string(rank) + " gives up, though all can reach each other");
    // If a checkpoint cannot be saved, the run ends, and does not train again.
    if (code == rt::ExitCode::checkpoint_unusable) {
      if (!disk_.has_failed) throw Violation("rank " + std::to_string(rank) + " ends the run");
      unsaved_ = true;
      return;
    }
    if (scenario_.never.contains(rank)) return;
    clock_.after(restart_pause(code, jobs_[rank].failures), [this, rank] { start(rank); });
  }

  // A process has passed a probe. During the storm a probe may bring faults to this process or to others.
  void pass(std::uint32_t number, std::string_view probe) {
    if (probe == "allreduce.started-apart") started_apart_ = number;
    const auto seed = probe_draw_.passed(probe, clock_.now() - begin_);
    if (!seed) return;
    if (print_) say(number, "comes to a fault at " + std::string(probe));
    for (const Fault& fault : draw_at_probe(*seed, scenario_, number % settings_.ranks)) {
      if (print_) {
        Fault as_line = fault;
        as_line.at += clock_.now() - begin_;
        say(number, to_text(as_line));
      }
      clock_.after(fault.at, [this, fault] {
        if (clock_.now() < quiet_) happen(fault);
      });
    }
  }

  bool are_apart(std::uint32_t one, std::uint32_t other) const {
    return scenario_.apart &&
           std::minmax(one, other) == std::minmax(scenario_.apart->first, scenario_.apart->second);
  }

  void heal_between(std::uint32_t from, std::uint32_t to) {
    if (network_.is_cut(from, to) && !are_apart(from, to)) network_.heal(from, to);
  }

  // True if no rank may give up for lack of peers. This holds in calm if the patience exceeds the time of the
  // transfers to all ranks that lag, and if all ranks can reach each other. Two ranks that never reach each
  // other may both start the run, and delay the others until one of the two has given up.
  bool must_find_peers() const {
    return !scenario_.apart && settings_.patience > 2 * settings_.ranks * settings_.transfer &&
           clock_.now() > quiet_ + settings_.patience + settled_after;
  }

  void isolate(std::uint32_t rank, bool begins) {
    for (std::uint32_t other = 0; other < processes_.size(); ++other) {
      if (other == rank) continue;
      begins ? network_.cut(rank, other) : network_.heal(rank, other);
      begins ? network_.cut(other, rank) : network_.heal(other, rank);
    }
  }

  void happen(const Fault& fault) {
    const std::uint32_t rank = fault.first, number = rank < jobs_.size() ? jobs_[rank].newest : 0;
    using enum Fault::Kind;
    switch (fault.kind) {
      case Fault::Kind::start:
        return this->start(rank);
      case kill:
      case lose_host:
        return lose(number, fault.kind == lose_host);
      case freeze:
        if (!process(rank).running()) return;
        if (print_) say(number, "freezes");
        network_.freeze(number);
        return process(rank).freeze();
      case thaw:
        return this->thaw(number);
      case terminate:
        if (!process(rank).running()) return;
        if (print_) say(number, "is told to stop");
        process(rank).terminate();
        return clock_.after(termination_grace, [this, number, incarnation = incarnations_[number]] {
          if (incarnation == incarnations_[number]) lose(number, false);
        });
      case Fault::Kind::isolate:
        if (number != rank || !process(rank).running() || scenario_.never.contains(rank)) return;
        if (print_) say(rank, "is cut off from all");
        this->isolate(rank, true);
        return clock_.after(first_restart, [this, rank] { start_another(rank); });
      case reconnect:
        if (print_) say(rank, "has a way again to all");
        return this->isolate(rank, false);
      case hang:
        if (!process(rank).running()) return;
        if (print_) say(rank, "will wait for ever for a sum");
        return process(rank).hang();
      case cut:
        if (print_) say(rank, "is cut off on the way to " + std::to_string(fault.second));
        return network_.cut(rank, fault.second);
      case heal:
        if (print_) say(rank, "has a way again to " + std::to_string(fault.second));
        return heal_between(rank, fault.second);
      case disk_full:
        disk_.full = fault.first != 0;
        disk_.has_failed = disk_.has_failed || disk_.full;
        return;
      case lose_disk:
        disk_.newest.reset();
        disk_lost_ = true;
        return invariants_.disk_lost();
      case disk_slow:
        disk_.slowness = static_cast<int>(std::max(fault.first, 1u));
        return;
      case transfer_slow:
        transfer_slowness_ = std::max(fault.first, 1u);
        return;
    }
  }

  void lose(std::uint32_t number, bool host) {
    if (!processes_[number]->running()) return;
    if (clock_.now() > quiet_) invariants_.somebody_is_killed();
    if (print_) say(number, host ? "loses its host" : "is killed");
    host ? network_.lose_host(number) : network_.kill(number);
    processes_[number]->stop();
    ended(number, rt::ExitCode::internal_error);
  }

  void thaw(std::uint32_t number) {
    if (!network_.is_frozen(number)) return;
    if (print_) say(number, "thaws");
    processes_[number]->thaw();
    network_.thaw(number);
  }

  // From here on there are no more faults.
  void calm() {
    for (std::uint32_t number = 0; number < processes_.size(); ++number) {
      thaw(number);
      for (std::uint32_t other = 0; other < processes_.size(); ++other) {
        if (number != other) heal_between(number, other);
      }
    }
    disk_.full = false;
    disk_.slowness = 1;
    transfer_slowness_ = 1;
    const bool all_meet = settings_.seeds == settings_.ranks && !scenario_.apart;
    if (all_meet) clock_.after(longest_restart + 5s, [this] { invariants_.all_can_be_told(); });
  }

  // True if all ranks that may still come know that the run is trained. Without the disk, a rank that starts
  // late during the storm cannot learn this.
  bool over() const {
    if (unsaved_) return true;
    const bool tells = invariants_.is_told() || (disk_.there && !disk_lost_);
    if (invariants_.is_trained() && !tells) return true;
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank) {
      if (!jobs_[rank].trained && (process(rank).running() || !scenario_.never.contains(rank))) return false;
    }
    return true;
  }

  // The time by which the run must be over. In calm this time is enough for each rank to give up once, if
  // necessary, to start again and to assemble, and for all steps, each with the pauses of a transfer of a
  // state.
  SteadyTime deadline() const {
    const auto steps = static_cast<std::int64_t>(settings_.steps);
    return quiet_ + 3 * settings_.patience + 3 * longest_restart + 2 * settings_.late + 60s +
           2 * steps * (settings_.compute + 4 * settings_.network.longest * settings_.ranks) +
           20 * settings_.ranks * settings_.transfer + 20 * settings_.write;
  }

  std::string stuck() const {
    std::string text;
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank) {
      if (rank > 0) text += "; ";
      text += "rank " + std::to_string(rank) +
              (jobs_[rank].trained ? " is trained" : " " + process(rank).describe());
    }
    return text;
  }

  const Scenario& scenario_;
  const RunSettings& settings_;
  const Print& print_;
  Clock clock_;
  Random random_;
  const SteadyTime begin_;
  SteadyTime quiet_ = begin_;
  Network network_;
  Disk disk_;
  std::uint32_t transfer_slowness_ = 1;
  bool disk_lost_ = false;
  bool unsaved_ = false;  // the run has ended because the disk was full
  Invariants invariants_;
  ProbeFaultDraw probe_draw_;
  std::optional<std::uint32_t> started_apart_;  // the last process that met another start; it ends with 75
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<SimulatedRank>> processes_;  // two for each rank
  std::vector<std::uint64_t> incarnations_;                // of the last process with this number
};

}  // namespace

Duration restart_pause(rt::ExitCode code, int& failures) {
  if (code == rt::ExitCode::terminated) return 1s;
  return std::min(first_restart * (1 << std::min(failures++, 2)), longest_restart);
}

Outcome simulate(const Scenario& scenario, const Print& print) { return Run(scenario, print).run(); }

}  // namespace mlk::sim
