// Copies shards, writes their files, and commits checkpoints.
#include "runtime/ps/checkpoint.h"

#include <exception>
#include <system_error>

#include "runtime/ps/machines/joint_checkpoint.h"

namespace mlk::rt {
namespace {

template <typename T>
bool is_ready(const std::future<T>& future) {
  return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::future<FolderDone> not_done(const std::string& why) {
  std::promise<FolderDone> answer;
  answer.set_value({false, why});
  return answer.get_future();
}

}  // namespace

ShardCheckpoint::ShardCheckpoint(const Job& job, std::uint32_t server, const ServedModel& model)
    : job_(job),
      server_(server),
      model_(model),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log) {}

ShardCheckpoint::~ShardCheckpoint() {
  if (!job_.env.checkpoints.empty()) store_.remove_mark(mark_);
}

std::string ShardCheckpoint::leave_mark() const {
  return !job_.env.checkpoints.empty() && store_.leave_mark(mark_) ? mark_ : "";
}

std::string ShardCheckpoint::why_unwritable() const {
  return job_.env.checkpoints.empty() ? "" : store_.why_unwritable();
}

// Copies the weights of all chunks, then each slot of the optimizer, so that neighbouring chunks become one
// tensor in the file.
std::string ShardCheckpoint::copy(const CaptureMessage& capture) {
  if (written_.valid()) return "it is still writing the one before";
  if (!model_.shard || !model_.shard->complete()) return "it has no weights";
  const std::size_t slots = model_.shard->optimizer().slots();
  std::size_t floats = 0;
  for (const Chunk& chunk : model_.chunks) floats += chunk.server == server_ ? chunk.size : 0;
  snapshot_.restart(capture.step, capture.position, (1 + slots) * floats);
  for (std::size_t part = 0; part <= slots; ++part) {
    for (const Chunk& chunk : model_.chunks) {
      if (chunk.server != server_) continue;
      const auto view = model_.shard->view(chunk.id);
      const auto weights = job_.config.consistency.sync ? model_.shard->weights_at(chunk.id, capture.step)
                                                        : std::optional(view->weights);
      if (!weights) return "its weights are of step " + std::to_string(view->clock);
      snapshot_.add(part, chunk.offset,
                    part == 0 ? *weights : view->state.subspan((part - 1) * chunk.size, chunk.size));
    }
  }
  return "";
}

void ShardCheckpoint::capture(const CaptureMessage& capture, const RunHistory& history) {
  std::string wrong = copy(capture);
  if (wrong.empty()) {
    snapshot_.history = history;
    try {
      written_ = std::async(std::launch::async, [this, capture] {
        WrittenMessage written{capture.step, capture.aside, {}, {}};
        try {
          written.file = store_.write(capture.aside, part_name(server_), snapshot_, model_.tensors);
        } catch (const std::exception& error) {
          written.reason = reason_of(error);
        }
        return written;
      });
      return;
    } catch (const std::system_error& error) {
      wrong = reason_of(error);  // no thread is available
    }
  }
  refused_.push_back({capture.step, capture.aside, {}, wrong});
}

std::optional<WrittenMessage> ShardCheckpoint::take_written() {
  if (is_ready(written_)) return written_.get();
  if (refused_.empty()) return {};
  const WrittenMessage refused = refused_.back();
  refused_.pop_back();
  return refused;
}

CheckpointFolder::CheckpointFolder(const Job& job)
    : there_(!job.env.checkpoints.empty()),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log) {}

std::optional<Failure> CheckpointFolder::unwritable() const {
  const std::string why = there_ ? store_.why_unwritable() : "";
  return why.empty() ? std::nullopt : std::optional(store_.unwritable(why));
}

std::optional<TrainingState> CheckpointFolder::load(std::span<const TensorInfo> tensors) const {
  if (!there_) return {};
  return store_.load_newest(tensors);
}

void CheckpointFolder::require_shared(std::uint32_t server, const std::string& mark) {
  if (!there_ || mark.empty()) return;
  // A server leaves the same mark whenever it joins, so this server may have found and removed the mark
  // earlier.
  if (store_.remove_mark(mark)) found_marks_.insert(mark);
  if (found_marks_.contains(mark)) return;
  // If this server cannot write to the folder now, the check has no result. Then the first checkpoint reports
  // the error.
  if (!store_.leave_mark(mark)) return;
  store_.remove_mark(mark);
  throw Failure(ExitCode::bad_configuration,
                "environment: MLK_CHECKPOINTS of " + to_string(PeerId{Role::server, server}) +
                    " is another folder than here: all servers need one volume that they share");
}

void CheckpointFolder::commit(const CommitCheckpoint& wanted) {
  const auto work = [this, wanted] {
    try {
      store_.commit(wanted.aside, wanted.manifest);
      return FolderDone{true, ""};
    } catch (const std::exception& error) {
      store_.warn(wanted.manifest.step, error.what());
      store_.discard(wanted.aside);
      return FolderDone{false, reason_of(error)};
    }
  };
  try {
    done_ = std::async(std::launch::async, work);
  } catch (const std::system_error& error) {  // no thread is available
    store_.warn(wanted.manifest.step, error.what());
    done_ = not_done(reason_of(error));
  }
}

void CheckpointFolder::discard(const DiscardAside& wanted) {
  if (!wanted.answer) return store_.discard(wanted.aside);
  try {
    done_ = std::async(std::launch::async, [this, aside = wanted.aside] {
      store_.discard(aside);
      return FolderDone{};
    });
  } catch (const std::system_error&) {  // no thread is available: the next checkpoint removes the folder
    done_ = not_done("");
  }
}

std::optional<FolderDone> CheckpointFolder::take_done() {
  if (!is_ready(done_)) return {};
  return done_.get();
}

}  // namespace mlk::rt
