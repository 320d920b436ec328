#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/image_dataset.h"
#include "tests/unit/runtime/idx_files.h"

#if MLK_ZLIB
#include <zlib.h>
#endif

TEST_SUITE_BEGIN("runtime/data/dataset");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

// Two images of 1x2 pixels for training, one held out.
void write_tiny(const std::filesystem::path& folder) {
  write_file(folder / train_images, idx_header({2, 1, 2}) + std::string{1, 16, 8, 0});
  write_file(folder / train_labels, idx_header({2}) + std::string{4, 9});
  write_file(folder / held_out_images, idx_header({1, 1, 2}) + std::string{32, 4});
  write_file(folder / held_out_labels, idx_header({1}) + std::string{0});
}

// The message of load_idx about the folder, without the folder's path.
std::string message_for(const TemporaryFolder& folder) {
  try {
    load_idx(folder.path().string());
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_data);
    const std::string what = failure.what(), prefix = folder.path().string() + "/";
    REQUIRE(what.starts_with(prefix));
    return what.substr(prefix.size());
  }
  return "accepted";
}

}  // namespace

TEST_CASE("samples are gathered by id, and their pixels are divided by the largest training pixel") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  const ImageSplit data = load_idx(folder.path().string());
  CHECK(data.train.size() == 2);
  CHECK(data.train.shape().inputs == 2);
  CHECK(data.train.shape().classes == 10);
  CHECK(data.held_out.size() == 1);
  CHECK(data.held_out.shape().classes == 10);
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  const std::vector<std::uint64_t> ids = {1, 0, 1};
  Batch batch = data.train.gather(ids, buffer);
  CHECK(batch.size == 3);
  CHECK(std::vector<float>(batch.inputs.begin(), batch.inputs.end()) ==
        std::vector<float>{0.5f, 0, 0.0625f, 1, 0.5f, 0});
  CHECK(std::vector<std::int32_t>(batch.labels.begin(), batch.labels.end()) ==
        std::vector<std::int32_t>{9, 4, 9});
  batch = data.held_out.gather(std::vector<std::uint64_t>{0}, buffer);
  CHECK(batch.inputs.size() == 2);
  CHECK(batch.inputs[0] == 2);
}

TEST_CASE("the number of training samples comes from the header of the file of training labels") {
  mlk::test::TemporaryFolder folder;
  CHECK_THROWS_AS(count_idx(folder.path().string()), Failure);
  mlk::test::write_learnable(folder.path());
  CHECK(count_idx(folder.path().string()) == 100);
  std::filesystem::remove(folder / mlk::test::train_images);
  CHECK(count_idx(folder.path().string()) == 100);
}

TEST_CASE("the error names a data file that does not exist or is not a regular file") {
  TemporaryFolder folder;
  CHECK(message_for(folder) ==
        "train-images-idx3-ubyte: No such file or directory, nor is there a .gz of it");
  write_tiny(folder.path());
  std::filesystem::remove(folder.path() / held_out_labels);
  CHECK(message_for(folder) ==
        "t10k-labels-idx1-ubyte: No such file or directory, nor is there a .gz of it; it is of the held-out "
        "set: "
        "take a part of the training samples for it, or link it to its train- file to measure on these");
  std::filesystem::create_directory(folder.path() / held_out_labels);
  CHECK(message_for(folder) == "t10k-labels-idx1-ubyte: not a regular file");
}

TEST_CASE("a file of images is refused if its magic number is wrong or its sizes do not match the data") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  const std::filesystem::path images = folder.path() / train_images;
  const std::string good = read_file(images);
  const auto with = [&](std::size_t at, char byte) {
    std::string changed = good;
    changed[at] = byte;
    write_file(images, changed);
    return message_for(folder);
  };
  CHECK(with(0, 1) == "train-images-idx3-ubyte: not an IDX file of bytes in 3 dimensions");
  CHECK(with(2, 0x0d) == "train-images-idx3-ubyte: not an IDX file of bytes in 3 dimensions");
  CHECK(with(3, 1) == "train-images-idx3-ubyte: not an IDX file of bytes in 3 dimensions");
  CHECK(with(7, 0) == "train-images-idx3-ubyte: one of its dimensions is 0");
  CHECK(with(4, '\xff') == "train-images-idx3-ubyte: more than 4 GiB of data");
  CHECK(with(7, 3) == "train-images-idx3-ubyte: truncated: 4 of 6 bytes of data");
  CHECK(with(7, 1) == "train-images-idx3-ubyte: bytes after the end of its data");
  write_file(images, idx_header({0xffffffff, 0xffffffff, 0xffffffff}));
  CHECK(message_for(folder) == "train-images-idx3-ubyte: more than 4 GiB of data");
  // The header of a file of 20 bytes declares nearly 4 GiB: an error, and no memory is allocated.
  write_file(images, idx_header({0x3fffffff, 2, 2}) + "abcd");
  CHECK(message_for(folder) == "train-images-idx3-ubyte: truncated: 4 of 4294967292 bytes of data");
}

