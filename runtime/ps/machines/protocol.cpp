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
  writer.put(progress.loss_sum).put(progress.loss_count).put(sum).put(most).put(count);
  writer.put(run.workers).put(run.generation).put(run.restarts).put(run.lost_samples);
  writer.put(run.slowest.value_or(nobody));
}

Progress get_progress(PayloadReader& reader) {
  Progress progress;
  progress.loss_sum = reader.get<double>();
  progress.loss_count = reader.get<std::uint64_t>();
  progress.staleness.sum = reader.get<std::uint64_t>();
  progress.staleness.most = reader.get<std::uint64_t>();
  progress.staleness.count = reader.get<std::uint64_t>();
  progress.run.workers = reader.get<std::uint32_t>();
  progress.run.generation = reader.get<std::uint64_t>();
  progress.run.restarts = reader.get<std::uint64_t>();
  progress.run.lost_samples = reader.get<std::uint64_t>();
  if (const auto slowest = reader.get<std::uint32_t>(); slowest != nobody) progress.run.slowest = slowest;
  return progress;
}

}  // namespace

std::vector<Chunk> cut_chunks(std::span<const TensorInfo> tensors, std::uint32_t servers) {
  std::vector<Chunk> chunks;
  std::vector<std::size_t> load(servers, 0);
  for (const TensorInfo& tensor : tensors) {
    for (std::size_t at = 0; at < tensor.size; at += chunk_floats) {
      const auto server =
          static_cast<std::uint32_t>(std::min_element(load.begin(), load.end()) - load.begin());
      const std::size_t size = std::min(chunk_floats, tensor.size - at);
      chunks.push_back({static_cast<std::uint32_t>(chunks.size()), server, tensor.offset + at, size});
      load[server] += size;
    }
  }
  return chunks;
}

Bytes encode(const JoinMessage& join) {
  PayloadWriter writer;
  writer.put(join.position).put(join.offline).put(join.restarts).put(join.lost_samples);
  writer.put(static_cast<std::uint32_t>(join.tensors.size()));
  for (const TensorInfo& tensor : join.tensors) {
    writer.text(tensor.name).put(static_cast<std::uint8_t>(tensor.shape.size()));
    for (const std::int64_t extent : tensor.shape) writer.put(extent);
  }
  writer.put(static_cast<std::uint8_t>(join.data.has_value()));
  if (join.data) {
    for (const DataSummary::Part& part : {join.data->train, join.data->held_out})
      writer.put(part.samples).put(part.crc32c);
  }
  return writer.bytes();
}

std::optional<JoinMessage> decode_join(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  JoinMessage join;
  join.clock = header.clock;
  join.position = reader.get<std::uint64_t>();
  join.offline = reader.get<std::uint64_t>();
  join.restarts = reader.get<std::uint64_t>();
  join.lost_samples = reader.get<std::uint64_t>();
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
      // Divided, not multiplied: the product of two extents may not fit.
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
    for (DataSummary::Part* part : {&data.train, &data.held_out}) {
      part->samples = reader.get<std::uint64_t>();
      part->crc32c = reader.get<std::uint32_t>();
    }
  }
  if (!reader.complete()) return {};
  return join;
}

Bytes encode(const ReadyMessage& ready) {
  return PayloadWriter()
      .put(static_cast<std::uint8_t>(ready.done))
      .put(ready.clock)
      .put(ready.slice)
      .put(ready.loss)
      .put(ready.seconds)
      .put(ready.staleness)
      .bytes();
}

std::optional<ReadyMessage> decode_ready(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  ReadyMessage ready;
  ready.done = reader.get<std::uint8_t>() != 0;
  ready.clock = reader.get<std::uint64_t>();
  ready.slice = reader.get<std::uint32_t>();
  ready.loss = reader.get<double>();
  ready.seconds = reader.get<double>();
  ready.staleness = reader.get<std::uint64_t>();
  if (!reader.complete()) return {};
  return ready;
}

Bytes encode(const WorkMessage& work) {
  PayloadWriter writer;
  writer.put(work.position)
      .put(work.samples)
      .put(work.own_slices)
      .put(work.others_slices)
      .put(work.run_position)
      .put(work.restored_step)
      .put(work.checkpoint)
      .put(work.unsaved ? work.unsaved->since : 0)  // 0: nothing is unsaved, since `since` is never 0
      .text(work.unsaved ? work.unsaved->reason.substr(0, most_reason) : "")
      .put(static_cast<std::uint8_t>(work.reports));
  put_progress(writer, work.progress);
  return writer.bytes();
}

std::optional<WorkMessage> decode_work(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  WorkMessage work;
  work.position = reader.get<std::uint64_t>();
  work.samples = reader.get<std::uint32_t>();
  work.own_slices = reader.get<std::uint64_t>();
  work.others_slices = reader.get<std::uint64_t>();
  work.run_position = reader.get<std::uint64_t>();
  work.restored_step = reader.get<std::uint64_t>();
  work.checkpoint = reader.get<std::uint64_t>();
  const Unsaved unsaved{reader.get<std::uint64_t>(), reader.text()};
  if (unsaved.since > 0) work.unsaved = unsaved;
  work.reports = reader.get<std::uint8_t>() != 0;
  work.progress = get_progress(reader);
  if (!reader.complete()) return {};
  return work;
}

Bytes encode(const TrainedMessage& trained) {
  PayloadWriter writer;
  writer.put(trained.run_position).put(trained.checkpoint);
  put_progress(writer, trained.progress);
  return writer.bytes();
}

std::optional<TrainedMessage> decode_trained(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  TrainedMessage trained;
  trained.run_position = reader.get<std::uint64_t>();
  trained.checkpoint = reader.get<std::uint64_t>();
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
  capture.position = reader.get<std::uint64_t>();
  capture.aside = reader.text();
  if (!reader.complete()) return {};
  return capture;
}

Bytes encode(const WrittenMessage& written) {
  return PayloadWriter()
      .text(written.aside)
      .text(written.file.name)
      .put(written.file.bytes)
      .put(written.file.crc32c)
      .text(written.reason)
      .bytes();
}

std::optional<WrittenMessage> decode_written(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  WrittenMessage written;
  written.step = header.clock;
  written.aside = reader.text();
  written.file.name = reader.text();
  written.file.bytes = reader.get<std::uint64_t>();
  written.file.crc32c = reader.get<std::uint32_t>();
  written.reason = reader.text();
  if (!reader.complete()) return {};
  return written;
}

}  // namespace mlk::rt
