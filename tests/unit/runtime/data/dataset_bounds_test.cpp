#include <algorithm>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/data/image_dataset.h"
#include "tests/unit/runtime/idx_files.h"
#include "tests/unit/runtime/system_calls.h"

#if MLK_ZLIB
#include <zlib.h>
#endif

TEST_SUITE_BEGIN("runtime/data/dataset_bounds");

namespace mlk::rt {
namespace {
namespace dataset_bounds {

using namespace test;
namespace fs = std::filesystem;

struct Files {
  TemporaryFolder folder;

  // One image of 1 x 2 pixels to train on and one held out, of the classes 0 to 3.
  Files() {
    put(train_images, {1, 1, 2}, {4, 2});
    put(train_labels, {1}, {3});
    put(held_out_images, {1, 1, 2}, {1, 4});
    put(held_out_labels, {1}, {3});
  }
  void put(const char* name, std::initializer_list<std::uint32_t> sizes, std::string data) const {
    write_file(folder.path() / name, idx_header(sizes) + data);
  }
  ImageSplit load() const { return load_idx(folder.path().string()); }
  // The message about the files, without the folder's path.
  std::string refusal() const {
    try {
      load();
      return "";
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_data);
      std::string what = failure.what();
      const std::string prefix = folder.path().string() + "/";
      for (std::size_t at; (at = what.find(prefix)) != std::string::npos;) what.erase(at, prefix.size());
      return what;
    }
  }
};

std::vector<float> inputs_of(const Dataset& data, const std::vector<std::uint64_t>& ids,
                             BatchBuffer& buffer) {
  const Batch batch = data.gather(ids, buffer);
  CHECK(batch.size == ids.size());
  CHECK(batch.labels.size() == ids.size());
  return {batch.inputs.begin(), batch.inputs.end()};
}

std::string pattern(std::size_t size) {
  std::string data(size, '\0');
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>((i * 31 + i / 251) % 251);
  return data;
}

bool holds(const Dataset& data, std::uint64_t sample, const std::string& pixels) {
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  const std::vector<float> inputs = inputs_of(data, {sample}, buffer);
  const float scale = 1.0f / 250;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] !=
        static_cast<float>(static_cast<unsigned char>(pixels[sample * inputs.size() + i])) * scale)
      return false;
  }
  return true;
}

}  // namespace dataset_bounds

TEST_CASE("a file is read completely even if the system returns it in short pieces and with interruptions") {
  using namespace dataset_bounds;
  const Files files;
  const std::string pixels = pattern(3 * 20 * 20);
  files.put(train_images, {3, 20, 20}, pixels);
  files.put(train_labels, {3}, {1, 0, 2});
  files.put(held_out_images, {1, 20, 20}, pixels.substr(0, 400));
  files.put(held_out_labels, {1}, {2});
  CHECK(in_child([&] {
          if (!come_in_pieces(SYS_read)) return 2;
          const ImageSplit data = files.load();
          if (count_idx(files.folder.path().string()) != 3) return 3;
          if (data.train.size() != 3 || data.held_out.size() != 1 || data.train.shape().inputs != 400)
            return 4;
          for (const std::uint64_t sample : {0, 1, 2}) {
            if (!holds(data.train, sample, pixels)) return 5;
          }
          return holds(data.held_out, 0, pixels) ? 0 : 6;
        }) == 0);
}

TEST_CASE("a file of more than 16 MiB is read completely, and is refused if it ends in the second read") {
  using namespace dataset_bounds;
  const Files files;
  // 17 images of 1000 x 1024 pixels: 16 MiB are read at once.
  const std::string pixels = pattern(17 * 1000 * 1024);
  files.put(train_images, {17, 1000, 1024}, pixels);
  files.put(train_labels, {17}, std::string(17, '\1'));
  files.put(held_out_images, {1, 1000, 1024}, pixels.substr(0, 1000 * 1024));
  files.put(held_out_labels, {1}, {0});
  const ImageSplit data = files.load();
  for (const std::uint64_t sample : {0, 15, 16}) CHECK(holds(data.train, sample, pixels));
  files.put(train_images, {17, 1000, 1024}, pixels.substr(0, (16 << 20) + 1));
  CHECK(files.refusal() == "train-images-idx3-ubyte: truncated: 16777217 of 17408000 bytes of data");
  files.put(train_images, {17, 1000, 1024}, pixels.substr(0, 16 << 20));
  CHECK(files.refusal() == "train-images-idx3-ubyte: truncated: 16777216 of 17408000 bytes of data");
}