TEST_CASE("an IDX file that is truncated anywhere is refused") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  for (const char* name : {train_images, train_labels, held_out_images, held_out_labels}) {
    const std::string good = read_file(folder.path() / name);
    for (std::size_t size = 0; size < good.size(); ++size) {
      write_file(folder.path() / name, good.substr(0, size));
      CHECK(message_for(folder).starts_with(std::string(name) + ": truncated"));
    }
    write_file(folder.path() / name, good + "x");
    CHECK(message_for(folder) == std::string(name) + ": bytes after the end of its data");
    write_file(folder.path() / name, good);
  }
  CHECK(message_for(folder) == "accepted");
}

TEST_CASE("IDX files that do not fit together are refused") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  write_file(folder.path() / train_labels, idx_header({3}) + std::string{1, 2, 3});
  CHECK(message_for(folder) == "train-labels-idx1-ubyte: 3 labels for 2 images");
  write_tiny(folder.path());
  write_file(folder.path() / held_out_labels, idx_header({1}) + std::string{10});
  CHECK(message_for(folder) == "t10k-labels-idx1-ubyte: has a label above 9, the largest in training");
  write_tiny(folder.path());
  write_file(folder.path() / held_out_images, idx_header({1, 2, 1}) + std::string{1, 2});
  CHECK(
      message_for(folder).starts_with("t10k-images-idx3-ubyte: its images have another size than those of "));
  write_tiny(folder.path());
  write_file(folder.path() / train_images, idx_header({2, 1, 2}) + std::string(4, '\0'));
  CHECK(message_for(folder) == "train-images-idx3-ubyte: all pixels are 0");
}

TEST_CASE(
    "has_stray_label() is true if most classes are empty, and there are at least twice as many samples as "
    "classes") {
  const auto of = [](std::vector<std::uint64_t> counts, std::uint64_t last, std::size_t classes) {
    counts.resize(classes - 1);
    counts.push_back(last);
    return counts;
  };
  CHECK(describe_empty_classes(of({5, 5}, 5, 3)).empty());
  CHECK(describe_empty_classes(of({0, 5}, 5, 3)) ==
        "1 of 3 classes have no sample to train on (the first is 0), and the largest label, 2, has 5");
  CHECK(describe_empty_classes(of(std::vector<std::uint64_t>(10, 150), 1, 256)) ==
        "245 of 256 classes have no sample to train on (the first is 10), and the largest label, 255, has 1");
  CHECK(has_stray_label(of(std::vector<std::uint64_t>(10, 150), 1, 256)));
  CHECK_FALSE(has_stray_label(of({5, 5}, 5, 3)));
  CHECK_FALSE(has_stray_label(of({10, 10}, 10, 6)));  // half of them
  CHECK(has_stray_label(of({10, 10}, 10, 7)));
  CHECK_FALSE(has_stray_label(of({6, 6}, 1, 7)));  // too few samples to say
  CHECK(has_stray_label(of({6, 7}, 1, 7)));
  CHECK(count_labels(std::vector<std::uint8_t>{0, 2, 2, 1, 2}, 4) == std::vector<std::uint64_t>{1, 1, 3, 0});
}

TEST_CASE("a data set with a stray label is refused, and a data set with an empty class causes a warning") {
  TemporaryFolder folder;
  mlk::test::write_learnable(folder.path());
  std::string labels = read_file(folder.path() / train_labels);
  const auto with = [&](char stray) {
    labels[8 + 17] = stray;
    write_file(folder.path() / train_labels, labels);
  };
  with('\x0a');
  CHECK(
      message_for(folder) ==
      "train-labels-idx1-ubyte: 7 of 11 classes have no sample to train on (the first is 3), and the largest "
      "label, 10, has 1: number them from 0");
  Config config;
  config.data.format = DataFormat::idx;
  with('\x04');
  CHECK(load_data(config, folder.path().string()).warning ==
        "1 of 5 classes have no sample to train on (the first is 3), and the largest label, 4, has 1");
  with('\x02');
  CHECK(load_data(config, folder.path().string()).warning.empty());
}

