#include "runtime/data/token_dataset.h"

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/exit_code.h"
#include "tests/unit/runtime/temporary_folder.h"
#include "tests/unit/runtime/tokens.h"

TEST_SUITE_BEGIN("runtime/data/token_dataset");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

using Tokens = std::vector<std::int32_t>;

struct Sequences {
  Tokens tokens, labels;
};

Sequences gathered(const Dataset& data, const std::vector<std::uint64_t>& ids) {
  const auto ops = mlk::kernels::make_cpu_ops();
  BatchBuffer buffer(*ops);
  const Batch batch = data.gather(ids, buffer);
  CHECK(batch.size == ids.size());
  CHECK(batch.inputs.empty());
  return {{batch.tokens.begin(), batch.tokens.end()}, {batch.labels.begin(), batch.labels.end()}};
}

// The message of loading, without the folder's path.
template <typename Load>
std::string message_of(const TemporaryFolder& folder, Load load) {
  try {
    load();
    return "";
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_data);
    std::string what = failure.what();
    const std::string path = folder.path().string();
    for (std::size_t at; (at = what.find(path)) != std::string::npos;) what.erase(at, path.size());
    return what;
  }
}

}  // namespace

TEST_CASE("a text is cut into sequences of bytes, and the label of each byte is the byte after it") {
  const TemporaryFolder folder;
  write_file(folder / "train.txt", "abcdefgh\xff");
  write_file(folder / "held_out.txt", "xyz");
  const DataSplit data = load_text(folder.path().string(), 2);
  CHECK(data.train->size() == 4);
  CHECK(data.train->shape().inputs == 2);
  CHECK(data.train->shape().labels == 2);
  CHECK(data.train->shape().classes == 256);
  const Sequences got = gathered(*data.train, {3, 0});
  CHECK(got.tokens == Tokens{'g', 'h', 'a', 'b'});
  CHECK(got.labels == Tokens{'h', 255, 'b', 'c'});
  CHECK(data.held_out->size() == 1);
  CHECK(gathered(*data.held_out, {0}).labels == Tokens{'y', 'z'});
  CHECK(gathered(*data.train, {}).tokens.empty());
}

TEST_CASE("the last tenth of a text is held out if there is no held-out text") {
  const TemporaryFolder folder;
  write_file(folder / "train.txt", std::string(90, 'a') + std::string(10, 'b'));
  const DataSplit data = load_text(folder.path().string(), 3);
  CHECK(data.train->size() == 29);  // the last label is the 88th of 90
  CHECK(data.held_out->size() == 3);
  for (const std::int32_t token : gathered(*data.train, {28}).labels) CHECK(token == 'a');
  for (const std::int32_t token : gathered(*data.held_out, {0}).tokens) CHECK(token == 'b');
}

TEST_CASE("token shards are ordered by name, and no sequence crosses the end of a shard") {
  const TemporaryFolder folder;
  write_file(folder / "text_train_000001.bin", token_shard({10, 11, 12, 13, 14, 15}));
  write_file(folder / "text_train_000000.bin", token_shard({0, 1, 2, 3, 50256}));
  write_file(folder / "text_train_000002.bin", token_shard({7, 7}));
  write_file(folder / "text_val_000000.bin", token_shard({20, 21, 22}));
  write_file(folder / "train.idx", "something else");
  const DataSplit data = load_tokens(folder.path().string(), 2, 50257);
  REQUIRE(data.train->size() == 4);
  const Sequences got = gathered(*data.train, {0, 1, 2, 3});
  CHECK(got.tokens == Tokens{0, 1, 2, 3, 10, 11, 12, 13});
  CHECK(got.labels == Tokens{1, 2, 3, 50256, 11, 12, 13, 14});
  CHECK(gathered(*data.held_out, {0}).labels == Tokens{21, 22});
}

TEST_CASE("a token outside of the vocabulary is bad data, and the message names the file") {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", token_shard({0, 1, 2, 3, 5}));
  write_file(folder / "val.bin", token_shard({0, 1, 2}));
  const DataSplit data = load_tokens(folder.path().string(), 2, 5);
  gathered(*data.train, {0});
  CHECK(message_of(folder, [&] { gathered(*data.train, {1}); }) ==
        "/train.bin: has token 5, but data.vocabulary is 5");
}

TEST_CASE("the error names a broken shard, or a folder without shards") {
  const TemporaryFolder folder;
  const auto load = [&] { load_tokens(folder.path().string(), 2, 100); };
  CHECK(message_of(folder, load) == ": no file there is called *train*.bin");
  write_file(folder / "train.bin", "");
  CHECK(message_of(folder, load) == "/train.bin: is empty");
  const std::string good = token_shard({1, 2, 3});
  for (const std::string& bad : {std::string("text"), good.substr(0, 1023), "x" + good.substr(1),
                                 good.substr(0, 4) + "\2" + good.substr(5)}) {
    write_file(folder / "train.bin", bad);
    CHECK(message_of(folder, load) ==
          "/train.bin: not a token shard: its header must begin with 20240520 and 1");
  }
  write_file(folder / "train.bin", good.substr(0, good.size() - 1));
  CHECK(message_of(folder, load) == "/train.bin: its header promises 3 tokens, but 5 bytes follow");
  write_file(folder / "train.bin", token_shard({1, 2, 3}, 0xffffffff));
  CHECK(message_of(folder, load) == "/train.bin: its header promises 4294967295 tokens, but 6 bytes follow");
  write_file(folder / "train.bin", good);
  CHECK(message_of(folder, load) == ": no file there is called *val*.bin");
  write_file(folder / "val.bin", token_shard({1, 2}));
  CHECK(message_of(folder, load) == "/*val*.bin: has too few tokens: a sequence takes model.context + 1 = 3");
  write_file(folder / "val.bin", token_shard({}));
  CHECK(message_of(folder, load) == "/*val*.bin: has too few tokens: a sequence takes model.context + 1 = 3");
  write_file(folder / "val.bin", good);
  CHECK(message_of(folder, load) == "");
  std::filesystem::remove(folder / "val.bin");
  std::filesystem::create_directory(folder / "val.bin");
  CHECK(message_of(folder, load) == "/val.bin: not a regular file");
}

TEST_CASE("the error names a text that is missing or shorter than a sequence") {
  const TemporaryFolder folder;
  const auto load = [&] { load_text(folder.path().string(), 4); };
  CHECK(message_of(folder, load) == "/train.txt: No such file or directory");
  write_file(folder / "train.txt", "abcd");
  CHECK(message_of(folder, load) == "/train.txt: has too few tokens: a sequence takes model.context + 1 = 5");
  write_file(folder / "train.txt", "abcdefghijkl");
  CHECK(message_of(folder, load) ==
        "the last tenth of /train.txt: has too few tokens: a sequence takes model.context + 1 = 5");
  write_file(folder / "held_out.txt", "");
  CHECK(message_of(folder, load) == "/held_out.txt: is empty");
}

TEST_CASE("count_training_samples() counts the sequences of a text and of token shards") {
  const TemporaryFolder folder;
  Config config;
  config.model = {.type = ModelType::gpt, .context = 2};
  config.data = {.format = DataFormat::tokens, .vocabulary = 100};
  write_file(folder / "train.bin", token_shard({1, 2, 3, 4, 5, 6}));
  write_file(folder / "val.bin", token_shard({1, 2, 3}));
  CHECK(count_training_samples(config, folder.path().string()) == 2);
  config.data = {.format = DataFormat::text};
  write_file(folder / "train.txt", std::string(100, 'a'));
  CHECK(count_training_samples(config, folder.path().string()) == 44);
}
