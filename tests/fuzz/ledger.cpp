// Lines of the ledger of a sweep: any bytes, or the line of a trial with some bytes changed. If a line can be
// read, its trial is written as a line that is not too long, and this line is read as the same trial.
#include "sweeps/space/ledger.h"

#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>

#include "tests/fuzz/demand.h"

using namespace mlk::sweeps;
using mlk::fuzz::demand;

namespace {

std::string nearly_right(FuzzedDataProvider& input) {
  Trial trial;
  trial.number = input.ConsumeIntegral<int>();
  trial.point = {{input.ConsumeRandomLengthString(20), input.ConsumeFloatingPoint<double>()},
                 {"text", input.ConsumeRandomLengthString(20)}};
  trial.state = input.PickValueInArray({TrialState::waiting, TrialState::running, TrialState::succeeded,
                                        TrialState::failed, TrialState::stopped});
  trial.tries = input.ConsumeIntegral<int>();
  trial.step = input.ConsumeIntegral<std::int64_t>();
  if (input.ConsumeBool())
    trial.metrics = {{input.ConsumeRandomLengthString(20), input.ConsumeFloatingPoint<double>()}};
  if (input.ConsumeBool()) trial.objective = input.ConsumeFloatingPoint<double>();
  for (int i = input.ConsumeIntegralInRange(0, 100); i > 0; --i)
    trial.curve.emplace_back(input.ConsumeIntegral<std::int64_t>(), input.ConsumeFloatingPoint<double>());
  trial.failure = input.ConsumeRandomLengthString(400);
  if (input.ConsumeBool()) trial.started = mlk::Time(std::chrono::nanoseconds(input.ConsumeIntegral<long>()));
  std::string line = to_line(trial);
  for (int i = input.ConsumeIntegralInRange(0, 4); i > 0; --i) {
    const auto at = input.ConsumeIntegralInRange<std::size_t>(0, line.size() - 1);
    line[at] = input.ConsumeIntegral<char>();
  }
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::string line = input.ConsumeBool() ? input.ConsumeRemainingBytesAsString() : nearly_right(input);
  const std::optional<Trial> trial = from_line(line);
  if (!trial) return 0;
  const std::string written = to_line(*trial);
  demand(written.size() <= longest_line && written.find('\n') == std::string::npos);
  const std::optional<Trial> again = from_line(written);
  demand(again.has_value() && to_line(*again) == written);
  demand(to_line(combine(*trial, *again)) == written);
  return 0;
}
