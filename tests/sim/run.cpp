#include "tests/sim/run.h"

#include <cstdio>

namespace mlk::sim {
namespace {

constexpr Duration first_restart = 10s, longest_restart = 40s;
constexpr std::uint64_t most_events = 20'000'000;

class Run {
 public:
  Run(const Scenario& scenario, const Print& print)
      : scenario_(scenario),
        settings_(scenario.settings),
        print_(print),
        random_(mix(scenario.seed, 2)),
        begin_(clock_.now()),
        network_(
            clock_, random_, settings_.network, workers(settings_.ranks),
            [this](std::uint32_t rank, rt::Event&& event) { deliver(rank, std::move(event)); },
            print ? Network::Trace([this](std::uint32_t rank, const std::string& line) { say(rank, line); })
                  : Network::Trace()),
        invariants_(settings_.step_samples, scenario.disk),
        jobs_(settings_.ranks) {
    disk_.there = scenario.disk;
    const Surroundings surroundings{
        clock_,
        random_,
        network_,
        disk_,
        invariants_,
        settings_,
        [this](std::uint32_t rank, rt::ExitCode code) { ended(rank, code); },
        print ? [this](std::uint32_t rank, const std::string& line) { say(rank, line); }
              : std::function<void(std::uint32_t, const std::string&)>()};
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank)
      ranks_.push_back(std::make_unique<SimulatedRank>(surroundings, rank, scenario.drift_ppm[rank]));
    for (const Fault& fault : scenario.faults) {
      clock_.at(begin_ + fault.at, [this, fault] { happen(fault); });
      quiet_ = std::max(quiet_, begin_ + fault.at);
    }
    clock_.at(quiet_, [this] { calm(); });
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
    } catch (const LostVote&) {
      outcome.lost_vote = true;
    }
    outcome.time = clock_.now() - begin_;
    outcome.commits = invariants_.commits();
    outcome.generations = invariants_.generations();
    return outcome;
  }

 private:
  static std::vector<rt::PeerId> workers(std::uint32_t count) {
    std::vector<rt::PeerId> ids;
    for (std::uint32_t rank = 0; rank < count; ++rank) ids.push_back({rt::Role::worker, rank});
    return ids;
  }
  // What the Job of a rank knows.
  struct Job {
    bool trained = false;
    int failures = 0;
    std::uint64_t starts = 0;
  };

  void deliver(std::uint32_t rank, rt::Event&& event) {
    if (print_ && event.kind == rt::Event::Kind::message && event.header.type != rt::MessageType::reduce)
      say(rank, describe(event));
    ranks_[rank]->deliver(std::move(event));
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
    if (ranks_[rank]->running() || jobs_[rank].trained) return;
    ++jobs_[rank].starts;
    ranks_[rank]->start(incarnation_of(rank));
  }

  // Of the process that was started last.
  std::uint64_t incarnation_of(std::uint32_t rank) const { return 1 + rank + 1000 * jobs_[rank].starts; }

  // The Job of a process that has ended starts it again.
  void ended(std::uint32_t rank, rt::ExitCode code) {
    invariants_.gone({rank, incarnation_of(rank)});
    if (code == rt::ExitCode::trained) {
      jobs_[rank].trained = true;
      return;
    }
    if (scenario_.never.contains(rank)) return;
    const Duration pause =
        std::min(first_restart * (1 << std::min(jobs_[rank].failures++, 4)), longest_restart);
    clock_.after(pause, [this, rank] { start(rank); });
  }

  void happen(const Fault& fault) {
    const std::uint32_t rank = fault.first;
    using enum Fault::Kind;
    switch (fault.kind) {
      case Fault::Kind::start:
        return this->start(rank);
      case kill:
      case lose_host:
        if (!ranks_[rank]->running()) return;
        if (print_) say(rank, fault.kind == kill ? "is killed" : "loses its host");
        fault.kind == kill ? network_.kill(rank) : network_.lose_host(rank);
        ranks_[rank]->stop();
        return ended(rank, rt::ExitCode::internal_error);
      case freeze:
        if (!ranks_[rank]->running()) return;
        if (print_) say(rank, "freezes");
        network_.freeze(rank);
        return ranks_[rank]->freeze();
      case thaw:
        if (!network_.is_frozen(rank)) return;
        if (print_) say(rank, "thaws");
        ranks_[rank]->thaw();
        return network_.thaw(rank);
      case cut:
        if (print_) say(rank, "is cut off on the way to " + std::to_string(fault.second));
        return network_.cut(rank, fault.second);
      case heal:
        if (print_) say(rank, "has a way again to " + std::to_string(fault.second));
        return network_.heal(rank, fault.second);
      case disk_full:
        disk_.full = fault.first != 0;
        return;
      case disk_slow:
        disk_.slowness = static_cast<int>(std::max(fault.first, 1u));
        return;
    }
  }

  // From here on nothing more goes wrong.
  void calm() {
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank) {
      if (network_.is_frozen(rank)) happen({{}, Fault::Kind::thaw, rank, 0});
      for (std::uint32_t other = 0; other < settings_.ranks; ++other) {
        if (rank != other && network_.is_cut(rank, other)) happen({{}, Fault::Kind::heal, rank, other});
      }
    }
    disk_.full = false;
    disk_.slowness = 1;
  }

  // All ranks that may still come know that the run is trained. Without a disk one that comes late cannot.
  bool over() const {
    if (!disk_.there && invariants_.is_trained()) return true;
    for (std::uint32_t rank = 0; rank < settings_.ranks; ++rank) {
      if (!jobs_[rank].trained && (ranks_[rank]->running() || !scenario_.never.contains(rank))) return false;
    }
    return true;
  }

  // In calm: everyone gives up once, if need be, is started again and assembles; then all steps, each with
  // the pauses of a state that is sent.
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
              (jobs_[rank].trained ? " is trained" : " " + ranks_[rank]->describe());
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
  Invariants invariants_;
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
};

}  // namespace

Outcome simulate(const Scenario& scenario, const Print& print) { return Run(scenario, print).run(); }

}  // namespace mlk::sim