#if MLK_ZLIB
namespace {

std::string gzip(const std::string& text) {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  const gzFile file = gzopen(path.c_str(), "wb9");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_file(path);
}

// Replaces the plain file by a compressed file, which `change` modifies.
template <class Change>
void compress(const std::filesystem::path& path, Change change) {
  write_file(path.string() + ".gz", change(gzip(read_file(path))));
  std::filesystem::remove(path);
}

}  // namespace

TEST_CASE("a gzipped file is read if there is no plain file") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  for (const char* name : {train_images, held_out_labels})
    compress(folder.path() / name, [](auto x) { return x; });
  CHECK(load_idx(folder.path().string()).train.shape().inputs == 2);
  write_file(folder.path() / train_images, "nonsense");
  CHECK(message_for(folder) == "train-images-idx3-ubyte: not an IDX file of bytes in 3 dimensions");
}

TEST_CASE("a gzipped file that is cut short or damaged is refused") {
  TemporaryFolder folder;
  write_learnable(folder.path());
  const std::filesystem::path images = folder.path() / train_images;
  const std::string good = read_file(images), packed = gzip(good);
  std::filesystem::remove(images);
  for (std::size_t size = 0; size < packed.size(); size += 1 + size / 7) {
    write_file(images.string() + ".gz", packed.substr(0, size));
    CHECK(message_for(folder).starts_with("train-images-idx3-ubyte.gz: "));
  }
  for (std::size_t size = packed.size() - 9; size < packed.size(); ++size) {
    write_file(images.string() + ".gz", packed.substr(0, size));
    CHECK(message_for(folder).starts_with("train-images-idx3-ubyte.gz: not a whole gzip file"));
  }
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  write_file(images.string() + ".gz", damaged);
  CHECK(message_for(folder).starts_with("train-images-idx3-ubyte.gz: not a whole gzip file"));
  write_file(images.string() + ".gz", gzip(good + "x"));
  CHECK(message_for(folder) == "train-images-idx3-ubyte.gz: bytes after the end of its data");
  write_file(images.string() + ".gz", good);
  CHECK(message_for(folder) == "train-images-idx3-ubyte.gz: not a gzip file");
  write_file(images.string() + ".gz", packed);
  CHECK(message_for(folder) == "accepted");
}

TEST_CASE("a gzipped file of any length is refused if its last bytes are missing") {
  TemporaryFolder folder;
  write_tiny(folder.path());
  const std::filesystem::path images = folder.path() / train_images, labels = folder.path() / train_labels;
  std::filesystem::remove(images);
  std::filesystem::remove(labels);
  for (std::uint32_t count = 1; count < 70'000; count += 1 + count / 2) {
    std::string pixels = idx_header({count, 1, 2}), classes = idx_header({count});
    for (std::uint32_t i = 0; i < count; ++i) {
      pixels += static_cast<char>(1 + i * 7919 % 251);
      pixels += static_cast<char>(i * i % 241);
      classes += static_cast<char>(i % 10);
    }
    const std::string packed = gzip(pixels), packed_labels = gzip(classes);
    write_file(images.string() + ".gz", packed);
    for (const std::size_t cut : {1u, 4u, 7u, 8u, 9u}) {
      write_file(labels.string() + ".gz", packed_labels.substr(0, packed_labels.size() - cut));
      CHECK(message_for(folder) ==
            "train-labels-idx1-ubyte.gz: not a whole gzip file: unexpected end of file");
    }
    write_file(labels.string() + ".gz", packed_labels);
    for (const std::size_t cut : {1u, 4u, 7u, 8u, 9u}) {
      write_file(images.string() + ".gz", packed.substr(0, packed.size() - cut));
      CHECK(message_for(folder) ==
            "train-images-idx3-ubyte.gz: not a whole gzip file: unexpected end of file");
    }
  }
}

TEST_CASE("a gzipped file may have several members, and zeros after the last one") {
  TemporaryFolder folder;
  write_learnable(folder.path());
  const std::filesystem::path images = folder.path() / train_images;
  const std::string good = read_file(images), first = gzip(good.substr(0, 100)),
                    second = gzip(good.substr(100));
  std::filesystem::remove(images);
  for (const std::string& packed : {first + second, first + second + std::string(512, '\0')}) {
    write_file(images.string() + ".gz", packed);
    CHECK(message_for(folder) == "accepted");
  }
  write_file(images.string() + ".gz", first + second.substr(0, second.size() - 8));
  CHECK(message_for(folder).starts_with("train-images-idx3-ubyte.gz: not a whole gzip file"));
}
#endif
