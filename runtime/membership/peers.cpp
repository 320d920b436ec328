// The code that all processes of a distributed run share: how they find each other, and how they report their
// end.
#include "runtime/membership/peers.h"

#include <algorithm>
#include <variant>

namespace mlk::rt {
namespace {

constexpr Milliseconds somebody_to_tell{3000};
constexpr std::chrono::seconds least_stay{5};

TransportOptions options_of(const Job& job) {
  TransportOptions options;
  options.unix_sockets = job.env.unix_sockets;
  if (job.config.mode == Mode::ps) {
    options.retry_max = server_retry_max;
  } else {
    options.suspected_after = gpu_suspect_after;  // in every rank: its peers may compute on GPUs
    if (job.env.gpus > 0) options.suspect_after = gpu_suspect_after;
  }
  return options;
}

Identity identity_of(const Job& job) {
  const Role role = job.env.role == "server" ? Role::server : Role::worker;
  const PeerId id{role, static_cast<std::uint32_t>(job.env.rank)};
  return {job.env.run, id, hash_incarnation(job.env.incarnation), job.env.address};
}

}  // namespace

Peers::Peers(Job& job) : job_(job) {
  transport_ = std::make_unique<Transport>(identity_of(job), load_key(job.env.secret_path), options_of(job),
                                           [&log = job.log](std::string_view line) { log.line(line); });
}

void Peers::dial(Role role, std::uint32_t rank) {
  const auto& seeds = role == Role::server ? job_.env.seeds_server : job_.env.seeds_worker;
  if (rank < seeds.size()) transport_->dial({role, rank}, seeds[rank]);
}

void Peers::execute(const Effects::Effect& effect) {
  if (const auto* message = std::get_if<Effects::Message>(&effect)) {
    transport_->send(message->to, message->header, message->payload, WhenFull::refuse);
  } else if (const auto* dial = std::get_if<Effects::Dial>(&effect)) {
    transport_->dial(dial->peer, dial->address);
  } else {
    job_.log.line(std::get<Effects::Line>(effect).text);
  }
}

std::optional<Event> Peers::next(Milliseconds time) {
  auto event = transport_->receive(std::chrono::steady_clock::now() + time);
  if (!event) return event;
  if (event->kind == Event::Kind::up) ++connected_;
  if (trained_) return event;
  if (event->kind == Event::Kind::replaced) {
    throw Failure(ExitCode::peers_lost,
                  to_string(event->peer) + " knows a newer incarnation of this process");
  }
  if (event->kind == Event::Kind::goodbye) {
    const auto code = static_cast<ExitCode>(event->header.clock);
    if (is_final(code)) {
      throw Failure(code,
                    to_string(event->peer) + " ended with exit code " + std::to_string(event->header.clock));
    }
  }
  return event;
}

void Peers::leave(ExitCode code) {
  const auto deadline = std::chrono::steady_clock::now() + somebody_to_tell;
  while (is_final(code) && connected_ == 0) {
    const auto event = transport_->receive(deadline);
    if (!event) break;
    if (event->kind == Event::Kind::up) ++connected_;
  }
  transport_->send_goodbye(static_cast<int>(code));
  if (const auto late = transport_->late_messages(); late > 0) {
    job_.log.line("dropped " + std::to_string(late) + " messages that came too late");
  }
}

ExitCode run_among_peers(Job& job, const std::function<ExitCode(Peers&)>& body) {
  Peers peers(job);
  try {
    const ExitCode code = body(peers);
    peers.leave(code);
    return code;
  } catch (const Failure& failure) {
    peers.leave(failure.code);
    throw;
  } catch (const std::exception&) {
    peers.leave(ExitCode::internal_error);
    throw;
  }
}

SteadyTime late_deadline(SteadyTime trained, std::optional<SteadyTime> last_loss, bool somebody_is_there,
                         std::chrono::seconds late) {
  const SteadyTime longest = trained + late;
  if (somebody_is_there) return longest;
  const SteadyTime back_by = last_loss ? *last_loss + late : trained;
  return std::min(longest, std::max(trained + least_stay, back_by));
}

}  // namespace mlk::rt
