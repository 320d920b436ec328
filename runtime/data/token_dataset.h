// Sequences of tokens, for models that predict the next token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/mapped_file.h"

namespace mlk::rt {

// A file of tokens, or a part of one.
struct TokenShard {
  MappedFile file;
  std::size_t begin = 0, tokens = 0;  // begin: the offset of the first token, in bytes
  int width = 1;                      // bytes of a token: 1, or 2 with the lower byte first
};

// Sequence i is the i-th stretch of `length` tokens; the label of each token is the token after it. No
// sequence crosses the end of its shard; the last tokens of a shard are left out if they do not fill a
// sequence.
class TokenDataset final : public Dataset {
 public:
  // Throws Failure{bad_data} if there is not even one sequence; `what` names the source in the message.
  TokenDataset(std::vector<TokenShard> shards, int length, int vocabulary, const std::string& what);

  std::uint64_t size() const override { return ends_.back(); }
  std::uint32_t checksum() const override;
  Batch gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const override;

 private:
  std::vector<TokenShard> shards_;
  std::vector<std::uint64_t> ends_;  // for each shard: the number of sequences up to its end
};

// Load the files of CONTRACT.md ("Data") as sequences of `length` tokens. Throw Failure{bad_data} that names
// the file.
DataSplit load_text(const std::string& folder, int length);
DataSplit load_tokens(const std::string& folder, int length, int vocabulary);

}  // namespace mlk::rt
