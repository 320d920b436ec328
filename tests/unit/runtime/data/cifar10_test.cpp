// CIFAR-10's binary files.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/image_dataset.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/data/cifar10");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

constexpr std::size_t plane = 32 * 32;

// A picture in which each plane has one value, except the last pixel, which is 9.
std::string record(char label, char red, char green, char blue) {
  std::string bytes(1, label);
  for (const char value : {red, green, blue}) {
    bytes += std::string(plane - 1, value);
    bytes += '\x9';
  }
  return bytes;
}

std::string message_from(const TemporaryFolder& folder) {
  try {
    load_cifar10(folder.path().string());
    return "";
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_data);
    std::string what = failure.what();
    return what.substr(what.find(folder.path().string()) + folder.path().string().size());
  }
}

}  // namespace

TEST_CASE("CIFAR-10 is read from all its files in order, with the colours of a pixel side by side") {
  const TemporaryFolder folder;
  write_file(folder / "data_batch_2.bin", record(7, 51, 102, '\xff'));
  write_file(folder / "data_batch_1.bin", record(1, 1, 2, 3) + record(2, 4, 5, 6));
  write_file(folder / "test_batch.bin", record(9, 7, 8, 9));
  const ImageSplit data = load_cifar10(folder.path().string());
  CHECK(data.train.size() == 3);
  CHECK(count_cifar10(folder.path().string()) == 3);
  CHECK(data.held_out.size() == 1);
  CHECK(data.train.shape().inputs == 3072);
  CHECK(data.train.shape().classes == 10);
  CHECK(data.train.shape().image.height == 32);
  CHECK(data.train.shape().image.width == 32);
  CHECK(data.train.shape().image.channels == 3);
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  const std::vector<std::uint64_t> ids = {2, 0};
  const Batch batch = data.train.gather(ids, buffer);
  CHECK(batch.labels[0] == 7);
  CHECK(batch.labels[1] == 1);
  CHECK(batch.inputs[0] == doctest::Approx(0.2));
  CHECK(batch.inputs[1] == doctest::Approx(0.4));
  CHECK(batch.inputs[2] == 1);
  CHECK(batch.inputs[3 * (plane - 1)] == doctest::Approx(9.0 / 255));
  CHECK(batch.inputs[3 * plane] == doctest::Approx(1.0 / 255));
  CHECK(batch.inputs[3 * plane + 1] == doctest::Approx(2.0 / 255));
}

TEST_CASE("the error names a file that is missing or is not a file of CIFAR-10") {
  const TemporaryFolder folder;
  CHECK(message_from(folder) == ": no file there is called *data_batch*.bin");
  write_file(folder / "data_batch_1.bin", record(1, 1, 1, 1) + "x");
  CHECK(message_from(folder) ==
        "/data_batch_1.bin: not a CIFAR-10 file: its 3074 bytes are not a multiple of 3073");
  write_file(folder / "data_batch_1.bin", record(10, 1, 1, 1));
  CHECK(message_from(folder) == "/data_batch_1.bin: has a label above 9");
  write_file(folder / "data_batch_1.bin", record(9, 1, 1, 1));
  CHECK(message_from(folder) == ": no file there is called *test_batch*.bin");
  write_file(folder / "test_batch.bin", "");
  CHECK(message_from(folder) == "/test_batch.bin: is empty");
}
