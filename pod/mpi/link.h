// Connections of mlk-mpi: a non-blocking socket with a Session. Also reads the addresses and the key from the
// pod's environment.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pod/base/output.h"
#include "pod/mpi/wire.h"

namespace mlk::mpi {

using pod::give_up;
using pod::log;
using pod::write_all;

// The exit code of a pod that has stopped waiting for other pods. A later attempt may succeed.
inline constexpr int gave_up = 75;

// Milliseconds of a monotonic clock.
std::int64_t now_ms();

struct Address {
  std::string host;
  std::string port;
};
Address parse_address(std::string_view text);  // host:port; port 7070 if there is none

// The whole text as a number. nullopt if it is not a whole number in the range of an int.
std::optional<int> parse_number(std::string_view text);

// The settings that mlk gives to every pod in its environment.
struct PodEnvironment {
  std::string role = "worker", rank = "0", folder, key;
  Address own;
  std::vector<Address> all;  // of all pods of the role, by rank
  int processes = 1;         // in each pod
  std::int64_t patience_ms = 0;
  // Time limits. Only tests set other values.
  std::int64_t time_to_stop_ms = 25000;   // less than the 30 s that Kubernetes gives to a pod
  std::int64_t time_to_prove_ms = 10000;  // after this time the agent closes an unauthenticated connection
  int time_to_be_read_ms = 60000;         // after this time the rest of a command's output is dropped

  bool on_one_machine() const { return own.host.starts_with("127."); }  // with --local
  // The address of a host by the name that mpirun uses: the whole name, or the part before the first dot.
  // Null: no pod has this name.
  const Address* find(std::string_view host) const;
};
// If a setting is missing, ends the process with 126 and a message.
PodEnvironment read_pod_environment();

class Link {
 public:
  Link(int fd, Session::Side side, std::string_view key);
  ~Link();
  Link(Link&& other) noexcept;
  Link& operator=(Link&& other) noexcept;

  int fd() const { return fd_; }
  short events() const;  // for poll()
  // Reads and writes without waiting. Returns false if the connection has ended.
  bool work(short events);
  bool flush();
  // Waits for the other end, for the given time at most or without a limit (-1), and then calls work(). A
  // signal also ends the wait, and then work() is not called.
  bool wait(int longest_wait_ms);
  Session& session() { return session_; }
  const Session& session() const { return session_; }
  std::int64_t since() const { return since_; }

 private:
  int fd_;
  Session session_;
  std::int64_t since_ = now_ms();
};

// A socket that listens: at the address if the host is a literal address, or else on all interfaces. Retries
// for 10 s, and then ends the process.
int listen_at(const Address& where);
// Connects to a listening process. nullopt if there is no connection within timeout_ms, or if the name is
// unknown. The look-up of the name may take up to 10 s more.
std::optional<Link> connect_to(const Address& where, std::string_view key, int timeout_ms);
// Waits until the other end has proven that it has the key. False if there is no proof within the time.
bool wait_until_ready(Link& link, int timeout_ms);

}  // namespace mlk::mpi
