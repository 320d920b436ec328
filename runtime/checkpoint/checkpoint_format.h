// The content of the files of a checkpoint: pieces of the parameters and of the optimizer's state, their
// names, the manifest, and the state that all pieces together form. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/floats.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/data_summary.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// A range of the parameters (part 0) or of slot k of the optimizer's state (part 1 + k). Offset and size
// count floats within the part.
struct Piece {
  std::size_t part = 0, offset = 0, size = 0;

  auto operator<=>(const Piece&) const = default;
};

// The counters that the metrics of a run show. After a restart, they continue from the checkpoint.
struct RunHistory {
  std::uint64_t restarts = 0, lost_samples = 0;  // as in RunView

  bool operator==(const RunHistory&) const = default;
};

// The state that training needs to continue as if it had not stopped.
struct TrainingState {
  std::uint64_t step = 0;      // updates applied
  std::uint64_t position = 0;  // samples taken, see sampler.h
  kernels::Floats parameters;
  // The optimizer's state: for each slot as many floats as there are parameters, slot by slot. Empty: there
  // is no state yet.
  kernels::Floats optimizer_state;
  // The step at which the optimizer's state was all zeros; 0 if the optimizer's state comes from a
  // checkpoint.
  std::uint64_t state_since = 0;
  RunHistory history = {};
  std::optional<DataSummary> data = {};  // the data of the training, if known
};

// The content of one file of a checkpoint, copied from the state of the run after one step.
struct Snapshot {
  std::uint64_t step = 0;      // updates applied
  std::uint64_t position = 0;  // samples taken, see sampler.h
  std::vector<Piece> pieces;
  std::vector<float> values;  // of the pieces, one after the other
  RunHistory history;         // with several files: only in the file of server 0
  std::optional<DataSummary> data = {};

  // Removes the pieces but keeps their memory, and enlarges this memory if it is too small for `floats`
  // floats.
  void restart(std::uint64_t at_step, std::uint64_t at_position, std::size_t floats);
  // Copies the floats. Floats that continue the previous piece extend that piece.
  void add(std::size_t part, std::size_t offset, std::span<const float> floats);
  std::size_t slots() const;  // of the optimizer's state
};

std::size_t parameter_count(std::span<const TensorInfo> tensors);

// Returns the tensors of a file that holds these pieces in this order. A piece that covers several tensors is
// cut where a tensor ends. If a piece is a whole tensor, it has the tensor's name and shape. If it is only a
// part of a tensor, it has one axis, and its begin and end follow the name: "w[0:65536]". Slot k of the
// optimizer's state has the prefix "optimizer.k.".
std::vector<SafeTensor> name_pieces(std::span<const Piece> pieces, std::span<const TensorInfo> tensors);

// Finds the piece of a tensor by the name that name_pieces() gave the tensor. Throws std::runtime_error if
// the tensor is not of this model.
Piece find_piece(const SafeTensor& tensor, std::span<const TensorInfo> tensors);

// The number of optimizer slots that have pieces. Throws std::runtime_error if the pieces leave out a float
// of the parameters or of these slots, or hold a float twice.
std::size_t require_whole(std::vector<Piece> pieces, std::size_t parameters);

// A file of a checkpoint as it was written.
struct WrittenFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  bool operator==(const WrittenFile&) const = default;
};

struct Manifest {
  std::uint64_t step = 0, position = 0;
  std::vector<WrittenFile> files;
  std::optional<DataSummary> data = {};  // the data of the training, if known
};

std::string encode(const Manifest& manifest);

// Throws std::runtime_error whose text says what is wrong.
Manifest decode_manifest(std::string_view text);

}  // namespace mlk::rt
