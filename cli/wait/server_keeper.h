// Restarts the server of the cluster on this machine while a command waits, since no other process restarts
// the server.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace mlk {

struct Session;

class ServerKeeper {
 public:
  // `say` prints a line for people. The session must outlive this object.
  ServerKeeper(const Session& session, std::function<void(const std::string&)> say);

  // Call repeatedly. Checks at most once a second, and only if the command uses the cluster on this machine.
  // A server that the user has stopped stays down. Throws Error if the server cannot be started.
  void check();

 private:
  const Session& session_;
  const std::function<void(const std::string&)> say_;
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace mlk