TEST_CASE("IDX images of more than 1048576 pixels are refused") {
  using namespace dataset_bounds;
  const Files files;
  for (const std::uint32_t width : {524288u, 524289u}) {
    const std::string pixels(2 * width, '\1');
    files.put(train_images, {1, 2, width}, pixels);
    files.put(held_out_images, {1, 2, width}, pixels);
    CHECK(files.refusal() ==
          (width == 524288 ? "" : "train-images-idx3-ubyte: more than 1048576 pixels in an image"));
  }
}

TEST_CASE("the header of an IDX file may declare at most four gibibytes of data") {
  using namespace dataset_bounds;
  const Files files;
  const std::string too_much = "train-images-idx3-ubyte: more than 4 GiB of data";
  files.put(train_images, {0x40000000, 2, 2}, "abcd");
  CHECK(files.refusal() == "train-images-idx3-ubyte: truncated: 4 of 4294967296 bytes of data");
  files.put(train_images, {0x40000001, 2, 2}, "abcd");
  CHECK(files.refusal() == too_much);
  files.put(train_images, {2, 2, 0x40000001}, "abcd");
  CHECK(files.refusal() == too_much);
  files.put(train_images, {1, 0x80000000, 2}, "abcd");
  CHECK(files.refusal() == "train-images-idx3-ubyte: truncated: 4 of 4294967296 bytes of data");
}

TEST_CASE("the sizes in the header of an IDX file have their highest byte first") {
  using namespace dataset_bounds;
  const Files files;
  write_file(files.folder.path() / train_labels, idx_header({0x01020304}));
  CHECK(count_idx(files.folder.path().string()) == 0x01020304);
}

TEST_CASE("a file of labels is refused if its header is wrong or incomplete") {
  using namespace dataset_bounds;
  const Files files;
  for (const char* name : {train_labels, held_out_labels}) {
    const std::string good = read_file(files.folder.path() / name);
    for (const std::size_t at : {0u, 1u, 2u, 3u}) {
      std::string changed = good;
      changed[at] ^= 2;
      write_file(files.folder.path() / name, changed);
      CHECK(files.refusal() == std::string(name) + ": not an IDX file of bytes in 1 dimension");
      write_file(files.folder.path() / name, changed.substr(0, 4));
      CHECK(files.refusal() == std::string(name) + ": not an IDX file of bytes in 1 dimension");
    }
    for (const std::size_t size : {0u, 3u, 4u, 7u}) {
      write_file(files.folder.path() / name, good.substr(0, size));
      CHECK(files.refusal() == std::string(name) + ": truncated: its header is not complete");
    }
    write_file(files.folder.path() / name, idx_header({0}));
    CHECK(files.refusal() == std::string(name) + ": one of its dimensions is 0");
    write_file(files.folder.path() / name, good);
  }
  files.put(held_out_images, {1, 1, 0}, "");
  CHECK(files.refusal() == "t10k-images-idx3-ubyte: one of its dimensions is 0");
}

