// Data sets of four files. Each file has any bytes, or a nearly right header and some data, plain or packed.
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>

#if MLK_ZLIB
#include <zlib.h>
#endif

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/image_dataset.h"
#include "tests/fuzz/demand.h"
#include "tests/unit/runtime/idx_files.h"

using namespace mlk::rt;
using mlk::fuzz::demand;
namespace test = mlk::test;

namespace {

std::string idx_file(FuzzedDataProvider& input, std::size_t dimensions) {
  if (input.ConsumeBool()) return input.ConsumeRandomLengthString(200);
  std::string file = {0, 0, 8, static_cast<char>(dimensions)};
  std::size_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto extent = input.ConsumeIntegralInRange<std::uint32_t>(0, 7);
    size *= extent;
    file += {0, 0, 0, static_cast<char>(extent)};
  }
  std::string data = input.ConsumeRandomLengthString(400);
  if (input.ConsumeBool()) data.resize(size, '\1');
  file += data;
  if (input.ConsumeBool()) {
    file[input.ConsumeIntegralInRange<std::size_t>(0, file.size() - 1)] = input.ConsumeIntegral<char>();
  }
  return file;
}

std::string packed(const std::string& text) {
#if MLK_ZLIB
  z_stream stream{};
  demand(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);  // 16: gzip
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  demand(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
#else
  return text;
#endif
}

// Reads all data that a training run would read.
void use(const Dataset& data) {
  demand(data.size() > 0 && data.shape().inputs > 0 && data.shape().classes > 0);
  std::vector<std::uint64_t> ids(data.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  const Batch batch = data.gather(ids, buffer);
  demand(batch.inputs.size() == ids.size() * static_cast<std::size_t>(data.shape().inputs));
  for (const std::int32_t label : batch.labels) demand(label >= 0 && label < data.shape().classes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryFolder folder;
  FuzzedDataProvider input(data, size);
  for (const char* name :
       {test::train_images, test::train_labels, test::held_out_images, test::held_out_labels}) {
    const std::string plain = folder / name, gz = plain + ".gz";
    std::filesystem::remove(plain);
    std::filesystem::remove(gz);
    const std::string file = idx_file(input, name[std::string(name).find("idx") + 3] == '3' ? 3 : 1);
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0:
        test::write_file(gz, packed(file));
        break;
      case 1:
        test::write_file(gz, file);
        break;
      default:
        test::write_file(plain, file);
    }
  }
  try {
    const ImageSplit split = load_idx(folder.path());
    use(split.train);
    use(split.held_out);
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::bad_data);
  }
  return 0;
}
