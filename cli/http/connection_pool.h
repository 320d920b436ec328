// The connections that exchanges of several threads share. Over HTTP/2, exchanges with a server are streams
// of one connection, so only the first exchange waits for handshakes.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include <curl/curl.h>

namespace mlk::http {

// Thread-safe.
class ConnectionPool {
 public:
  ConnectionPool() = default;
  ~ConnectionPool();  // no exchange may be in progress
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Does the same as curl_easy_perform(), but callbacks run in the thread of the pool and must not wait.
  CURLcode perform(CURL* easy);

 private:
  struct Exchange {
    CURL* easy;
    CURLcode result = CURLE_OK;
    bool ended = false;
    std::condition_variable changed{};
  };
  void start();
  void run();
  bool start_added();
  void end(CURL* easy, CURLcode result);

  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_{nullptr, &curl_multi_cleanup};
  // The exchanges are in lists, because to move an element between lists needs no memory. So the pool's
  // thread never fails for lack of memory.
  std::list<Exchange*> running_;  // for the pool's thread
  std::mutex mutex_;
  std::list<Exchange*> added_;
  bool stopping_ = false;
  std::thread thread_;  // starts with the first exchange
};

}  // namespace mlk::http
