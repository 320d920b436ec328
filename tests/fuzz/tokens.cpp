// Token shards and texts: any bytes, or a header that is nearly right with some tokens.
#include "tests/unit/runtime/tokens.h"

#include <cstdint>
#include <filesystem>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/token_dataset.h"
#include "tests/fuzz/demand.h"
#include "tests/unit/runtime/idx_files.h"

using namespace mlk::rt;
using mlk::fuzz::demand;
namespace test = mlk::test;

namespace {

constexpr int length = 3, vocabulary = 50;

std::string shard(FuzzedDataProvider& input) {
  if (input.ConsumeBool()) return input.ConsumeRandomLengthString(1200);
  std::vector<std::uint16_t> tokens(input.ConsumeIntegralInRange<std::size_t>(0, 40));
  for (std::uint16_t& token : tokens) token = input.ConsumeIntegralInRange<std::uint16_t>(0, vocabulary);
  std::string file = test::token_shard(tokens);
  if (input.ConsumeBool())
    file[input.ConsumeIntegralInRange<std::size_t>(0, file.size() - 1)] = input.ConsumeIntegral<char>();
  return file;
}

void use(const Dataset& data) {
  demand(data.size() > 0);
  std::vector<std::uint64_t> ids(data.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const auto ops = mlk::kernels::make_reference_ops();
  BatchBuffer buffer(*ops);
  const Batch batch = data.gather(ids, buffer);
  for (const std::int32_t token : batch.tokens) demand(token >= 0 && token < data.shape().classes);
  for (const std::int32_t label : batch.labels) demand(label >= 0 && label < data.shape().classes);
}

template <typename Load>
void try_to(Load load) {
  try {
    const DataSplit split = load();
    use(*split.train);
    use(*split.held_out);
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::bad_data);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryFolder folder;
  FuzzedDataProvider input(data, size);
  test::write_file(folder / "train_0.bin", shard(input));
  test::write_file(folder / "val_0.bin", shard(input));
  test::write_file(folder / "train.txt", input.ConsumeRandomLengthString(200));
  try_to([] { return load_tokens(folder.path(), length, vocabulary); });
  try_to([] { return load_text(folder.path(), length); });
  return 0;
}
