#include "cli/wait/server_keeper.h"

#include "cli/local/local.h"
#include "cli/session/session.h"

namespace mlk {
namespace {

constexpr std::chrono::seconds server_poll{1};

}  // namespace

ServerKeeper::ServerKeeper(const Session& session, std::function<void(const std::string&)> say)
    : session_(session), say_(std::move(say)), next_look_(std::chrono::steady_clock::now() + server_poll) {}

void ServerKeeper::check() {
  if (!session_.local() || std::chrono::steady_clock::now() < next_look_) return;
  next_look_ = std::chrono::steady_clock::now() + server_poll;
  if (!local::lost()) return;
  say_("mlk: warning: the server of the local cluster is gone; starting it again");
  local::up(local_up_options(session_));
}

}  // namespace mlk
