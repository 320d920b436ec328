// Files of points: any bytes, or lines that are nearly points. A trial reads its point from the file.
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <sstream>
#include <string>

#include "runtime/base/exit_code.h"
#include "runtime/launch/trial.h"
#include "tests/fuzz/demand.h"

using namespace mlk::rt;
using mlk::fuzz::demand;

namespace {

std::string near_point(FuzzedDataProvider& input) {
  std::string line = R"({"trial": )" + std::to_string(input.ConsumeIntegral<std::int32_t>()) +
                     R"(, "hash": "a", "parameters": )" + input.ConsumeRandomLengthString(60) +
                     R"(, "config": )" + input.ConsumeRandomLengthString(60) + "}";
  if (input.ConsumeBool()) {
    line[input.ConsumeIntegralInRange<std::size_t>(0, line.size() - 1)] = input.ConsumeIntegral<char>();
  }
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const int index = input.ConsumeIntegralInRange(0, 4);
  std::string text;
  for (int lines = input.ConsumeIntegralInRange(0, 5); lines > 0; --lines) text += near_point(input) + "\n";
  text += input.ConsumeRemainingBytesAsString();
  std::istringstream file(text);
  try {
    const Trial trial = read_trial(file, "points", index);
    demand(trial.number >= 0 && trial.config.is_object());
    demand(!trial.values.empty() && trial.values.size() <= 1024);
    for (const char c : trial.values) demand(c >= ' ' && c <= '~');
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::bad_configuration);
    demand(std::string(failure.what()).starts_with("points:" + std::to_string(index + 1) + ": "));
  }
  return 0;
}
