// Sequences of tokens from files that are mapped into memory. Does not trust their content.
#include "runtime/data/token_dataset.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace mlk::rt {
namespace {

std::uint32_t little_endian(const std::uint8_t* bytes, int width) {
  std::uint32_t value = 0;
  for (int i = 0; i < width; ++i) value |= std::uint32_t{bytes[i]} << (8 * i);
  return value;
}

std::uint64_t sequences_in(const TokenShard& shard, int length) {
  return shard.tokens == 0 ? 0 : (shard.tokens - 1) / static_cast<std::uint64_t>(length);
}

// The header is that of llm.c: 256 numbers of 32 bits. The first three are `magic`, `version` and the number
// of tokens.
TokenShard open_shard(const std::string& path) {
  constexpr std::uint32_t magic = 20240520, version = 1;
  constexpr std::size_t header = 256 * 4;
  TokenShard shard{MappedFile(path)};
  const std::span<const std::uint8_t> bytes = shard.file.bytes();
  if (bytes.size() < header || little_endian(bytes.data(), 4) != magic ||
      little_endian(bytes.data() + 4, 4) != version) {
    refuse_data(path, "not a token shard: its header must begin with 20240520 and 1");
  }
  shard.begin = header;
  shard.width = 2;
  shard.tokens = little_endian(bytes.data() + 8, 4);
  if (bytes.size() != header + 2 * shard.tokens) {
    refuse_data(path, "its header promises " + std::to_string(shard.tokens) + " tokens, but " +
                          std::to_string(bytes.size() - header) + " bytes follow");
  }
  return shard;
}

std::vector<TokenShard> shards_named(const std::string& folder, const std::string& word) {
  std::vector<TokenShard> shards;
  for (const std::string& path : bin_files(folder, word)) shards.push_back(open_shard(path));
  return shards;
}

std::unique_ptr<const Dataset> dataset_of(std::vector<TokenShard> shards, int length, int vocabulary,
                                          const std::string& what) {
  return std::make_unique<TokenDataset>(std::move(shards), length, vocabulary, what);
}

std::vector<TokenShard> one_shard(const std::string& path, std::size_t begin, std::size_t tokens) {
  std::vector<TokenShard> shards;
  shards.push_back({MappedFile(path), begin, tokens, 1});
  return shards;
}

}  // namespace

TokenDataset::TokenDataset(std::vector<TokenShard> shards, int length, int vocabulary,
                           const std::string& what)
    : Dataset({.inputs = length, .classes = vocabulary, .labels = length}), shards_(std::move(shards)) {
  std::uint64_t end = 0;
  for (const TokenShard& shard : shards_) ends_.push_back(end += sequences_in(shard, length));
  if (end == 0)
    refuse_data(what,
                "has too few tokens: a sequence takes model.context + 1 = " + std::to_string(length + 1));
}

// The files may be terabytes on a remote disk, so only about 256 MiB of all files together are read.
std::uint32_t TokenDataset::checksum() const {
  constexpr std::uint64_t most = 256 << 20;
  std::uint32_t crc = 0;
  for (const TokenShard& shard : shards_) {
    const auto bytes =
        shard.file.bytes().subspan(shard.begin, shard.tokens * static_cast<std::size_t>(shard.width));
    crc = sampled_crc32c(bytes, most / shards_.size(), crc);
  }
  return crc;
}

Batch TokenDataset::gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const {
  const auto length = static_cast<std::size_t>(shape().inputs);
  const std::size_t count = ids.size() * length;
  // `on_host` has the tokens of all sequences, and after them the labels.
  buffer.on_host.resize(2 * count);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, ids[i]) - ends_.begin());
    const TokenShard& shard = shards_[at];
    const std::uint64_t sequence = ids[i] - (at == 0 ? 0 : ends_[at - 1]);
    const auto width = static_cast<std::size_t>(shard.width);
    const std::uint8_t* bytes = shard.file.bytes().data() + shard.begin + sequence * length * width;
    for (std::size_t k = 0; k <= length; ++k) {
      const auto token = static_cast<std::int32_t>(little_endian(bytes + k * width, shard.width));
      if (token >= shape().classes) {
        refuse_data(shard.file.path(), "has token " + std::to_string(token) + ", but data.vocabulary is " +
                                           std::to_string(shape().classes));
      }
      if (k < length) buffer.on_host[i * length + k] = token;
      if (k > 0) buffer.on_host[count + i * length + k - 1] = token;
    }
  }
  if (buffer.tokens.size() < count) buffer.tokens = buffer.ops.allocate<std::int32_t>(count);
  if (buffer.labels.size() < count) buffer.labels = buffer.ops.allocate<std::int32_t>(count);
  const std::span<const std::int32_t> all = buffer.on_host;
  buffer.ops.write_tokens(all.first(count), std::span<std::int32_t>(buffer.tokens).first(count));
  buffer.ops.write_tokens(all.subspan(count), std::span<std::int32_t>(buffer.labels).first(count));
  return {{}, {buffer.labels.data(), count}, ids.size(), {buffer.tokens.data(), count}};
}

DataSplit load_text(const std::string& folder, int length) {
  const std::string path = folder + "/train.txt", held_out = folder + "/held_out.txt";
  const std::size_t size = MappedFile(path).bytes().size();
  if (std::filesystem::exists(held_out)) {
    const std::size_t held_out_size = MappedFile(held_out).bytes().size();
    return {dataset_of(one_shard(path, 0, size), length, 256, path),
            dataset_of(one_shard(held_out, 0, held_out_size), length, 256, held_out)};
  }
  const std::size_t kept = size - size / 10;
  return {dataset_of(one_shard(path, 0, kept), length, 256, path),
          dataset_of(one_shard(path, kept, size - kept), length, 256, "the last tenth of " + path)};
}

DataSplit load_tokens(const std::string& folder, int length, int vocabulary) {
  return {dataset_of(shards_named(folder, "train"), length, vocabulary, folder + "/*train*.bin"),
          dataset_of(shards_named(folder, "val"), length, vocabulary, folder + "/*val*.bin")};
}

}  // namespace mlk::rt
