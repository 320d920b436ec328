#include "tests/sim/ps_process.h"

#include <algorithm>
#include <utility>

#include "runtime/base/payload.h"
#include "runtime/ps/machines/timers.h"
#include "tests/sim/probes.h"
#include "tests/sim/ps_wire.h"

namespace mlk::sim {

// ---- the life of a process

void PsProcess::start(std::uint64_t incarnation, int failures) {
  const rt::Config config = s_.scenario.config();
  incarnation_ = incarnation;
  trained_ = false;
  s_.network.start(place_, incarnation);
  trace("starts");
  for (std::uint32_t rank = 0; rank < s_.scenario.servers; ++rank) {
    const rt::PeerId server{rt::Role::server, rank};
    const bool dials = id_.role == rt::Role::worker || (rank == 0 && id_.rank != 0);
    if (dials) s_.network.dial(place_, s_.network.number(server));
  }
  heard_ = s_.clock.now();
  if (id_.role == rt::Role::server) {
    const auto name_aside = [this, made = 0](std::uint64_t step) mutable {
      return ".tmp-" + std::to_string(step) + "-" + std::to_string(incarnation_) + "-" +
             std::to_string(++made);
    };
    const rt::Coordinator::Settings run{config, incarnation, s_.disk.there, s_.disk.has(s_.scenario.steps),
                                        name_aside};
    server_ = std::make_unique<rt::ServerMachine>(
        rt::ServerMachine::Settings{id_.rank, run, failures, s_.scenario.late}, s_.ops, s_.clock.now());
  } else {
    start_worker();
  }
  plan_tick(rt::ps_timers::look_interval);
}

void PsProcess::stop() {
  s_.invariants.gone(incarnation_);
  server_.reset();
  worker_.reset();
  frozen_ = busy_ = writing_ = stopping_ = false;
  offline_slice_ = 0;
  postponed_.clear();
  inbox_.clear();
  expected_.clear();
  up_.clear();
}

void PsProcess::terminate() {
  stopping_ = true;
  if (server_) server_->stop();
  if (worker_) worker_->stop();
}

void PsProcess::end(rt::ExitCode code, const std::string& why) {
  s_.network.end(place_, static_cast<int>(code));
  stop();
  s_.ended(place_, code, why);
}

void PsProcess::thaw() {
  frozen_ = false;
  for (const Clock::Action& action : std::exchange(postponed_, {})) action();
}

// Runs the action unless the process has ended or was started again by then.
void PsProcess::plan(Duration time, Clock::Action action) {
  s_.clock.after(time, [this, own = incarnation_, action = std::move(action)] {
    if (!running() || incarnation_ != own) return;
    if (frozen_) {
      postponed_.push_back([this, own, action] {
        if (running() && incarnation_ == own) action();
      });
    } else {
      action();
    }
  });
}

void PsProcess::plan_tick(Duration time) {
  plan(time, [this, own = ++tick_] {
    if (own == tick_) tick();
  });
}

void PsProcess::tick() {
  if (server_) tick_server();
  if (worker_ && !busy_) tick_worker();
  if (!running()) return;
  plan_tick(goes_on_offline() ? Duration(1ms) : rt::ps_timers::look_interval);
}

void PsProcess::tick_server() {
  act_server([](rt::ServerMachine& machine, rt::Turn& turn) { machine.tick(turn); });
}

std::string PsProcess::describe() const {
  return to_string(id_) + (!running() ? " is gone" : frozen_ ? " is frozen" : busy_ ? " works" : " waits");
}

// ---- events

void PsProcess::deliver(rt::Event&& event) {
  if (!running()) return;
  s_.invariants.heard(incarnation_, event.peer, event.incarnation);
  if (worker_) {
    if (event.kind == rt::Event::Kind::message) receive_in_place(event);
    inbox_.push_back(std::move(event));
    return take_in();
  }
  if (ends_with(event)) return;
  handle_server(event);
}

// Handles an event as Peers::next() does.
bool PsProcess::ends_with(const rt::Event& event) {
  if (trained_) return false;
  const auto code = static_cast<rt::ExitCode>(event.header.clock);
  if (event.kind == rt::Event::Kind::replaced) {
    end(rt::ExitCode::peers_lost, "it has a successor");
  } else if (event.kind == rt::Event::Kind::goodbye && is_final(code)) {
    end(code, to_string(event.peer) + " ended so");
  } else {
    return false;
  }
  return true;
}

void PsProcess::handle_server(const rt::Event& event) {
  const auto view = [&]() -> std::optional<rt::ParameterShard::View> {
    const auto& shard = server_->model().shard;
    return shard ? shard->view(event.header.key) : std::nullopt;
  };
  const bool is_push = event.kind == rt::Event::Kind::message && event.header.type == rt::MessageType::push;
  const bool is_seed = event.kind == rt::Event::Kind::message && event.header.type == rt::MessageType::seed;
  const auto round = server_->model().seed_round;
  const auto viewed = view();
  const std::uint64_t before = viewed ? viewed->clock : ~std::uint64_t{0};
  late_ = false;
  act_server([&](rt::ServerMachine& machine, rt::Turn& turn) { machine.handle(event, turn); });
  if (!server_) return;
  if (server_->model().seed_round != round && server_->model().seed_round != 0)
    s_.invariants.seeding_opened(incarnation_);
  if (is_push && view() && view()->clock > before) {
    if (!sync()) s_.invariants.applied(incarnation_, event.incarnation, event.header.clock, event.header.key);
    check_shard("weights of " + to_string(id_));
  }
  if (is_seed && !late_ && view()) {
    s_.invariants.seeded(incarnation_, event.header.key, {event.incarnation, event.header.clock});
    check_shard("weights of " + to_string(id_));
  }
}

void PsProcess::check_shard(const std::string& what) const {
  const rt::ServedModel& model = server_->model();
  for (const rt::Chunk& chunk : model.chunks) {
    if (const auto view = model.shard->view(chunk.id))
      s_.invariants.weights(view->weights, view->clock, chunk.offset, what);
  }
}

void PsProcess::tell_passed() const {
  for (const std::string_view probe : take_passed_probes()) s_.passed(place_, probe);
}

template <typename Call>
void PsProcess::act_server(Call call) {
  rt::Turn turn{s_.clock.now()};
  call(*server_, turn);
  tell_passed();
  for (const auto& decision : turn.in_order) {
    std::visit([this](const auto& wanted) { execute(wanted); }, decision);
    if (!server_) return;
  }
}

void PsProcess::execute(const rt::Effects::Effect& effect) {
  if (const auto* message = std::get_if<rt::Effects::Message>(&effect))
    return send(message->to, message->header, message->payload);
  if (const auto* line = std::get_if<rt::Effects::Line>(&effect)) trace(line->text);
}

void PsProcess::send(rt::PeerId to, const rt::Header& header, const rt::Bytes& payload) {
  const auto peer = s_.network.number(to);
  if (s_.network.connected(place_, peer) == 0) return;
  auto [read, bytes] = through_ps_codecs(id_, incarnation_, header, payload);
  if (server_ && header.type == rt::MessageType::work) {
    if (const auto work = rt::decode_work(bytes)) s_.invariants.granted(incarnation_, to.rank, read, *work);
  }
  s_.network.send(place_, peer, read, std::move(bytes));
}

// ---- servers

void PsProcess::execute(const rt::OpenSeeding& wanted) {
  s_.invariants.seeding_opened(incarnation_);
  server_->open_seeding(wanted.round);
}

void PsProcess::execute(const rt::LoadCheckpoint&) {
  if (s_.disk.full && !s_.disk.has(s_.scenario.steps))
    server_->unwritable({rt::ExitCode::checkpoint_unusable, "no space"});
  const auto newest = s_.disk.made.rbegin();
  if (newest == s_.disk.made.rend()) {
    return act_server([](rt::ServerMachine& machine, rt::Turn& turn) { machine.loaded(nullptr, turn); });
  }
  const PsDisk::Checkpoint& found = newest->second;
  rt::TrainingState saved;
  saved.step = found.step;
  saved.position = found.position;
  saved.history = found.history;
  saved.parameters.assign(found.weights.begin(), found.weights.end());
  act_server([&](rt::ServerMachine& machine, rt::Turn& turn) { machine.loaded(&saved, turn); });
}

void PsProcess::execute(const rt::SeedFromCheckpoint& wanted) {
  const PsDisk::Checkpoint& found = s_.disk.made.rbegin()->second;
  if (wanted.servers.contains(0)) {
    rt::TrainingState saved;
    saved.step = found.step;
    saved.parameters.assign(found.weights.begin(), found.weights.end());
    server_->seed_from(saved);
  }
  for (const rt::Chunk& chunk : server_->model().chunks) {
    if (chunk.server == 0 || !wanted.servers.contains(chunk.server)) continue;
    rt::Header header;
    header.type = rt::MessageType::seed;
    header.data_type = rt::DataType::float32;
    header.key = chunk.id;
    header.clock = found.step;
    header.offset = wanted.round;
    const auto weights = std::span(found.weights).subspan(chunk.offset, chunk.size);
    send({rt::Role::server, chunk.server}, header, rt::PayloadWriter().raw(std::as_bytes(weights)).bytes());
  }
}

Duration PsProcess::writing_time() const {
  const auto longest = s_.scenario.write * s_.disk.slowness;
  return std::min(s_.random.between(longest / 4, longest), s_.scenario.longest_write);
}

// If the process dies meanwhile, its part is incomplete.
void PsProcess::execute(const rt::CapturePart& wanted) {
  rt::WrittenMessage written{wanted.capture.step, wanted.capture.aside, {}, {}};
  const rt::ServedModel& model = server_->model();
  std::vector<float> copy(model_floats, 0);
  if (writing_) written.reason = "it is still writing the one before";
  if (!model.shard || !model.shard->complete()) written.reason = "it has no weights";
  for (const rt::Chunk& chunk : model.chunks) {
    if (chunk.server != id_.rank || !written.reason.empty()) continue;
    const auto view = model.shard->view(chunk.id);
    const auto weights =
        sync() ? model.shard->weights_at(chunk.id, wanted.capture.step) : std::optional(view->weights);
    if (!weights) {
      written.reason = "its weights are of step " + std::to_string(view->clock);
    } else {
      std::ranges::copy(*weights, copy.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
    }
  }
  const bool writes = written.reason.empty();
  writing_ = writing_ || writes;
  plan(writes ? writing_time() : Duration(1ms), [this, written, wanted, copy, writes]() mutable {
    if (writes) writing_ = false;
    if (writes && s_.disk.full) written.reason = "no space";
    if (written.reason.empty()) {
      PsDisk::Checkpoint& aside = s_.disk.aside[written.aside];
      aside.step = wanted.capture.step;
      aside.position = wanted.capture.position;
      if (id_.rank == 0) aside.history = wanted.history;
      for (const rt::Chunk& chunk : server_->model().chunks) {
        if (chunk.server == id_.rank)
          std::copy_n(copy.begin() + static_cast<std::ptrdiff_t>(chunk.offset), chunk.size,
                      aside.weights.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
      }
      written.file = {rt::part_name(id_.rank), 1, 1};
      aside.whole.insert(written.file.name);
    }
    act_server([&](rt::ServerMachine& machine, rt::Turn& turn) { machine.written(written, turn); });
    if (server_) tick_server();
  });
}

void PsProcess::execute(const rt::CommitCheckpoint& wanted) {
  const auto found = s_.disk.aside.find(wanted.aside);
  const bool there = found != s_.disk.aside.end() && !found->second.lost;
  if (there) s_.invariants.committing(wanted.manifest, found->second.whole, found->second.step);
  plan(writing_time() / 4, [this, aside = wanted.aside] {
    const auto part = s_.disk.aside.find(aside);
    const bool made = part != s_.disk.aside.end() && !part->second.lost && !s_.disk.full;
    if (made) {
      s_.invariants.weights(part->second.weights, part->second.step, 0, "weights of a checkpoint");
      trace("the checkpoint of step " + std::to_string(part->second.step) + " is made");
      part->second.made = s_.clock.now();
      s_.disk.made[part->second.step] = part->second;
      s_.disk.had_last = s_.disk.had_last || part->second.step == s_.scenario.steps;
      s_.disk.aside.erase(part);
    }
    plan(s_.random.between(Duration(0), Duration(20ms)), [this, made] {
      server_->disk_done(made, made ? "" : "no space");
      tick_server();
    });
  });
}

void PsProcess::execute(const rt::DiscardAside& wanted) {
  s_.disk.aside.erase(wanted.aside);
  if (!wanted.answer) return;
  plan(10ms, [this] {
    server_->disk_done(false);
    tick_server();
  });
}

void PsProcess::execute(const rt::SendMark& wanted) {
  send({rt::Role::server, 0}, wanted.header,
       rt::PayloadWriter().text("").text(s_.disk.full ? "no space" : "").bytes());
}

void PsProcess::execute(const rt::FlushWeights& wanted) {
  while (const auto weights = server_->next_weights(wanted.worker)) {
    const rt::Chunk& chunk = server_->model().chunks[weights->header.key];
    s_.invariants.weights(weights->values, weights->header.clock, chunk.offset, "weights that are sent");
    send(wanted.worker, weights->header, rt::PayloadWriter().raw(std::as_bytes(weights->values)).bytes());
  }
}

}  // namespace mlk::sim
