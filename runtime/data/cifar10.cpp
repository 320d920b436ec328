// Reads the binary files of CIFAR-10 (Krizhevsky 2009): records of a label and 32 x 32 pixels, plane by
// plane. The planes are interleaved here, since convolutions need the channels last. Does not trust the
// files' content.
#include <utility>

#include "runtime/data/image_dataset.h"
#include "runtime/data/mapped_file.h"

namespace mlk::rt {
namespace {

constexpr int side = 32, channels = 3, classes = 10;
constexpr std::size_t plane = side * side, record = 1 + channels * plane;

std::uint64_t records_in(const MappedFile& file) {
  const std::size_t bytes = file.bytes().size();
  if (bytes % record != 0) {
    refuse_data(file.path(), "not a CIFAR-10 file: its " + std::to_string(bytes) +
                                 " bytes are not a multiple of " + std::to_string(record));
  }
  return bytes / record;
}

ImageDataset read_cifar10(const std::vector<std::string>& paths) {
  std::vector<std::uint8_t> pixels, labels;
  for (const std::string& path : paths) {
    const MappedFile file(path);
    const std::uint64_t records = records_in(file);
    for (std::uint64_t i = 0; i < records; ++i) {
      const std::uint8_t* bytes = file.bytes().data() + i * record;
      if (bytes[0] >= classes) refuse_data(path, "has a label above 9");
      labels.push_back(bytes[0]);
      for (std::size_t pixel = 0; pixel < plane; ++pixel) {
        for (std::size_t channel = 0; channel < channels; ++channel)
          pixels.push_back(bytes[1 + channel * plane + pixel]);
      }
    }
  }
  const SampleShape shape{
      .inputs = channels * side * side, .classes = classes, .image = {1, side, side, channels}};
  return {std::move(pixels), std::move(labels), shape, 1.0f / 255};
}

}  // namespace

ImageSplit load_cifar10(const std::string& folder) {
  return {read_cifar10(bin_files(folder, "data_batch")), read_cifar10(bin_files(folder, "test_batch"))};
}

std::uint64_t count_cifar10(const std::string& folder) {
  std::uint64_t count = 0;
  for (const std::string& path : bin_files(folder, "data_batch")) count += records_in(MappedFile(path));
  return count;
}

}  // namespace mlk::rt
