#include "tests/sim/probes.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/code_probe.h"

namespace mlk::sim {
namespace {

struct ProbeRuns {
  std::uint64_t runs = 0, last = 0;  // last: the number of the run that passed it last
};
std::map<std::string, ProbeRuns, std::less<>> passed;
std::uint64_t current_run = 1;

void note_probe(const char* name) {
  auto found = passed.find(std::string_view(name));
  if (found == passed.end()) found = passed.emplace(name, ProbeRuns()).first;
  if (found->second.last == current_run) return;
  found->second.last = current_run;
  ++found->second.runs;
}

}  // namespace

void count_probes() { rt::probe_listener = note_probe; }

void next_run() { ++current_run; }

void print_probes() {
  for (const auto& [name, probe] : passed)
    std::printf("probe %s %lu\n", name.c_str(), static_cast<unsigned long>(probe.runs));
}

}  // namespace mlk::sim
