// CIFAR-10: files of any bytes, of records that are nearly right, and of names and numbers that do not fit.
#include <cstdint>
#include <filesystem>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/image_dataset.h"
#include "tests/fuzz/demand.h"
#include "tests/unit/runtime/idx_files.h"

using namespace mlk::rt;
using mlk::fuzz::demand;
namespace test = mlk::test;

namespace {

constexpr std::size_t record = 3073;

std::string records(FuzzedDataProvider& input) {
  if (input.ConsumeBool()) return input.ConsumeRandomLengthString(100);
  std::string file(input.ConsumeIntegralInRange<std::size_t>(0, 3) * record, '\0');
  for (std::size_t at = 0; at < file.size(); at += record) {
    file[at] = input.ConsumeIntegralInRange<char>(0, 10);
    file[at + input.ConsumeIntegralInRange<std::size_t>(1, record - 1)] = input.ConsumeIntegral<char>();
  }
  file.resize(file.size() + (input.ConsumeBool() ? input.ConsumeIntegralInRange<std::size_t>(0, record) : 0));
  return file;
}

void use(const Dataset& data) {
  demand(data.size() > 0 && data.shape().classes == 10);
  std::vector<std::uint64_t> ids(data.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const auto ops = mlk::kernels::make_reference_ops();
  BatchBuffer buffer(*ops);
  const Batch batch = data.gather(ids, buffer);
  demand(batch.inputs.size() == ids.size() * static_cast<std::size_t>(data.shape().inputs));
  for (const float pixel : batch.inputs) demand(pixel >= 0 && pixel <= 1);
  for (const std::int32_t label : batch.labels) demand(label >= 0 && label < 10);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryFolder folder;
  FuzzedDataProvider input(data, size);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
    std::filesystem::remove(folder / name);
    if (input.ConsumeBool() || input.ConsumeBool()) test::write_file(folder / name, records(input));
  }
  try {
    const std::uint64_t counted = count_cifar10(folder.path());
    const ImageSplit split = load_cifar10(folder.path());
    demand(split.train.size() == counted);
    use(split.train);
    use(split.held_out);
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::bad_data);
  }
  return 0;
}
