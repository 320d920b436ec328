#include "cli/http/loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cli/http/handle.h"
#include "cli/http/repeat.h"

namespace mlk::http {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// While a libcurl older than 8.1 serves one transfer, it may read data for another one and not report it. So
// the loop calls libcurl at least this often while transfers are running.
constexpr milliseconds poll_interval{100};

// About a hundred streams fit on one HTTP/2 connection. Without a limit, libcurl would open a connection for
// each further transfer of a burst. While many transfers run, each new POST has its own connection
// (Transfer::set_network).
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
  peer_.proxy = proxy_to(server_.url, server_.proxy_url);
  peer_.speaks_http1 = !server_.url.starts_with("https:");
  credentials_->start([this] { curl_multi_wakeup(multi_.get()); });
  thread_ = std::thread([this] { run(); });
}

Loop::~Loop() { stop(); }

void Loop::add(const std::shared_ptr<Transfer>& transfer) {
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
      run_once();
    } catch (const std::bad_alloc&) {
      end_all({Failure::Kind::other, "not enough memory"});
    }
  }
  obey_orders();
  for (auto* list : {&running_, &waiting_}) {
    for (const auto& transfer : *list) {
      if (!transfer->is_stream()) continue;
      const std::lock_guard callbacks(transfer->callbacks);
      transfer->cancelled = true;
    }
  }
  end_all({Failure::Kind::closed, ""});
}

void Loop::run_once() {
  if (few_connections_ && peer_.speaks_http1) widen();
  obey_orders();
  poll_news();
  const SteadyTime now = Clock::now();
  start_due(now);
  int count = 0;
  curl_multi_perform(multi_.get(), &count);
  collect();
  check_silence(Clock::now());
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

// Raises the limit of connections; for a server that speaks only HTTP/1. libcurl applies the new limit to a
// waiting transfer only if the transfer is removed and added again.
void Loop::widen() {
  few_connections_ = false;
  curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS, connections_http1);
  for (const auto& transfer : running_) {
    if (transfer->under_way) continue;
    curl_multi_remove_handle(multi_.get(), transfer->easy);
    curl_multi_add_handle(multi_.get(), transfer->easy);
  }
}

// Begins the transfers that other threads have added, and drops the transfers that they have cancelled.
void Loop::obey_orders() {
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

// If the source of credentials has news, the transfers that wait for a credential continue or fail.
void Loop::poll_news() {
  const std::optional<CredentialSource::News> news = credentials_->poll_news();
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

// Removes the transfer from its list. Returns null if the transfer has already ended.
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

// If repeat_after() returns a time, plans to send the transfer again after this time. Also plans this once
// after a 401, with a renewed credential, because the server has not executed the request. Returns false if
// nothing is planned, for example because the next attempt would be after the deadline.
bool Loop::try_again(const std::shared_ptr<Transfer>& transfer, const Failure& failure, SteadyTime now) {
  note_acceptance(*transfer);
  for (const auto& other : running_) note_acceptance(*other);  // also for streams, which may last for days
  const int status = transfer->response.status;
  std::optional<milliseconds> wait;
  if (failure.kind == Failure::Kind::none && status == 401 && !transfer->sent_again &&
      credentials_->refused(transfer->credential, now)) {
    transfer->sent_again = true;
    wait = milliseconds(0);
  } else if (!transfer->is_check) {
    wait = repeat_after({.failure = failure.kind,
                         .status = status,
                         .retry_after = transfer->retry_after,
                         .twice = transfer->twice(),
                         .is_stream = transfer->is_stream(),
                         .attempts = transfer->attempts,
                         .trying_for = std::chrono::duration_cast<milliseconds>(now - *transfer->begun)},
                        server_.longest_trying);
  }
  if (!wait) return false;
  // The time lost on a dead connection does not count against the request's timeout.
  if (failure.kind == Failure::Kind::silent && transfer->deadline)
    transfer->deadline = now + transfer->request.timeout;
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

// Checks silent connections and abandons dead ones.
void Loop::check_silence(SteadyTime now) {
  if (server_.check_path.empty() || now < silence_due_) return;
  silence_due_ = now + server_.silence.suspect / 20;
  const auto ago = [&](const std::optional<SteadyTime>& then) {
    return then ? std::optional(std::chrono::duration_cast<milliseconds>(now - *then)) : std::nullopt;
  };
  const FreshCheck check{checks_, ago(answered_), ago(check_failed_)};
  bool ask = false, alone = false;
  std::vector<std::shared_ptr<Socket>> dead;
  for (const auto& [number, socket] : peer_.sockets.all()) {
    if (!socket->silence.expects()) continue;
    Quiet quiet = socket->silence.at(now);
    for (const auto& transfer : running_) {
      if (transfer->socket != socket || transfer->is_check) continue;
      quiet.takes_more = quiet.takes_more || transfer->has_http2();
      quiet.owes = quiet.owes || !transfer->is_stream();
    }
    switch (next_step(quiet, check, server_.silence)) {
      case SilenceStep::ask:
        socket->silence.asked(now);
        ask = true;
        break;
      case SilenceStep::check:
        alone = true;
        break;
      case SilenceStep::leave:
        dead.push_back(socket);
        break;
      case SilenceStep::wait:
        break;
    }
  }
  for (const auto& socket : dead) leave(socket);
  if (ask) check_connections(false);
  if (alone) check_connections(true);
}

// Sends a small request as a check, over a new connection if `alone`. Any answer passes the check, even a
// refusal.
void Loop::check_connections(bool alone) {
  auto transfer = std::make_shared<Transfer>(
      Request{.path = server_.check_path, .timeout = server_.silence.leave - server_.silence.suspect});
  transfer->deadline = Clock::now() + transfer->request.timeout;
  transfer->is_check = true;
  transfer->alone = alone;
  if (alone) {
    checks_ = true;
    transfer->done = [this](Response&, const Failure& failure) {
      checks_ = false;
      (failure.kind == Failure::Kind::none ? answered_ : check_failed_) = Clock::now();
    };
  }
  begin(std::move(transfer));
}

// Shuts the socket down, so that libcurl drops the connection. Each transfer over this connection is sent
// again or fails.
void Loop::leave(const std::shared_ptr<Socket>& socket) {
  socket->shut_down();
  const Failure failure{Failure::Kind::silent, ""};
  std::vector<std::shared_ptr<Transfer>> lost;
  for (const auto& transfer : running_) {
    if (transfer->socket == socket) lost.push_back(transfer);
  }
  for (const auto& each : lost) {
    const std::shared_ptr<Transfer> transfer = detach(each.get());
    if (transfer == nullptr || try_again(transfer, failure, Clock::now())) continue;
    transfer->finish(failure);
    transfer->release();
  }
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

// How many milliseconds the loop may wait for data from the network. libcurl shortens this wait for its own
// timers.
int Loop::patience(SteadyTime now) const {
  milliseconds wait(60'000);
  const auto until = [&](SteadyTime then) {
    wait = std::min(wait, std::max(milliseconds(0), std::chrono::ceil<milliseconds>(then - now)));
  };
  if (!running_.empty()) wait = poll_interval;
  for (const auto* list : {&running_, &waiting_}) {
    for (const auto& transfer : *list) {
      if (transfer->parked) continue;  // the new credential wakes the loop
      if (list == &waiting_) until(transfer->due);
      if (transfer->deadline) until(*transfer->deadline);
    }
  }
  return static_cast<int>(wait.count());
}

}  // namespace mlk::http
