#include "tests/sim/probes.h"

#include <cstdio>
#include <utility>

#include "runtime/base/code_probe.h"

namespace mlk::sim {
namespace {

struct ProbeRuns {
  std::uint64_t runs = 0, last = 0;  // last: the number of the last run that passed the probe
};
std::map<std::string, ProbeRuns, std::less<>> passed_in;
std::vector<std::string_view> passed_now;
std::uint64_t current_run = 1;

void note_probe(const char* name) {
  passed_now.emplace_back(name);
  auto found = passed_in.find(std::string_view(name));
  if (found == passed_in.end()) found = passed_in.emplace(name, ProbeRuns()).first;
  if (found->second.last == current_run) return;
  found->second.last = current_run;
  ++found->second.runs;
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0;
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

}  // namespace

void listen_to_probes() { rt::probe_listener = note_probe; }

void next_run() {
  ++current_run;
  passed_now.clear();
}

bool has_passed(std::string_view probe) {
  const auto found = passed_in.find(probe);
  return found != passed_in.end() && found->second.last == current_run;
}

std::vector<std::string_view> take_passed_probes() { return std::exchange(passed_now, {}); }

void print_probes() {
  for (const auto& [name, probe] : passed_in)
    std::printf("probe %s %lu\n", name.c_str(), static_cast<unsigned long>(probe.runs));
}

// If processes lose each other at these probes, one may have begun a generation that another has not begun.
bool is_at_a_beginning(std::string_view probe) {
  return probe == "allreduce.accepted" || probe == "allreduce.begun-elsewhere" ||
         probe == "allreduce.begun-with-lagging";
}

// One probe in four brings one fault, at one of its first thirty passages. In half of the runs a probe at the
// beginning of a generation always brings two faults, at early passages.
std::optional<std::uint64_t> ProbeFaultDraw::passed(std::string_view probe, Duration now) {
  if (faults_.seed == 0 || now >= faults_.until) return {};
  auto found = passages_.find(probe);
  if (found == passages_.end()) found = passages_.emplace(probe, 0).first;
  Random random(mix(faults_.seed, hash_of(probe)));
  const bool certain = is_at_a_beginning(probe) && Random(faults_.seed).one_in(2);
  if (!certain && !random.one_in(4)) return {};
  const std::uint64_t which = certain || random.one_in(2) ? random.between(1, 3) : random.between(1, 30);
  const std::uint64_t times = ++found->second;
  if (times != which && !(certain && times == 3 * which)) return {};
  return random.next();
}

}  // namespace mlk::sim
