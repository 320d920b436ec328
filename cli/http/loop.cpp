#include "cli/http/loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cli/http/handle.h"

namespace mlk::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int most_attempts = 10;
constexpr seconds longest_wait{30};

// libcurl before 8.1 may have read data for another transfer of the connection without reporting it.
constexpr milliseconds look_again{100};

// A hundred streams fit on one HTTP/2 connection; libcurl would open a connection for each further transfer
// of a burst. Of many POSTs each has a connection (set_network).
constexpr long connections_http2 = 40;
constexpr long connections_http1 = 512;

std::string seconds_text(milliseconds time) {
  const std::string text = std::to_string(time.count() / 1000);
  return time.count() % 1000 == 0 ? text + " s"
                                  : text + "." + std::to_string(time.count() % 1000 / 100) + " s";
}

}  // namespace

Loop::Loop(ServerAccess server, std::unique_ptr<CredentialSource> credentials)
    : server_(std::move(server)),
      multi_(new_multi(), &curl_multi_cleanup),
      credentials_(std::move(credentials)) {
  curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS, connections_http2);
  peer_.speaks_http1 = !server_.url.starts_with("https:");
  credentials_->start([this] { curl_multi_wakeup(multi_.get()); });
  thread_ = std::thread([this] { run(); });
}

Loop::~Loop() { stop(); }

void Loop::add(std::shared_ptr<Transfer> transfer) {
  if (transfer->request.timeout > milliseconds(0))
    transfer->deadline = Clock::now() + transfer->request.timeout;
  bool refused;
  {
    const std::lock_guard lock(mutex_);
    refused = stopping_;
    if (!refused) added_.push_back(transfer);
  }
  if (refused) {
    transfer->finish({Failure::Kind::closed, ""});
  } else {
    curl_multi_wakeup(multi_.get());
  }
}

void Loop::cancel(const std::shared_ptr<Transfer>& transfer) {
  {
    const std::lock_guard callbacks(transfer->callbacks);  // waits for a running callback
    transfer->cancelled = true;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    dropped_.push_back(transfer);
  }
  curl_multi_wakeup(multi_.get());
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  curl_multi_wakeup(multi_.get());
  thread_.join();
  credentials_->stop();
}

void Loop::run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    try {
      take_turn();
    } catch (const std::bad_alloc&) {
      end_all({Failure::Kind::other, "not enough memory"});
    }
  }
  take_orders();
  for (auto* list : {&running_, &waiting_}) {
    for (const auto& transfer : *list) {
      if (!transfer->is_stream()) continue;
      const std::lock_guard callbacks(transfer->callbacks);
      transfer->cancelled = true;
    }
  }
  end_all({Failure::Kind::closed, ""});
}

void Loop::take_turn() {
  if (few_connections_ && peer_.speaks_http1) widen();
  take_orders();
  take_news();
  const SteadyTime now = Clock::now();
  start_due(now);
  int count = 0;
  curl_multi_perform(multi_.get(), &count);
  collect();
  expire(Clock::now());
  curl_multi_poll(multi_.get(), nullptr, 0, patience(Clock::now()), nullptr);
}

void Loop::end_all(const Failure& failure) {
  for (auto* list : {&running_, &waiting_}) {
    while (!list->empty()) {
      const std::shared_ptr<Transfer> transfer = detach(list->back().get());
      transfer->release();
      transfer->finish(failure);
    }
  }
}

// The server speaks only HTTP/1. Transfers that wait for a connection would not notice that more are allowed
// now.
void Loop::widen() {
  few_connections_ = false;
  curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS, connections_http1);
  for (const auto& transfer : running_) {
    if (transfer->under_way) continue;
    curl_multi_remove_handle(multi_.get(), transfer->easy);
    curl_multi_add_handle(multi_.get(), transfer->easy);
  }
}

// Takes new and cancelled transfers.
void Loop::take_orders() {
  std::vector<std::shared_ptr<Transfer>> added, dropped;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
    dropped.swap(dropped_);
  }
  for (auto& transfer : added) begin(std::move(transfer));
  for (const auto& transfer : dropped) {
    detach(transfer.get());
    transfer->release();
  }
}

void Loop::begin(std::shared_ptr<Transfer> transfer) {
  CredentialSource::Turn turn = credentials_->next(Clock::now());
  if (turn.error) {
    transfer->finish({Failure::Kind::credentials, turn.error->what(), turn.error->hint(), true});
    return;
  }
  if (!turn.send) {
    transfer->parked = Clock::now();
    transfer->due = SteadyTime::max();
    waiting_.push_back(std::move(transfer));
    return;
  }
  try {
    peer_.transfers = running_.size();
    transfer->prepare(server_, std::move(turn.send), peer_);
    running_.push_back(transfer);
  } catch (const std::exception&) {  // bad_alloc, or a handle that libcurl could not make
    transfer->release();
    transfer->finish({Failure::Kind::other, "not enough memory"});
    return;
  }
  curl_multi_add_handle(multi_.get(), transfer->easy);
}

