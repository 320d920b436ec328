#include "sweeps/results/rows.h"

#include <algorithm>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk::sweeps {
namespace {

constexpr std::size_t most_reads_at_once = 16;

std::optional<SweepStatus> read_if_possible(kube::Client& client, const std::string& name_space,
                                            const std::string& sweep) {
  try {
    return read_sweep(client, name_space, sweep, Harvest::running);
  } catch (const Error&) {  // the sweep was deleted meanwhile, or the user may not read a part of it
    return std::nullopt;
  }
}

}  // namespace

RunStatus with_status(RunStatus row, const SweepStatus& status) {
  const Counts& counts = status.counts;
  row.phase = status.phase;
  row.why = status.why;
  if (row.why.empty() && counts.failed > 0)
    row.why = fmt::format("{} of {} trials failed", counts.failed, counts.all());
  row.steps = counts.all();
  row.result = {{"step", counts.succeeded + counts.failed}};
  row.started = status.started;
  row.ended = status.ended;
  row.cannot_start = status.cannot_start;
  return row;
}

std::vector<RunStatus> list_runs_and_sweeps(kube::Client& client, const std::string& name_space, Time now,
                                            const RunFilter& filter) {
  std::vector<RunStatus> rows = list_runs(client, name_space, now, filter, row_of_sweep);
  std::vector<RunStatus*> sweeps;
  for (RunStatus& row : rows) {
    if (row.mode == mode_of_sweeps) sweeps.push_back(&row);
  }
  for (std::size_t first = 0; first < sweeps.size(); first += most_reads_at_once) {
    const std::size_t last = std::min(first + most_reads_at_once, sweeps.size());
    std::vector<std::future<std::optional<SweepStatus>>> reads;
    for (std::size_t i = first; i < last; ++i)
      reads.push_back(std::async(std::launch::async, read_if_possible, std::ref(client),
                                 std::cref(name_space), std::cref(sweeps[i]->run)));
    for (std::size_t i = first; i < last; ++i) {
      if (const std::optional<SweepStatus> status = reads[i - first].get())
        *sweeps[i] = with_status(std::move(*sweeps[i]), *status);
    }
  }
  return rows;
}

}  // namespace mlk::sweeps
