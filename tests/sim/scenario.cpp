#include "tests/sim/scenario.h"

#include <array>
#include <sstream>
#include <stdexcept>

#include "tests/sim/scenario_text.h"

namespace mlk::sim {
namespace {

constexpr std::array<const char*, 15> fault_names = {
    "start", "kill", "lose_host", "freeze",    "thaw",      "terminate",     "isolate",  "reconnect",
    "hang",  "cut",  "heal",      "disk_full", "disk_slow", "transfer_slow", "lose_disk"};

bool of_no_rank(Fault::Kind kind) { return kind >= Fault::Kind::disk_full; }

bool of_two_ranks(Fault::Kind kind) { return kind == Fault::Kind::cut || kind == Fault::Kind::heal; }

std::uint32_t read_rank(std::istream& words) { return read_count<std::uint32_t>(words); }

Fault read_fault(std::istream& words) {
  Fault fault;
  fault.at = read_seconds(words);
  std::string name;
  words >> name;
  const auto found = std::ranges::find(fault_names, name);
  if (found == fault_names.end()) throw std::invalid_argument(name);
  fault.kind = static_cast<Fault::Kind>(found - fault_names.begin());
  if (fault.kind != Fault::Kind::lose_disk) fault.first = read_rank(words);
  if (of_two_ranks(fault.kind)) fault.second = read_rank(words);
  return fault;
}

std::map<std::string, LineReader> readers_into(Scenario& scenario,
                                               std::map<std::uint32_t, std::int64_t>& drifts) {
  RunSettings& s = scenario.settings;
  return {{"seed", count_into(scenario.seed)},
          {"ranks", [&s](std::istream& words) { s.ranks = s.seeds = read_rank(words); }},
          {"minimum", count_into(s.minimum)},
          {"seeds", count_into(s.seeds)},
          {"steps", count_into(s.steps)},
          {"checkpoint_every", count_into(s.checkpoint_every)},
          {"disk", switch_into(scenario.disk)},
          {"devices", switch_into(s.devices)},
          {"overlaps", switch_into(s.overlaps)},
          {"frozen_are_lost", switch_into(s.network.frozen_are_lost)},
          {"patience", seconds_into(s.patience)},
          {"late", seconds_into(s.late)},
          {"compute", milliseconds_into(s.compute)},
          {"transfer", milliseconds_into(s.transfer)},
          {"write", milliseconds_into(s.write)},
          {"way", milliseconds_into(s.network.longest)},
          {"never", [&scenario](std::istream& words) { scenario.never.insert(read_rank(words)); }},
          {"apart",
           [&scenario](std::istream& words) {
             const std::uint32_t one = read_rank(words);
             scenario.apart.emplace(one, read_rank(words));
           }},
          {"at_probes",
           [&scenario](std::istream& words) {
             scenario.at_probes.seed = read_count<std::uint64_t>(words);
             scenario.at_probes.until = read_seconds(words);
           }},
          {"drift",
           [&drifts](std::istream& words) {
             if (!(words >> drifts[read_rank(words)])) throw std::invalid_argument("drift");
           }},
          {"passes", word_into(scenario.passes)},
          {"at", [&scenario](std::istream& words) { scenario.faults.push_back(read_fault(words)); }}};
}

}  // namespace

Scenario parse_scenario(const std::string& text) {
  Scenario scenario;
  RunSettings& s = scenario.settings;
  std::map<std::uint32_t, std::int64_t> drifts;
  read_lines(text, readers_into(scenario, drifts));
  s.checkpoint_every = std::max<std::uint64_t>(s.checkpoint_every, 1);
  s.network.longest = std::max(s.network.longest, s.network.shortest);
  if (s.ranks < 1 || s.ranks > 1000) throw std::runtime_error("ranks: from 1 to 1000");
  if (scenario.apart && std::max(scenario.apart->first, scenario.apart->second) >= s.ranks)
    throw std::runtime_error("apart: no such rank");
  bool starts = false;
  for (const Fault& fault : scenario.faults) {
    starts = starts || fault.kind == Fault::Kind::start;
    if (!of_no_rank(fault.kind) && (fault.first >= s.ranks || fault.second >= s.ranks))
      throw std::runtime_error("at: no such rank");
    if (fault.kind == Fault::Kind::hang && !s.devices)
      throw std::runtime_error("at: only sums by devices hang, see devices");
  }
  for (std::uint32_t rank = 0; rank < s.ranks; ++rank) {
    scenario.drift_ppm.push_back(drifts[rank]);
    if (!starts) scenario.faults.push_back({Duration(0), Fault::Kind::start, rank, 0});
  }
  return scenario;
}

std::string to_text(const Scenario& scenario) {
  const RunSettings& s = scenario.settings;
  std::ostringstream text;
  text.precision(12);
  text << "seed " << scenario.seed << "\nranks " << s.ranks << "\nminimum " << s.minimum << "\nseeds "
       << s.seeds << "\nsteps " << s.steps << "\ncheckpoint_every " << s.checkpoint_every << "\ndisk "
       << scenario.disk << "\ndevices " << s.devices << "\noverlaps " << s.overlaps << "\nfrozen_are_lost "
       << s.network.frozen_are_lost << "\npatience " << s.patience.count() << "\nlate " << s.late.count()
       << "\ncompute " << to_seconds(s.compute) * 1000 << "\ntransfer " << to_seconds(s.transfer) * 1000
       << "\nwrite " << to_seconds(s.write) * 1000 << "\nway " << to_seconds(s.network.longest) * 1000
       << "\n";
  for (const std::uint32_t rank : scenario.never) text << "never " << rank << "\n";
  if (scenario.apart) text << "apart " << scenario.apart->first << " " << scenario.apart->second << "\n";
  if (scenario.at_probes.seed != 0)
    text << "at_probes " << scenario.at_probes.seed << " " << to_seconds(scenario.at_probes.until) << "\n";
  for (std::uint32_t rank = 0; rank < s.ranks; ++rank)
    text << "drift " << rank << " " << scenario.drift_ppm[rank] << "\n";
  for (const Fault& fault : scenario.faults) text << to_text(fault) << "\n";
  return text.str();
}

std::string to_text(const Fault& fault) {
  std::ostringstream text;
  text.precision(12);
  text << "at " << to_seconds(fault.at) << " " << fault_names[static_cast<std::size_t>(fault.kind)];
  if (fault.kind != Fault::Kind::lose_disk) text << " " << fault.first;
  if (of_two_ranks(fault.kind)) text << " " << fault.second;
  return text.str();
}

}  // namespace mlk::sim
