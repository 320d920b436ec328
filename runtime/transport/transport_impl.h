// The inside of the transport: what belongs to the loop, and what is shared.
//
// The loop waits for sockets and serves them. The thread that waits for something runs it: the consumer in
// receive(), a sender without room. So an awaited message costs one wake-up, and its payload is still in the
// cache of the thread that wants it. While waits are short, the waiting thread polls for a while before it
// sleeps. When no thread has run the loop for a while, a backup thread of the transport does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <thread>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/transport/dialer.h"
#include "runtime/transport/link.h"
#include "runtime/transport/transport.h"

namespace mlk::rt {

// The object that an event of epoll belongs to; connections have larger ids.
inline constexpr std::uint64_t id_of_wake = 0, id_of_listener = 1, id_of_resolver = 2,
                               id_of_local_listener = 3;

// Lets at most `burst` lines through in `window`; the next line after that says how many were dropped.
class RateLimit {
 public:
  RateLimit(int burst, Milliseconds window) : burst_(burst), window_(window) {}
  // The number of lines dropped since the last one, or nothing if this one is to be dropped too.
  std::optional<int> admit(SteadyTime now);

 private:
  int burst_;
  Milliseconds window_;
  SteadyTime start_{};
  int used_ = 0, left_out_ = 0;
};

class Transport::Impl {
 public:
  Impl(Identity self, const Key& key, TransportOptions options, LogLine log);
  ~Impl();

  void dial(PeerId peer, const std::string& host_port);
  void stop_dialling(PeerId peer);
  bool send(PeerId to, const Header& header, std::span<const std::byte> payload, WhenFull when_full,
            std::optional<std::uint32_t> checksum);
  bool has_room(PeerId peer);
  std::size_t held_bytes();
  std::optional<Event> receive(SteadyTime deadline);
  void nudge();
  void say_goodbye(int exit_code);

  Identity self_;
  PostedReceives posted_receives_;
  std::atomic<std::uint64_t> late_{0};

 private:
  // What came from a peer and waits for receive(). Outlives connections, so that reconnecting gives no new
  // credit.
  struct Account {
    std::atomic<std::size_t> bytes{0};
    std::atomic<bool> paused{false};
  };
  enum class Stage { connecting, await_challenge, await_hello, await_proof, established };
  struct Connection {
    std::shared_ptr<Link> link;
    Stage stage = Stage::await_hello;
    bool dialled = false;
    PeerId peer;  // if we dialled: the peer that it should be; else the peer that it claims to be
    std::shared_ptr<Account> account;  // once established
    Introduction ours, theirs;
    SteadyTime opened, last_heard, last_sent;
    bool silent = false;
    // Set if the connection is to be closed after the current event.
    bool doomed = false;
    bool refused = false;   // no process listened at that address
    bool proven = true;     // its end proves that the incarnation is gone
    bool given_up = false;  // after a silence: the peer may be alive, and may hear this process well
  };

  struct Item {
    Event event;
    std::shared_ptr<Account> account;
    std::size_t size = 0;
    std::uint64_t posted_epoch = 0;
  };

  // The loop.
  void run_backup();
  void run_loop_until(SteadyTime deadline, const std::function<bool()>& done);
  int wait_for_sockets(std::span<epoll_event> events, Milliseconds time, bool spin);
  void poll_once(SteadyTime deadline, bool spin);
  void handle(std::uint64_t id, std::uint32_t events, SteadyTime now);
  void tick(SteadyTime now);
  std::chrono::nanoseconds since_tick(SteadyTime now) const;
  void notice_pause(SteadyTime now);
  void serve(Connection& connection);
  void go_on_reading(PeerId peer);
  void notice_room(Connection& connection);
  void accept_all(SteadyTime now);
  void accept_local(SteadyTime now);
  void add_stranger(int fd, const std::string& remote, Medium medium, SteadyTime now);
  void leave_out_listener(int listener);
  void drop_oldest_stranger(SteadyTime now);
  void start_round(PeerId peer, const std::vector<SocketAddress>& addresses, SteadyTime now);
  void start_rounds(SteadyTime now);
  void open_attempt(PeerId peer, const SocketAddress& address, SteadyTime now);
  void finish_connect(Connection& connection);
  bool on_frame(Connection& connection, Frame&& frame);
  bool on_handshake(Connection& connection, const Frame& frame);
  bool promote(Connection& connection);
  void retire(Connection& older, bool other_incarnation);
  void tell(Connection& connection, MessageType type, std::span<const std::byte> payload,
            std::uint64_t clock = 0, std::uint8_t flags = 0);
  bool deliver(Connection& connection, Frame&& frame);
  void remove(std::uint64_t id, SteadyTime now);
  void refuse(Connection& connection, std::string_view why);
  void complain(const std::string& remote, std::string_view why);
  bool lost(const Connection& connection, SteadyTime now) const;
  Connection* established(PeerId peer);
  void push(Event event);
  void push(Item item);
  std::shared_ptr<Link> active(PeerId peer);
  bool inbox_empty();
  void wake() const;
  void run_commands();
  void post(std::function<void()> command);

  const Key key_;
  const TransportOptions options_;
  const LogLine log_;
  int epoll_ = -1, listen_ = -1, listen_local_ = -1, wake_ = -1;

  std::mutex loop_mutex_;
  std::condition_variable loop_free_, backup_wakes_;
  bool loop_taken_ = false, backup_runs_loop_ = false;  // a thread runs the loop; it is the backup
  int waiting_ = 0;                                     // threads in run_loop_until()
  std::uint64_t waits_ = 0;                             // that are over
  bool backup_rests_ = false;                           // the backup, until no thread waits
  std::atomic<bool> stop_{false};
  std::thread thread_;

  // For the thread that runs the loop.
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_id_ = 16;
  Dialer dialer_;
  Resolver resolver_;
  std::map<std::uint64_t, PeerId> look_ups_;
  std::uint64_t next_look_up_ = 1;
  std::map<PeerId, std::uint64_t> last_incarnation_;
  std::set<PeerId> unproven_;  // lost, but perhaps alive
  // Connections that were given up, until the peer is back. Where only one way is cut, or the peer stood
  // still, it would take the end of the stream for the death of this process.
  std::map<PeerId, std::shared_ptr<Link>> given_up_;
  // After a pause of this process itself (stopped, its host frozen or suspended) the peers may have given it
  // up: the ends of their connections prove nothing until they had the time to dial again.
  SteadyTime peers_return_until_;
  std::map<PeerId, SteadyTime> dead_unless_back_;
  std::map<PeerId, std::set<std::uint64_t>> fenced_;
  std::set<PeerId> tcp_next_;  // the process that listens beside the peer's address is not the peer
  RateLimit complaints_{5, Milliseconds(10000)};
  bool closing_ = false, accepting_ = true, waits_are_short_ = false;
  SteadyTime last_tick_;
  std::chrono::nanoseconds suspended_at_tick_{};

  // Shared.
  std::mutex mutex_;
  std::map<PeerId, std::shared_ptr<Link>> active_;
  std::map<PeerId, std::shared_ptr<Account>> accounts_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> closed_{false}, nudged_{false};

  std::mutex inbox_mutex_;
  std::deque<Item> inbox_;
};

}  // namespace mlk::rt
