// A responder for Prometheus: answers GET and HEAD of /metrics over HTTP, and refuses all other requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/base/address.h"

namespace mlk::rt {

// Returns the whole HTTP response to the head of a request. For /metrics the body of the response is the text
// of content(), of type `content_type`. Pure, except for content().
std::string http_answer(std::string_view head, const char* content_type,
                        const std::function<std::string()>& content);

// One thread that sleeps until a request comes. Time, size and number of requests are bounded. A new
// connection beyond the limit closes the oldest connection.
class MetricsServer {
 public:
  static constexpr std::size_t most_connections = 16, most_request = 8192;
  static constexpr std::size_t most_read = 1 << 20;  // bytes after a request that are read and dropped
  static constexpr double patience_seconds = 5;      // for the whole exchange

  using Content = std::function<std::string()>;  // called from the thread

  // Starts to listen. Throws Failure if it cannot listen at the address, or if no descriptor is free.
  MetricsServer(const HostPort& where, const char* content_type, Content content);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::uint16_t port() const;  // the port that is bound

 private:
  void run();

  const char* content_type_;
  const Content content_;
  int listen_ = -1, stop_ = -1;
  std::thread thread_;
};

}  // namespace mlk::rt
