// The rounds in which all servers save.
#include "runtime/ps/machines/joint_checkpoint.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/ps/machines/timers.h"

namespace mlk::rt {
namespace {

std::string server_name(std::uint32_t server) { return to_string(PeerId{Role::server, server}); }

}  // namespace

std::string part_name(std::uint32_t server) { return "server-" + std::to_string(server) + ".safetensors"; }

void JointCheckpoints::start(Manifest manifest, const RunHistory& history,
                             const std::set<std::uint32_t>& others, Turn& turn) {
  const std::uint64_t step = manifest.step;
  const CaptureMessage capture{step, manifest.position, name_aside_(step)};
  round_ = Round{std::move(manifest), capture.aside, others, others, turn.now};
  round_->writing.insert(0);
  const Header header{.type = MessageType::capture, .clock = step};
  for (const std::uint32_t server : others) turn.send({Role::server, server}, header, encode(capture));
  turn.decide(CapturePart{capture, history});
}

void JointCheckpoints::captured(std::uint32_t server, std::uint64_t step) {
  if (round_ && round_->manifest.step == step) round_->copying.erase(server);
}

void JointCheckpoints::written(std::uint32_t server, const WrittenMessage& written, Turn& turn) {
  // A part of an abandoned checkpoint is removed at once. Otherwise it would use space on the disk until the
  // next checkpoint.
  if (!round_ || round_->aside != written.aside) {
    code_probe("ps.part-too-late");
    still_writing_.erase(server);
    return turn.decide(DiscardAside{written.aside});
  }
  if (round_->writing.erase(server) == 0) return;
  if (written.file.name != part_name(server))
    return give_up(server_name(server) + ": " + written.reason, turn);
  round_->copying.erase(server);
  round_->manifest.files.push_back(written.file);
  if (!round_->writing.empty()) return;
  std::ranges::sort(round_->manifest.files, {}, &WrittenFile::name);
  code_probe("ps.parts-written");
  committing_ = written.step;
  disk_works_ = true;
  turn.decide(CommitCheckpoint{round_->aside, round_->manifest});
  round_.reset();
}

void JointCheckpoints::disk_done(bool committed, const std::string& why) {
  disk_works_ = false;
  if (!why.empty()) failed(committing_, why);
  if (!committed) return;
  code_probe("ps.checkpoint-made");
  committed_ = committing_;
  unsaved_.reset();
}

void JointCheckpoints::failed(std::uint64_t step, const std::string& why) {
  unsaved_ = {unsaved_ ? unsaved_->since : step, why};
}

void JointCheckpoints::server_lost(std::uint32_t server, Turn& turn) {
  give_up(server_name(server) + " is lost", turn);
  still_writing_.erase(server);
}

void JointCheckpoints::give_up(const std::string& reason, Turn& turn) {
  if (!round_) return;
  code_probe("ps.checkpoint-given-up");
  turn.log(no_checkpoint_line(round_->manifest.step, reason));
  failed(round_->manifest.step, reason);
  disk_works_ = true;
  turn.decide(DiscardAside{round_->aside, true});
  still_writing_ = std::move(round_->writing);
  round_.reset();
}

void JointCheckpoints::tick(Turn& turn) {
  if (!round_) return;
  const auto waited = turn.now - round_->since;
  if (!round_->copying.empty() && waited > ps_timers::copy_patience) {
    code_probe("ps.copy-overdue");
    give_up(server_name(*round_->copying.begin()) + " has not copied its weights", turn);
  } else if (waited > patience_) {
    code_probe("ps.write-overdue");
    give_up(server_name(*round_->writing.begin()) + " has not written its part", turn);
  }
}

}  // namespace mlk::rt
