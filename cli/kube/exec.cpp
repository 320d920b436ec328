#include "cli/kube/exec.h"

#include <optional>

#include "cli/kube/failure.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

// The server and a socket to it, open for the command.
struct Line {
  Line(const Grant& grant, const ExecCommand& command, const std::function<bool()>& go_on,
       http::WebSocketTimes times)
      : dialed(grant.server, grant.credential, exec_request(command), go_on), socket(dialed, go_on, times) {}

  http::Upgrade open() {
    if (Failure failure = dialed.connect(); failure.kind != Failure::Kind::none) return {std::move(failure)};
    return socket.open({exec_v5, exec_v4});
  }

  http::Dialed dialed;
  http::WebSocket socket;
};

std::string name_of(const ExecCommand& command) {
  return "exec in pod " + command.pod + " in namespace " + command.name_space;
}

ApiError lost(const Failure& failure, const ExecCommand& command, const Config& config) {
  if (failure.kind == Failure::Kind::closed)
    return ApiError(0, "Unreachable", name_of(command) + " was ended");
  const ApiError error = unreachable_error(failure, config);
  return ApiError(error.status(), error.reason(),
                  name_of(command) + ": the connection was lost before the command ended: " + error.what(),
                  error.hint());
}

}  // namespace

ExecEnd exec(Client& client, const ExecCommand& command, const ExecOutput& out, const ExecOutput& err,
             const std::function<bool()>& go_on, http::WebSocketTimes times) {
  std::optional<Line> line;
  http::Upgrade upgrade;
  // After a 401 the second grant brings another credential, if there is one. The command did not start.
  for (int attempt = 0; attempt < 2 && (attempt == 0 || upgrade.status == 401); ++attempt) {
    line.emplace(client.grant(), command, go_on, times);
    upgrade = line->open();
  }
  if (upgrade.failure.kind == Failure::Kind::closed)
    throw ApiError(0, "Unreachable", name_of(command) + " was ended");
  if (upgrade.failure.kind != Failure::Kind::none) throw unreachable_error(upgrade.failure, client.config());
  if (upgrade.status != 101)
    throw status_error(upgrade.status, upgrade.body, name_of(command), &client.config());

  std::optional<ExecEnd> end;
  ExecInput input(command.input, upgrade.protocol == exec_v5);
  const Failure failure = line->socket.run(
      [&](std::string_view message) {
        if (message.empty()) return;
        const std::string_view bytes = message.substr(1);
        const auto channel = static_cast<Channel>(static_cast<unsigned char>(message.front()));
        if (channel == Channel::out && !bytes.empty()) out(bytes);
        if (channel == Channel::err && !bytes.empty()) err(bytes);
        if (channel == Channel::status && !end) end = exec_end(bytes);
      },
      [&] { return input.next(); });
  // The Status comes after all output: with it, the way in which the connection ends does not matter.
  if (end) return *end;
  throw lost(failure.kind == Failure::Kind::none
                 ? Failure{Failure::Kind::broken, "the server closed it without the command's exit code"}
                 : failure,
             command, client.config());
}

}  // namespace mlk::kube
