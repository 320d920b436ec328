// Encoding of the messages of parameter servers, and the placement of chunks.
#include "runtime/ps/machines/protocol.h"

#include <algorithm>

namespace mlk::rt {
namespace {

constexpr std::size_t most_tensors = 4096, most_dimensions = 8, most_reason = 200;
constexpr std::size_t most_floats = std::size_t{1} << 36;  // of a model
constexpr std::uint32_t nobody = ~std::uint32_t{0};

void put_progress(PayloadWriter& writer, const Progress& progress) {
  const auto& [sum, most, count] = progress.staleness;
  const RunView& run = progress.run;
  writer.put(progress.loss_sum, progress.loss_count, sum, most, count);
  writer.put(run.workers, run.generation, run.restarts, run.lost_samples, run.slowest.value_or(nobody));
}

Progress get_progress(PayloadReader& reader) {
  Progress progress;
  auto& [sum, most, count] = progress.staleness;
  RunView& run = progress.run;
  reader.read(progress.loss_sum, progress.loss_count, sum, most, count);
  reader.read(run.workers, run.generation, run.restarts, run.lost_samples);
  if (const auto slowest = reader.get<std::uint32_t>(); slowest != nobody) run.slowest = slowest;
  return progress;
}

}  // namespace

std::vector<Chunk> cut_chunks(std::span<const TensorInfo> tensors, std::uint32_t servers) {
  std::vector<Chunk> chunks;
  std::vector<std::size_t> load(servers, 0);
  for (const TensorInfo& tensor : tensors) {
    for (std::size_t at = 0; at < tensor.size; at += chunk_floats) {
      const auto server = static_cast<std::uint32_t>(std::ranges::min_element(load) - load.begin());
      const std::size_t size = std::min(chunk_floats, tensor.size - at);
      chunks.push_back({static_cast<std::uint32_t>(chunks.size()), server, tensor.offset + at, size});
      load[server] += size;
    }
  }
  return chunks;
}

Bytes encode(const JoinMessage& join) {
  PayloadWriter writer;
  writer.put(join.position, join.offline, join.restarts, join.lost_samples);
  writer.put(static_cast<std::uint32_t>(join.tensors.size()));
  for (const TensorInfo& tensor : join.tensors) {
    writer.text(tensor.name).put(static_cast<std::uint8_t>(tensor.shape.size()));
    for (const std::int64_t extent : tensor.shape) writer.put(extent);
  }
  writer.put(static_cast<std::uint8_t>(join.data.has_value()));
  if (join.data) {
    for (const DataSummary::Part& part : {join.data->train, join.data->held_out})
      writer.put(part.samples, part.crc32c);
  }
  return writer.bytes();
}

std::optional<JoinMessage> decode_join(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  JoinMessage join;
  join.clock = header.clock;
  reader.read(join.position, join.offline, join.restarts, join.lost_samples);
  const auto count = reader.get<std::uint32_t>();
  if (count > most_tensors) return {};
  std::size_t offset = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    TensorInfo tensor;
    tensor.name = reader.text();
    const auto dimensions = reader.get<std::uint8_t>();
    if (dimensions > most_dimensions) return {};
    tensor.size = 1;
    for (int d = 0; d < dimensions; ++d) {
      const auto extent = reader.get<std::int64_t>();
      const auto size = static_cast<std::size_t>(extent);
      // Divides, since the product of two extents may not fit into 64 bits.
      if (extent < 0 || (size > 0 && tensor.size > (most_floats - offset) / size)) return {};
      tensor.shape.push_back(extent);
      tensor.size *= size;
    }
    if (tensor.size > most_floats - offset) return {};
    tensor.offset = offset;
    offset += tensor.size;
    join.tensors.push_back(std::move(tensor));
  }
  const auto with_data = reader.get<std::uint8_t>();
  if (with_data > 1) return {};
  if (with_data == 1) {
    DataSummary& data = join.data.emplace();
    reader.read(data.train.samples, data.train.crc32c, data.held_out.samples, data.held_out.crc32c);
  }
  if (!reader.complete()) return {};
  return join;
}

Bytes encode(const ReadyMessage& ready) {
  return PayloadWriter()
      .put(static_cast<std::uint8_t>(ready.done), ready.clock, ready.slice)
      .put(ready.loss, ready.seconds, ready.staleness)
      .bytes();
}

std::optional<ReadyMessage> decode_ready(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  ReadyMessage ready;
  ready.done = reader.get<std::uint8_t>() != 0;
  reader.read(ready.clock, ready.slice, ready.loss, ready.seconds, ready.staleness);
  if (!reader.complete()) return {};
  return ready;
}

Bytes encode(const WorkMessage& work) {
  PayloadWriter writer;
  writer.put(work.position, work.samples, work.own_slices, work.others_slices)
      .put(work.run_position, work.restored_step, work.checkpoint)
      .put(work.unsaved ? work.unsaved->since : 0)  // 0: nothing is unsaved, since `since` is never 0
      .text(work.unsaved ? work.unsaved->reason.substr(0, most_reason) : "")
      .put(static_cast<std::uint8_t>(work.reports));
  put_progress(writer, work.progress);
  return writer.bytes();
}

std::optional<WorkMessage> decode_work(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  WorkMessage work;
  reader.read(work.position, work.samples, work.own_slices, work.others_slices);
  reader.read(work.run_position, work.restored_step, work.checkpoint);
  const Unsaved unsaved{reader.get<std::uint64_t>(), reader.text()};
  if (unsaved.since > 0) work.unsaved = unsaved;
  work.reports = reader.get<std::uint8_t>() != 0;
  work.progress = get_progress(reader);
  if (!reader.complete()) return {};
  return work;
}

Bytes encode(const TrainedMessage& trained) {
  PayloadWriter writer;
  writer.put(trained.run_position, trained.checkpoint);
  put_progress(writer, trained.progress);
  return writer.bytes();
}

std::optional<TrainedMessage> decode_trained(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  TrainedMessage trained;
  reader.read(trained.run_position, trained.checkpoint);
  trained.progress = get_progress(reader);
  if (!reader.complete()) return {};
  return trained;
}

Bytes encode(const CaptureMessage& capture) {
  return PayloadWriter().put(capture.position).text(capture.aside).bytes();
}

std::optional<CaptureMessage> decode_capture(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  CaptureMessage capture;
  capture.step = header.clock;
  reader.read(capture.position, capture.aside);
  if (!reader.complete()) return {};
  return capture;
}

Bytes encode(const WrittenMessage& written) {
  return PayloadWriter()
      .text(written.aside)
      .text(written.file.name)
      .put(written.file.bytes, written.file.crc32c)
      .text(written.reason)
      .bytes();
}

std::optional<WrittenMessage> decode_written(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  WrittenMessage written;
  written.step = header.clock;
  reader.read(written.aside, written.file.name, written.file.bytes, written.file.crc32c, written.reason);
  if (!reader.complete()) return {};
  return written;
}

}  // namespace mlk::rt
