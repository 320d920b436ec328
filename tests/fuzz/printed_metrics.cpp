// Lines that any program prints. The reader never crashes, and what it reads can be shown and stored.
#include "cli/run/facts/printed_metrics.h"

#include <algorithm>
#include <cstdint>

#include "cli/run/facts/metrics.h"
#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const std::optional<mlk::PrintedMetrics> found = mlk::read_printed_metrics(line);
  if (!found) return 0;
  demand(size <= mlk::longest_metrics_line && found->values.size() <= 64);
  for (const auto& [name, value] : found->values) {
    demand(!name.empty() && name.size() <= mlk::longest_metrics_word);
    demand(std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; }));
  }
  return 0;
}
