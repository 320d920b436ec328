#include "pod/mpi/shell.h"

#include <cerrno>

namespace mlk::mpi {
namespace {

constexpr int lost = 255, time_to_reach_ms = 10000;

}  // namespace

int run_remotely(const PodEnvironment& environment, const std::string& host, const std::string& command) {
  const Address* where = environment.find(host);
  if (where == nullptr) give_up(lost, host + " is no host of this run");
  std::optional<Link> link = connect_to(*where, environment.key, time_to_reach_ms);
  if (!link || !wait_until_ready(*link, time_to_reach_ms))
    give_up(lost, host + " does not answer with the run's key");
  if (command.size() > most_payload) give_up(lost, "the command for " + host + " is too long");
  link->session().send(Type::run, bytes_of(command));
  bool is_read[2] = {true, true};
  while (link->flush()) {
    const bool open = link->wait(-1);
    while (const std::optional<Frame> frame = link->session().next()) {
      const std::span<const std::byte> payload = frame->payload;
      if (frame->type == Type::output && !payload.empty()) {
        const int which = payload[0] == std::byte{2} ? 1 : 0;
        if (!is_read[which]) continue;
        is_read[which] = write_all(which + 1, payload.subspan(1), environment.time_to_be_read_ms);
        if (!is_read[which] && errno != EPIPE)
          log("output of " + host + " is dropped from here on: nobody reads it");
      } else if (frame->type == Type::ended) {
        const std::optional<End> end = decode_end(payload);
        return end ? end->code : lost;
      }
    }
    if (!open || link->session().broken()) break;
  }
  give_up(lost, host + " was lost");
}

}  // namespace mlk::mpi