TEST_CASE("held-out images must have the size and the classes of the training images") {
  using namespace dataset_bounds;
  const Files files;
  CHECK(files.refusal() == "");
  const std::string message =
      "t10k-images-idx3-ubyte: its images have another size than those of train-images-idx3-ubyte";
  files.put(held_out_images, {1, 1, 3}, {1, 2, 3});
  CHECK(files.refusal() == message);
  files.put(held_out_images, {1, 2, 2}, {1, 2, 3, 4});
  CHECK(files.refusal() == message);
  files.put(held_out_images, {1, 2, 1}, {1, 2});
  CHECK(files.refusal() == message);
  files.put(held_out_images, {2, 1, 2}, {1, 2, 3, 4});
  CHECK(files.refusal() == "t10k-labels-idx1-ubyte: 1 labels for 2 images");
  files.put(held_out_labels, {2}, {0, 4});
  CHECK(files.refusal() == "t10k-labels-idx1-ubyte: has a label above 3, the largest in training");
  files.put(held_out_labels, {2}, {0, 3});
  const ImageSplit data = files.load();
  CHECK(data.train.size() == 1);
  CHECK(data.train.shape().inputs == 2);
  CHECK(data.train.shape().classes == 4);
  CHECK(data.held_out.size() == 2);
  CHECK(data.held_out.shape().inputs == 2);
  CHECK(data.held_out.shape().classes == 4);
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  CHECK(inputs_of(data.train, {0}, buffer) == std::vector<float>{1, 0.5f});
  // Held-out images are scaled like the training images, also where they are brighter.
  CHECK(inputs_of(data.held_out, {1, 0}, buffer) == std::vector<float>{0.75f, 1, 0.25f, 0.5f});
}

TEST_CASE("one BatchBuffer can be reused for batches of different sizes") {
  using namespace dataset_bounds;
  const TemporaryFolder folder;
  write_learnable(folder.path());
  const ImageSplit data = load_idx(folder.path().string());
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  std::vector<std::vector<float>> alone;
  for (std::uint64_t id = 0; id < 40; ++id) {
    BatchBuffer own(*ops);
    alone.push_back(inputs_of(data.held_out, {id}, own));
    CHECK(alone.back().size() == 16);
    CHECK(own.labels.data()[0] == static_cast<std::int32_t>(id % 3));
  }
  for (const std::size_t size : {1u, 4u, 5u, 40u, 9u, 0u, 2u}) {
    std::vector<std::uint64_t> ids;
    std::vector<float> expected;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < size; ++i) {
      ids.push_back((i * 7 + 3) % 40);
      expected.insert(expected.end(), alone[ids.back()].begin(), alone[ids.back()].end());
      labels.push_back(static_cast<std::int32_t>(ids.back() % 3));
    }
    CHECK(inputs_of(data.held_out, ids, buffer) == expected);
    CHECK(std::equal(labels.begin(), labels.end(), buffer.labels.data()));
  }
}

TEST_CASE("IDX files are closed after they are read, and after they are refused") {
  using namespace dataset_bounds;
  const Files files;
  const std::ptrdiff_t before = open_descriptors();
  files.load();
  CHECK(count_idx(files.folder.path().string()) == 1);
  files.put(held_out_labels, {2}, {0});
  CHECK(files.refusal() != "");
  CHECK(open_descriptors() == before);
}

#if MLK_ZLIB
TEST_CASE(
    "compressed IDX files are closed after they are read, and the error says why a file cannot be opened") {
  using namespace dataset_bounds;
  const Files files;
  const std::string plain = files.folder / train_labels;
  const std::string content = read_file(plain);
  const gzFile file = gzopen((plain + ".gz").c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  fs::remove(plain);
  const std::ptrdiff_t before = open_descriptors();
  CHECK(count_idx(files.folder.path().string()) == 1);
  CHECK(files.load().train.shape().classes == 4);
  CHECK(open_descriptors() == before);
  fs::remove(files.folder / train_images);
  CHECK(files.refusal() == "train-images-idx3-ubyte: No such file or directory, nor is there a .gz of it");
}
#endif

TEST_CASE("the error says why an IDX file cannot be opened or read") {
  using namespace dataset_bounds;
  const Files files;
  CHECK(in_child([&] {
          const rlimit none{0, 0};
          if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
          try {
            files.load();
            return 3;
          } catch (const Failure& failure) {
            const std::string path = files.folder / train_images;
            return failure.what() == path + ": Too many open files" ? 0 : 1;
          }
        }) == 0);
  fs::remove(files.folder / train_labels);
  fs::create_symlink("/proc/self/mem", files.folder / train_labels);  // a read at its beginning fails
  CHECK(files.refusal() == "train-labels-idx1-ubyte: Input/output error");
}

}  // namespace
}  // namespace mlk::rt
