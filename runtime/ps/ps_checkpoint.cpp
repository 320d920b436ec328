// Copies, files and the commit.
#include "runtime/ps/ps_checkpoint.h"

#include <algorithm>
#include <system_error>

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds copy_patience{5};

template <typename T>
bool is_ready(const std::future<T>& future) {
  return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::string server_name(std::uint32_t server) { return to_string(PeerId{Role::server, server}); }

std::string file_name(std::uint32_t server) { return "server-" + std::to_string(server) + ".safetensors"; }

}  // namespace

ShardCheckpoint::ShardCheckpoint(const Job& job, std::uint32_t server, const ServedModel& model)
    : job_(job),
      server_(server),
      model_(model),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log) {}

ShardCheckpoint::~ShardCheckpoint() {
  if (!job_.env.checkpoints.empty()) store_.take_mark(mark_);
}

std::string ShardCheckpoint::leave_mark() const {
  return !job_.env.checkpoints.empty() && store_.leave_mark(mark_) ? mark_ : "";
}

// Part by part, so that chunks that are neighbours are written as one tensor.
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
          written.file = store_.write(capture.aside, file_name(server_), snapshot_, model_.tensors);
        } catch (const std::exception& error) {
          written.reason = error.what();
        }
        return written;
      });
      return;
    } catch (const std::system_error& error) {
      wrong = error.what();  // no thread can be had
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

JointCheckpoints::JointCheckpoints(Job& job, Peers& peers, const ServedModel& model, ShardCheckpoint& own)
    : job_(job),
      peers_(peers),
      model_(model),
      own_(own),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log) {}

std::optional<TrainingState> JointCheckpoints::restore() {
  if (job_.env.checkpoints.empty()) return {};
  auto found = store_.load_newest(model_.tensors);
  if (found) committed_ = found->step;
  return found;
}

void JointCheckpoints::require_shared(std::uint32_t server, const std::string& mark) {
  if (job_.env.checkpoints.empty() || mark.empty()) return;
  // A server that joins again has left the same mark again, which may be taken already.
  if (store_.take_mark(mark)) found_marks_.insert(mark);
  if (found_marks_.contains(mark)) return;
  // A folder that is out of reach just now tells nothing: the first checkpoint will say why.
  if (!store_.leave_mark(mark)) return;
  store_.take_mark(mark);
  throw Failure(ExitCode::bad_configuration,
                "environment: MLK_CHECKPOINTS of " + server_name(server) +
                    " is another folder than here: all servers need one volume that they share");
}

bool JointCheckpoints::wanted(std::uint64_t step) const {
  return !job_.env.checkpoints.empty() && step != committed_ && step != 0;
}

void JointCheckpoints::start(std::uint64_t step, std::uint64_t position, const RunHistory& history,
                             const std::set<std::uint32_t>& others) {
  const CaptureMessage capture{step, position, CheckpointStore::name_aside(step)};
  round_ = Round{{step, position, {}}, capture.aside, others, others, steady_clock::now()};
  round_->writing.insert(0);
  Header header;
  header.type = MessageType::capture;
  header.clock = step;
  for (const std::uint32_t server : others) {
    peers_.transport().send({Role::server, server}, header, encode(capture), WhenFull::refuse);
  }
  own_.capture(capture, history);
}

void JointCheckpoints::captured(std::uint32_t server, std::uint64_t step) {
  if (round_ && round_->manifest.step == step) round_->copying.erase(server);
}

void JointCheckpoints::written(std::uint32_t server, const WrittenMessage& written) {
  // A part that came too late for its checkpoint would fill the disk for as long as no other can be made.
  if (!round_ || round_->aside != written.aside) return store_.discard(written.aside);
  if (round_->writing.erase(server) == 0) return;
  if (written.file.name != file_name(server)) return give_up(server_name(server) + ": " + written.reason);
  round_->copying.erase(server);
  round_->manifest.files.push_back(written.file);
  if (!round_->writing.empty()) return;
  std::ranges::sort(round_->manifest.files, {}, &WrittenFile::name);
  committing_ = written.step;
  const auto commit = [this, round = *round_] {
    try {
      store_.commit(round.aside, round.manifest);
      return true;
    } catch (const std::exception& error) {
      store_.warn(round.manifest.step, error.what());
      store_.discard(round.aside);
      return false;
    }
  };
  round_.reset();
  try {
    commit_ = std::async(std::launch::async, commit);
  } catch (const std::system_error& error) {
    store_.warn(committing_, error.what());
  }
}

void JointCheckpoints::give_up(const std::string& reason) {
  if (!round_) return;
  store_.warn(round_->manifest.step, reason);
  const std::string aside = round_->aside;
  round_.reset();
  try {
    commit_ = std::async(std::launch::async, [this, aside] {
      store_.discard(aside);
      return false;
    });
  } catch (const std::system_error&) {  // then the next checkpoint removes it
  }
}

void JointCheckpoints::tick() {
  if (const auto own = own_.take_written()) written(0, *own);
  if (is_ready(commit_) && commit_.get()) committed_ = committing_;
  if (!round_) return;
  const auto waited = steady_clock::now() - round_->since;
  if (!round_->copying.empty() && waited > copy_patience) {
    give_up(server_name(*round_->copying.begin()) + " has not copied its weights");
  } else if (waited > std::chrono::seconds(job_.config.patience_seconds)) {
    give_up(server_name(*round_->writing.begin()) + " has not written its part");
  }
}

}  // namespace mlk::rt
