// Loads the data that a configuration names.
#include "runtime/data/dataset.h"

#include <utility>

#include "runtime/data/image_dataset.h"
#include "runtime/data/token_dataset.h"

namespace mlk::rt {
namespace {

DataSplit split_of(ImageSplit images) {
  const std::string warning =
      describe_empty_classes(count_labels(images.train.labels(), images.train.shape().classes));
  return {std::make_unique<ImageDataset>(std::move(images.train)),
          std::make_unique<ImageDataset>(std::move(images.held_out)), warning};
}

}  // namespace

DataSummary summary_of(const DataSplit& data) {
  return {{data.train->size(), data.train->checksum()}, {data.held_out->size(), data.held_out->checksum()}};
}

DataSplit load_data(const Config& config, const std::string& folder) {
  switch (config.data.format) {
    case DataFormat::text:
      return load_text(folder, config.model.context);
    case DataFormat::tokens:
      return load_tokens(folder, config.model.context, config.data.vocabulary);
    case DataFormat::cifar10:
      return split_of(load_cifar10(folder));
    case DataFormat::idx:
      break;
  }
  return split_of(load_idx(folder));
}

// load_data() only maps texts and files of tokens into memory, so counting their samples reads no more than
// the headers of the files.
std::uint64_t count_training_samples(const Config& config, const std::string& folder) {
  if (config.data.format == DataFormat::idx) return count_idx(folder);
  if (config.data.format == DataFormat::cifar10) return count_cifar10(folder);
  return load_data(config, folder).train->size();
}

}  // namespace mlk::rt
