// The internals of the transport: its connections, and the data that its threads share.
//
// Loop waits for sockets; Acceptor and Dialer make connections; Handshake proves who is at the other end;
// Link and FrameReader carry frames; PeerTable knows the incarnations. This class combines them: network.cpp
// serves the sockets, connecting.cpp dials, conversation.cpp handles frames.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/transport/acceptor.h"
#include "runtime/transport/dialer.h"
#include "runtime/transport/link.h"
#include "runtime/transport/loop.h"
#include "runtime/transport/peer_table.h"
#include "runtime/transport/transport.h"

namespace mlk::rt {

// epoll events carry the id of their object. Acceptor has its own ids; connections have larger ids.
inline constexpr std::uint64_t id_of_resolver = 2, first_connection_id = 16;

// Admits at most `burst` lines in each `window`; the first line of a later window reports how many were
// dropped.
class RateLimit {
 public:
  RateLimit(int burst, Milliseconds window) : burst_(burst), window_(window) {}
  // The number of lines dropped since the last admitted line, or nothing if this line must be dropped too.
  std::optional<int> admit(SteadyTime now);

 private:
  int burst_;
  Milliseconds window_;
  SteadyTime start_{};
  int used_ = 0, left_out_ = 0;
};

class Transport::Impl {
 public:
  Impl(Identity self, const Key& key, const TransportOptions& options, LogLine log);
  ~Impl();

  void dial(PeerId peer, const std::string& host_port);
  bool send(PeerId to, const Header& header, std::span<const std::byte> payload, WhenFull when_full,
            std::optional<std::uint32_t> checksum);
  bool has_room(PeerId peer);
  std::size_t held_bytes();
  std::optional<Event> receive(SteadyTime deadline);
  void nudge();
  void send_goodbye(int exit_code);

  Identity self_;
  PostedReceives posted_receives_;
  std::atomic<std::uint64_t> late_{0};

 private:
  // The bytes that were received from a peer and wait for receive(). An account outlives connections, so that
  // reconnecting gives no new credit.
  struct Account {
    std::atomic<std::size_t> bytes{0};
    std::atomic<bool> paused{false};
  };
  enum class Stage { connecting, handshake, established };
  struct Connection {
    std::shared_ptr<Link> link;
    Stage stage = Stage::handshake;
    bool dialled = false;
    PeerId peer;                       // if dialled: the wanted peer; else set once established
    std::uint64_t incarnation = 0;     // of the peer, once established
    std::shared_ptr<Account> account;  // once established
    std::optional<Handshake> handshake;
    SteadyTime opened, last_heard, last_sent;
    bool silent = false;
    // Set if the connection has to be closed after the current event.
    bool doomed = false;
    bool refused = false;   // no process listened at the address
    bool proven = true;     // the end of the connection proves that the incarnation is gone
    bool given_up = false;  // closed here after a silence; the peer may be alive, with its end open
    std::optional<SteadyTime> dead_at;  // the peer counts as dead at this time, if it is not back
  };

  struct Item {
    Event event;
    std::shared_ptr<Account> account;
    std::size_t size = 0;
    std::uint64_t posted_epoch = 0;
  };

  // Functions of the loop.
  SteadyTime next_round() const;
  void serve_round(std::span<const epoll_event> events);
  void handle(std::uint64_t id, std::uint32_t events, SteadyTime now);
  void tick(SteadyTime now);
  std::chrono::nanoseconds since_tick(SteadyTime now) const;
  void notice_pause(SteadyTime now);
  void serve(Connection& connection);
  void go_on_reading(PeerId peer);
  void notice_room(Connection& connection);
  void accept(std::uint64_t id, SteadyTime now);
  void add_stranger(int fd, const std::string& remote, Medium medium, SteadyTime now);
  void drop_oldest_stranger(SteadyTime now);
  void start_round(PeerId peer, const std::vector<SocketAddress>& addresses, SteadyTime now);
  void start_rounds(SteadyTime now);
  void open_attempt(PeerId peer, const SocketAddress& address, SteadyTime now);
  void end_attempts(PeerId peer);
  void finish_connect(Connection& connection);
  bool on_frame(Connection& connection, Frame&& frame);
  bool on_handshake(Connection& connection, const Frame& frame);
  bool promote(Connection& connection, const Introduction& theirs);
  void retire(Connection& older, bool other_incarnation);
  void send_control(Connection& connection, MessageType type, std::span<const std::byte> payload,
                    std::uint64_t clock = 0, std::uint8_t flags = 0);
  bool deliver(Connection& connection, Frame&& frame);
  void remove(std::uint64_t id, SteadyTime now);
  void refuse(Connection& connection, std::string_view why);
  void complain(const std::string& remote, std::string_view why);
  bool lost(const Connection& connection, SteadyTime now) const;
  Connection* established(PeerId peer);
  void push(Event event);
  void push_down(PeerId peer, std::uint64_t incarnation, bool proven);
  void push(Item item);
  std::shared_ptr<Link> active(PeerId peer);
  bool inbox_empty();
  void run_commands();
  void post(std::function<void()> command);

  const Key key_;
  const TransportOptions options_;
  const LogLine log_;
  std::unique_ptr<Acceptor> acceptor_;
  Loop loop_;

  // Members for the thread that runs the loop.
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_id_ = first_connection_id;
  Dialer dialer_;
  Resolver resolver_;
  std::map<std::uint64_t, PeerId> look_ups_;
  std::uint64_t next_look_up_ = 1;
  PeerTable peers_;
  // Connections that were given up, kept until the peer is back. If only one direction is cut, or if the peer
  // was stopped, an end of the stream would look to the peer like the death of this process.
  std::map<PeerId, std::shared_ptr<Link>> given_up_;
  // After a pause of this process itself (stopped, its host frozen or suspended), the peers may have closed
  // their connections with it. So the ends of their connections prove nothing until the peers have had the
  // time to dial again.
  SteadyTime peers_return_until_;
  std::set<PeerId> tcp_next_;  // peers to dial by TCP next, since the attempt at their UNIX socket failed
  RateLimit complaints_{5, Milliseconds(10000)};
  bool closing_ = false;
  SteadyTime last_tick_;
  std::chrono::nanoseconds suspended_at_tick_{};

  // Members for all threads.
  std::mutex mutex_;
  std::map<PeerId, std::shared_ptr<Link>> active_;
  std::map<PeerId, std::shared_ptr<Account>> accounts_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> closed_{false}, nudged_{false};

  std::mutex inbox_mutex_;
  std::deque<Item> inbox_;
};

}  // namespace mlk::rt
