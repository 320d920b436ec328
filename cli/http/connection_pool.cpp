#include "cli/http/connection_pool.h"

#include <algorithm>

#include "cli/http/handle.h"

namespace mlk::http {
namespace {

// The limit of connections to one server without HTTP/2. It must not be below the number of exchanges that
// mlk runs at the same time. Otherwise some exchanges would wait for a connection, and could time out.
constexpr long most_connections = 32;

// While exchanges run, the pool calls libcurl at least this often. Each call reports progress, checks for an
// interruption, and delivers data that was read while another stream of the connection was served: a libcurl
// older than 8.1 does not report such data.
constexpr int look_again_ms = 50;

}  // namespace

ConnectionPool::~ConnectionPool() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_.get());
  thread_.join();
}

void ConnectionPool::start() {
  multi_.reset(new_multi());
  curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS, most_connections);
  thread_ = std::thread([this] { run(); });
}

CURLcode ConnectionPool::perform(CURL* easy) {
  Exchange exchange{.easy = easy};
  std::list<Exchange*> own{&exchange};
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) start();
  added_.splice(added_.end(), own);
  curl_multi_wakeup(multi_.get());
  exchange.changed.wait(lock, [&] { return exchange.ended; });
  return exchange.result;
}

void ConnectionPool::run() {
  while (start_added()) {
    int count = 0;
    curl_multi_perform(multi_.get(), &count);
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &count)) {
      if (message->msg == CURLMSG_DONE) end(message->easy_handle, message->data.result);
    }
    constexpr int without_end = 60'000;
    curl_multi_poll(multi_.get(), nullptr, 0, running_.empty() ? without_end : look_again_ms, nullptr);
  }
}

// Returns false if the pool ends.
bool ConnectionPool::start_added() {
  std::list<Exchange*> added;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    added.swap(added_);
  }
  while (!added.empty()) {
    CURL* const easy = added.front()->easy;
    running_.splice(running_.end(), added, added.begin());
    if (curl_multi_add_handle(multi_.get(), easy) != CURLM_OK) end(easy, CURLE_OUT_OF_MEMORY);
  }
  return true;
}

void ConnectionPool::end(CURL* easy, CURLcode result) {
  curl_multi_remove_handle(multi_.get(), easy);
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Exchange* each) { return each->easy == easy; });
  Exchange* const exchange = *found;
  running_.erase(found);
  const std::lock_guard lock(mutex_);
  exchange->result = result;
  exchange->ended = true;
  exchange->changed.notify_one();
}

}  // namespace mlk::http
