// Brings the server of the cluster on this machine back while a command waits: nobody else would.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace mlk {

struct Session;

class ServerKeeper {
 public:
  // `say`: a line for people. The session must outlive it.
  ServerKeeper(const Session& session, std::function<void(const std::string&)> say);

  // To be called again and again; looks once a second, and only at the cluster on this machine. A server that
  // was stopped stays down. Throws Error when it cannot be started.
  void look();

 private:
  const Session& session_;
  const std::function<void(const std::string&)> say_;
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace mlk
