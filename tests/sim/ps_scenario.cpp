#include "tests/sim/ps_scenario.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/sim/scenario_text.h"

namespace mlk::sim {
namespace {

using Kind = PsFault::Kind;
using rt::PeerId;
using rt::Role;

constexpr std::array<const char*, 13> ps_fault_names = {
    "start",     "kill", "lose_host", "freeze",    "thaw",      "terminate", "isolate",
    "reconnect", "cut",  "heal",      "disk_full", "disk_slow", "lose_disk"};

bool of_two(Kind kind) { return kind == Kind::cut || kind == Kind::heal; }
bool of_disk(Kind kind) {
  return kind == Kind::disk_full || kind == Kind::disk_slow || kind == Kind::lose_disk;
}

PeerId parse_process(const std::string& word) {
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos) throw std::invalid_argument(word);
  const auto rank = static_cast<std::uint32_t>(std::stoul(word.substr(slash + 1)));
  return {word.starts_with("server") ? Role::server : Role::worker, rank};
}

rt::Consistency parse_consistency(const std::string& word) {
  rt::Consistency consistency;
  consistency.sync = word == "sync";
  if (word != "sync" && word != "async") consistency.staleness = std::stoi(word);
  return consistency;
}

std::string read_word(std::istream& words) {
  std::string word;
  if (!(words >> word)) throw std::invalid_argument("word");
  return word;
}

PsFault read_ps_fault(std::istream& words) {
  PsFault fault;
  fault.at = read_seconds(words);
  const std::string name = read_word(words);
  const auto found = std::ranges::find(ps_fault_names, name);
  if (found == ps_fault_names.end()) throw std::invalid_argument(name);
  fault.kind = static_cast<Kind>(found - ps_fault_names.begin());
  if (!of_disk(fault.kind)) {
    fault.first = parse_process(read_word(words));
  } else if (fault.kind != Kind::lose_disk) {
    fault.value = static_cast<int>(read_count<std::uint32_t>(words));
  }
  if (of_two(fault.kind)) fault.second = parse_process(read_word(words));
  return fault;
}

std::map<std::string, LineReader> readers_into(PsScenario& s) {
  return {{"mode", [](std::istream& words) { read_word(words); }},
          {"seed", count_into(s.seed)},
          {"workers", count_into(s.workers)},
          {"servers", count_into(s.servers)},
          {"minimum", count_into(s.minimum)},
          {"steps", count_into(s.steps)},
          {"checkpoint_every", count_into(s.checkpoint_every)},
          {"disk", switch_into(s.disk)},
          {"lost_at_end", switch_into(s.lost_at_end)},
          {"frozen_are_lost", switch_into(s.network.frozen_are_lost)},
          {"patience", seconds_into(s.patience)},
          {"late", seconds_into(s.late)},
          {"offline", seconds_into(s.offline)},
          {"compute", milliseconds_into(s.compute)},
          {"write", milliseconds_into(s.write)},
          {"longest_write", milliseconds_into(s.longest_write)},
          {"seen", milliseconds_into(s.seen)},
          {"way", milliseconds_into(s.network.longest)},
          {"consistency", [&s](std::istream& words) { s.consistency = parse_consistency(read_word(words)); }},
          {"never", [&s](std::istream& words) { s.never.insert(read_count<std::uint32_t>(words)); }},
          {"at_probes",
           [&s](std::istream& words) {
             s.at_probes.seed = read_count<std::uint64_t>(words);
             s.at_probes.until = read_seconds(words);
           }},
          {"passes", word_into(s.passes)},
          {"at", [&s](std::istream& words) { s.faults.push_back(read_ps_fault(words)); }}};
}

}  // namespace

rt::Config PsScenario::config() const {
  rt::Config config;
  config.mode = rt::Mode::ps;
  config.workers = {static_cast<int>(workers), static_cast<int>(minimum)};
  config.servers = {static_cast<int>(servers)};
  config.steps = steps;
  config.data.batch = batch;
  config.consistency = consistency;
  config.optimizer.lr = 1.0 / 128;
  config.checkpoint.every = checkpoint_every;
  config.patience_seconds = static_cast<int>(patience.count());
  config.offline_seconds = static_cast<int>(offline.count());
  return config;
}

std::vector<PeerId> PsScenario::processes() const {
  std::vector<PeerId> ids;
  for (std::uint32_t rank = 0; rank < workers; ++rank) ids.push_back({Role::worker, rank});
  for (std::uint32_t rank = 0; rank < servers; ++rank) ids.push_back({Role::server, rank});
  return ids;
}

bool is_ps_scenario(const std::string& text) {
  return text.starts_with("mode ps\n") || text.find("\nmode ps\n") != std::string::npos;
}

PsScenario parse_ps_scenario(const std::string& text) {
  PsScenario scenario;
  read_lines(text, readers_into(scenario));
  const auto known = scenario.processes();
  const auto is_known = [&](PeerId id) { return std::ranges::find(known, id) != known.end(); };
  bool starts = false;
  for (const PsFault& fault : scenario.faults) {
    starts = starts || fault.kind == Kind::start;
    if ((!of_disk(fault.kind) && !is_known(fault.first)) || (of_two(fault.kind) && !is_known(fault.second)))
      throw std::runtime_error("at: no such process");
  }
  for (const PeerId process : known) {
    if (!starts) scenario.faults.push_back({Duration(0), Kind::start, process, {}, 0});
  }
  return scenario;
}

std::string to_text(const PsScenario& s) {
  std::ostringstream text;
  text.precision(12);
  text << "mode ps\nseed " << s.seed << "\nworkers " << s.workers << "\nservers " << s.servers << "\nminimum "
       << s.minimum << "\nconsistency "
       << (s.consistency.sync        ? "sync"
           : s.consistency.staleness ? std::to_string(*s.consistency.staleness)
                                     : "async")
       << "\nsteps " << s.steps << "\ncheckpoint_every " << s.checkpoint_every << "\ndisk " << s.disk
       << "\nlost_at_end " << s.lost_at_end << "\nfrozen_are_lost " << s.network.frozen_are_lost
       << "\npatience " << s.patience.count() << "\nlate " << s.late.count() << "\noffline "
       << s.offline.count() << "\ncompute " << to_seconds(s.compute) * 1000 << "\nwrite "
       << to_seconds(s.write) * 1000 << "\nlongest_write " << to_seconds(s.longest_write) * 1000 << "\nseen "
       << to_seconds(s.seen) * 1000 << "\nway " << to_seconds(s.network.longest) * 1000 << "\n";
  for (const std::uint32_t rank : s.never) text << "never " << rank << "\n";
  if (s.at_probes.seed != 0)
    text << "at_probes " << s.at_probes.seed << " " << to_seconds(s.at_probes.until) << "\n";
  for (const PsFault& fault : s.faults) text << to_text(fault) << "\n";
  return text.str();
}

std::string to_text(const PsFault& fault) {
  std::ostringstream text;
  text.precision(12);
  text << "at " << to_seconds(fault.at) << " " << ps_fault_names[static_cast<std::size_t>(fault.kind)];
  if (!of_disk(fault.kind)) {
    text << " " << to_string(fault.first);
  } else if (fault.kind != Kind::lose_disk) {
    text << " " << fault.value;
  }
  if (of_two(fault.kind)) text << " " << to_string(fault.second);
  return text.str();
}

}  // namespace mlk::sim
