// The single thread that communicates with a server. Any number of transfers run at the same time. Over
// HTTP/2, most of them share few connections.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cli/http/credential.h"
#include "cli/http/server.h"
#include "cli/http/transfer.h"

namespace mlk::http {

class Loop {
 public:
  Loop(ServerAccess server, std::unique_ptr<CredentialSource> credentials);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // May be called from any thread. Transfer::done runs once in the loop's thread, except if the transfer is
  // cancelled before its end. After stop(), add() itself calls `done` with Failure::Kind::closed.
  void add(const std::shared_ptr<Transfer>& transfer);
  // May be called from any thread, also from a callback of this transfer. After cancel() returns, no callback
  // of the transfer starts.
  void cancel(const std::shared_ptr<Transfer>& transfer);
  // Ends the thread. Transfers in progress fail with Failure::Kind::closed; streams end without a callback.
  void stop();

 private:
  void run();
  void run_once();
  void end_all(const Failure& failure);
  void obey_orders();
  void begin(std::shared_ptr<Transfer> transfer);
  void poll_news();
  void start_due(SteadyTime now);
  void widen();
  void expire(SteadyTime now);
  void collect();
  void end(Transfer* transfer, CURLcode code);
  bool try_again(const std::shared_ptr<Transfer>& transfer, const Failure& failure, SteadyTime now);
  void check_silence(SteadyTime now);
  void check_connections(bool alone);
  void leave(const std::shared_ptr<Socket>& socket);
  void note_acceptance(const Transfer& transfer);
  std::shared_ptr<Transfer> detach(Transfer* transfer);
  int patience(SteadyTime now) const;

  const ServerAccess server_;
  Peer peer_;  // for the loop's thread; must outlive the connections
  const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
  // For the loop's thread.
  const std::unique_ptr<CredentialSource> credentials_;
  bool few_connections_ = true;
  std::vector<std::shared_ptr<Transfer>> running_, waiting_;  // waiting_ awaits a retry or a credential
  SteadyTime silence_due_{};
  bool checks_ = false;                                // a check over a new connection is under way
  std::optional<SteadyTime> answered_, check_failed_;  // when such a check last passed, or failed
  // Shared by all threads.
  std::mutex mutex_;
  std::vector<std::shared_ptr<Transfer>> added_, dropped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mlk::http
