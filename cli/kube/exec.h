// Runs a command in a container of a pod, as `kubectl exec` does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/http/websocket.h"
#include "cli/kube/client.h"
#include "cli/kube/exec_protocol.h"

namespace mlk::kube {

using ExecOutput = std::function<void(std::string_view)>;

// Runs the command, and returns its end. `out` and `err` get the bytes of stdout and stderr in parts, as they
// arrive; they run in the thread of the caller and may wait, and their exceptions pass through. `go_on` is
// called at least once a second, also while mlk connects; false ends the exec with an ApiError, but the
// command in the container may go on. The command is never started a second time. May be called from any
// thread. Throws ApiError: "Forbidden" without the right to create pods/exec; "Unreachable" if the connection
// is lost, and then nobody knows how the command ended.
[[nodiscard]] ExecEnd exec(Client& client, const ExecCommand& command, const ExecOutput& out,
                           const ExecOutput& err, const std::function<bool()>& go_on,
                           http::WebSocketTimes times = {});

}  // namespace mlk::kube
