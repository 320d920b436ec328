// Files of tensors: any bytes, any header with the right length before it, or tensors that nearly fit.
#include "runtime/checkpoint/safetensors.h"

#include <cstdint>
#include <cstring>
#include <fuzzer/FuzzedDataProvider.h>
#include <stdexcept>
#include <string>

#include "tests/fuzz/demand.h"

using namespace mlk::rt;
using mlk::fuzz::demand;

namespace {

std::string with_length(const std::string& header) {
  const std::uint64_t length = header.size();
  std::string prefix(sizeof length, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + header;
}

std::string nearly_right(FuzzedDataProvider& input) {
  std::vector<SafeTensor> tensors;
  std::size_t offset = 0;
  const int count = input.ConsumeIntegralInRange(0, 4);
  for (int i = 0; i < count; ++i) {
    SafeTensor tensor{std::string(1, static_cast<char>('a' + i)), {}, offset, sizeof(float)};
    for (int d = input.ConsumeIntegralInRange(0, 3); d > 0; --d) {
      tensor.shape.push_back(input.ConsumeIntegralInRange(0, 5));
      tensor.size *= static_cast<std::size_t>(tensor.shape.back());
    }
    offset += tensor.size;
    tensors.push_back(std::move(tensor));
  }
  if (!tensors.empty() && input.ConsumeBool()) {
    SafeTensor& one = tensors[input.ConsumeIntegralInRange<std::size_t>(0, tensors.size() - 1)];
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0:
        one.offset = input.ConsumeIntegral<std::size_t>();
        break;
      case 1:
        one.size = input.ConsumeIntegral<std::size_t>();
        break;
      case 2:
        one.shape.push_back(input.ConsumeIntegral<std::int64_t>());
        break;
      default:
        one.shape.assign(3, input.ConsumeIntegral<std::int64_t>());
    }
  }
  std::string file = safetensors_header(tensors, {{"step", "1"}});
  file.resize(file.size() + offset, '\1');
  return file;
}

void check(const SafeTensorsFile& parsed, const std::string& file) {
  std::size_t end = 0;
  for (const SafeTensor& tensor : parsed.tensors) {
    demand(tensor.offset == end);
    end += tensor.size;
  }
  demand(parsed.data_begin + end == file.size());
  const std::string again =
      safetensors_header(parsed.tensors, parsed.metadata) + file.substr(parsed.data_begin);
  const SafeTensorsFile same = parse_safetensors(again, again.size());
  demand(same.metadata == parsed.metadata && same.tensors.size() == parsed.tensors.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const int kind = input.ConsumeIntegralInRange(0, 2);
  std::string file;
  if (kind == 0) file = input.ConsumeRemainingBytesAsString();
  if (kind == 1)
    file = with_length(input.ConsumeRandomLengthString()) + input.ConsumeRemainingBytesAsString();
  if (kind == 2) {
    file = nearly_right(input);
    const auto at = input.ConsumeIntegralInRange<std::size_t>(0, file.size() - 1);
    if (input.ConsumeBool()) file[at] = input.ConsumeIntegral<char>();
    if (input.ConsumeBool()) file.resize(at);
  }
  try {
    check(parse_safetensors(file, file.size()), file);
  } catch (const std::runtime_error&) {
    // The parser refuses the file with a reason.
  }
  return 0;
}