// Transfers that waited for a credential continue, or fail.
void Loop::take_news() {
  const std::optional<CredentialSource::News> news = credentials_->take_news();
  if (!news) return;
  const SteadyTime now = Clock::now();
  std::vector<std::shared_ptr<Transfer>> parked;
  for (const auto& transfer : waiting_) {
    if (transfer->parked) parked.push_back(transfer);
  }
  for (const auto& transfer : parked) {
    if (transfer->deadline) *transfer->deadline += now - *transfer->parked;
    transfer->parked.reset();
    transfer->due = now;
    if (!news->error) continue;
    detach(transfer.get());
    transfer->finish({Failure::Kind::credentials, news->error->what(), news->error->hint()});
  }
}

void Loop::start_due(SteadyTime now) {
  for (std::size_t i = 0; i < waiting_.size();) {
    if (waiting_[i]->due > now) {
      ++i;
      continue;
    }
    begin(detach(waiting_[i].get()));
  }
}

// Removes it from its list; null if it has ended already.
std::shared_ptr<Transfer> Loop::detach(Transfer* transfer) {
  const auto is_it = [&](const auto& other) { return other.get() == transfer; };
  for (auto* list : {&running_, &waiting_}) {
    const auto found = std::find_if(list->begin(), list->end(), is_it);
    if (found == list->end()) continue;
    std::shared_ptr<Transfer> out = std::move(*found);
    list->erase(found);
    if (list == &running_) curl_multi_remove_handle(multi_.get(), out->easy);
    return out;
  }
  return nullptr;
}

void Loop::collect() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    end(reinterpret_cast<Transfer*>(transfer), message->data.result);
  }
}

void Loop::end(Transfer* ended, CURLcode code) {
  const Failure failure = ended->failure(code);
  if (failure.kind == Failure::Kind::none) ended->read_headers();
  if (code == CURLE_PEER_FAILED_VERIFICATION) peer_.certificate = {};
  const std::shared_ptr<Transfer> transfer = detach(ended);
  if (transfer == nullptr || try_again(transfer, failure, Clock::now())) return;
  transfer->finish(failure);
  transfer->release();
}

// client-go's rules: repeat after 429 and 5xx with Retry-After, and a GET whose connection broke. Unlike
// client-go also once after a 401, with a renewed credential: the server has not acted on such a request.
bool Loop::try_again(const std::shared_ptr<Transfer>& transfer, const Failure& failure, SteadyTime now) {
  note_acceptance(*transfer);
  for (const auto& other : running_) note_acceptance(*other);  // streams may last for days
  const int status = transfer->response.status;
  std::optional<milliseconds> wait;
  if (failure.kind == Failure::Kind::none) {
    if (status == 401 && !transfer->sent_again && credentials_->refused(transfer->credential, now)) {
      transfer->sent_again = true;
      wait = milliseconds(0);
    } else if ((status == 429 || status >= 500) && transfer->retry_after) {
      wait = std::min(*transfer->retry_after, longest_wait);
    }
  } else if (failure.kind == Failure::Kind::broken && transfer->request.method == "GET" &&
             !transfer->is_stream()) {
    wait = milliseconds(1000);
  }
  if (!wait || transfer->attempts >= most_attempts) return false;
  if (transfer->deadline && now + *wait >= *transfer->deadline) return false;
  transfer->due = now + *wait;
  transfer->release();
  waiting_.push_back(transfer);
  return true;
}

void Loop::note_acceptance(const Transfer& transfer) {
  const int status = transfer.response.status;
  if (status >= 200 && status != 401) credentials_->accepted(transfer.credential);
}

void Loop::expire(SteadyTime now) {
  std::vector<std::shared_ptr<Transfer>> late;
  for (const auto* list : {&running_, &waiting_}) {
    for (const auto& transfer : *list) {
      if (!transfer->parked && transfer->deadline && now >= *transfer->deadline) late.push_back(transfer);
    }
  }
  for (const auto& transfer : late) {
    detach(transfer.get());
    transfer->finish(
        {Failure::Kind::timed_out, "no answer within " + seconds_text(transfer->request.timeout)});
    transfer->release();
  }
}

// Milliseconds until something is due even without network traffic; libcurl shortens it for its own timers.
int Loop::patience(SteadyTime now) const {
  milliseconds wait(60'000);
  const auto until = [&](SteadyTime then) {
    wait = std::min(wait, std::max(milliseconds(0), std::chrono::ceil<milliseconds>(then - now)));
  };
  if (!running_.empty()) wait = look_again;
  for (const auto* list : {&running_, &waiting_}) {
    for (const auto& transfer : *list) {
      if (transfer->parked) continue;  // its credential wakes the loop
      if (list == &waiting_) until(transfer->due);
      if (transfer->deadline) until(*transfer->deadline);
    }
  }
  return static_cast<int>(wait.count());
}

}  // namespace mlk::http
