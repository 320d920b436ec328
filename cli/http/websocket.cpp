#include "cli/http/websocket.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <wslay/wslay.h>

#include <openssl/rand.h>

#include "cli/util/hash.h"

namespace mlk::http {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t most_head = 64u << 10;
constexpr std::size_t most_body = 64u << 10;
constexpr std::size_t most_message = 16u << 20;
constexpr std::size_t buffer_size = 256u << 10;
constexpr milliseconds turn{500};            // of waiting, so that go_on is asked often enough
constexpr milliseconds answer_time{30'000};  // for the answer to the handshake, as for other requests

// libcurl's random numbers are not for others, so these are OpenSSL's.
bool fill_random(unsigned char* place, std::size_t size) {
  return RAND_bytes(place, static_cast<int>(size)) == 1;
}

}  // namespace

struct WebSocket::State {
  Dialed& dialed;
  const std::function<bool()> go_on;
  const WebSocketTimes times;
  // Received bytes that were not parsed yet: in[begin, end).
  std::vector<char> in = std::vector<char>(buffer_size);
  std::size_t begin = 0, end = 0;
  // Bytes to send. OpenSSL wants the same bytes again after a partial write, so nothing moves them before.
  std::string out{};
  std::size_t sent = 0;
  bool has_more = false;  // to send
  wslay_event_context_ptr frames = nullptr;
  std::uint64_t message_size = 0;  // of the newest message, as far as its frames have begun
  const Take* take = nullptr;
  std::exception_ptr thrown{};
  Clock::time_point heard = Clock::now(), pinged = Clock::now();

  ~State() {
    if (frames != nullptr) wslay_event_context_free(frames);
  }

  Dialed::Moved fill() {
    if (begin < end) return Dialed::Moved::some;
    begin = end = 0;
    const Dialed::Moved moved = dialed.receive(in.data(), in.size(), end);
    if (moved == Dialed::Moved::some) heard = Clock::now();
    return moved;
  }

  Dialed::Moved flush() {
    while (sent < out.size()) {
      std::size_t count = 0;
      const Dialed::Moved moved = dialed.send(std::string_view(out).substr(sent), count);
      if (moved != Dialed::Moved::some) return moved;
      sent += count;
    }
    out.clear();
    sent = 0;
    return Dialed::Moved::some;
  }

  static ssize_t on_receive(wslay_event_context_ptr context, uint8_t* place, size_t size, int, void* self) {
    auto& state = *static_cast<State*>(self);
    const std::size_t count = std::min(size, state.end - state.begin);
    if (count == 0 || state.thrown) {
      wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
      return -1;
    }
    std::copy_n(state.in.data() + state.begin, count, place);
    state.begin += count;
    return static_cast<ssize_t>(count);
  }

  static ssize_t on_send(wslay_event_context_ptr context, const uint8_t* data, size_t size, int, void* self) {
    auto& state = *static_cast<State*>(self);
    if (state.sent > 0 || state.out.size() >= buffer_size) {
      wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
      return -1;
    }
    try {  // no exception may pass through a library of C
      state.out.append(reinterpret_cast<const char*>(data), size);
    } catch (...) {
      state.thrown = std::current_exception();
      wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
      return -1;
    }
    return static_cast<ssize_t>(size);
  }

  static int on_mask(wslay_event_context_ptr context, uint8_t* place, size_t size, void*) {
    if (fill_random(place, size)) return 0;
    wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
  }

  static void on_frame(wslay_event_context_ptr, const wslay_event_on_frame_recv_start_arg* frame,
                       void* self) {
    auto& state = *static_cast<State*>(self);
    if (wslay_is_ctrl_frame(frame->opcode) || state.message_size > most_message) return;
    if (frame->opcode != WSLAY_CONTINUATION_FRAME) state.message_size = 0;
    state.message_size += frame->payload_length;
  }

  static void on_message(wslay_event_context_ptr, const wslay_event_on_msg_recv_arg* message, void* self) {
    auto& state = *static_cast<State*>(self);
    if (message->opcode != WSLAY_BINARY_FRAME || state.thrown) return;
    try {
      (*state.take)({reinterpret_cast<const char*>(message->msg), message->msg_length});
    } catch (...) {
      state.thrown = std::current_exception();
    }
  }

  void start_frames() {
    const wslay_event_callbacks callbacks{&on_receive, &on_send, &on_mask,   &on_frame,
                                          nullptr,     nullptr,  &on_message};
    if (wslay_event_context_client_init(&frames, &callbacks, this) != 0) throw std::bad_alloc();
    wslay_event_config_set_max_recv_msg_length(frames, 1u << 30);  // parse() knows the smaller limit
  }

  void queue(uint8_t kind, const std::string& text) {
    const wslay_event_msg message{kind, reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    if (wslay_event_queue_msg(frames, &message) == WSLAY_ERR_NOMEM) throw std::bad_alloc();
  }

  void ping(Clock::time_point now) {
    if (now - pinged < times.ping) return;
    pinged = now;
    queue(WSLAY_PING, "");
  }

  // Hands the received bytes to wslay. Returns a failure if the server breaks the protocol.
  Failure parse() {
    const int code = wslay_event_recv(frames);
    heard = Clock::now();  // `take` may have waited
    if (thrown) std::rethrow_exception(thrown);
    if (message_size > most_message) return {Failure::Kind::too_large, "a message of more than 16 MiB"};
    if (wslay_event_get_close_received(frames)) return {};
    if (code != 0 || !wslay_event_get_read_enabled(frames))
      return {Failure::Kind::other, "the server breaks the WebSocket protocol"};
    return {};
  }

  // Moves to the socket what it takes now, but only some messages, so that receiving goes on, too. Returns
  // false if the connection ended.
  bool push(const Give& give) {
    constexpr int most_messages = 16;
    has_more = true;
    for (int i = 0; i < most_messages; ++i) {
      if (wslay_event_get_queued_msg_count(frames) == 0) {
        if (const std::string next = give(); !next.empty()) queue(WSLAY_BINARY_FRAME, next);
      }
      if (wslay_event_want_write(frames) && sent == 0 && wslay_event_send(frames) != 0) {
        if (thrown) std::rethrow_exception(thrown);
        return false;
      }
      has_more = !out.empty();
      if (!has_more) return true;
      const Dialed::Moved moved = flush();
      if (moved != Dialed::Moved::some) return moved == Dialed::Moved::none;
    }
    return true;
  }

  std::optional<Failure> over(Clock::time_point now) const {
    if (!go_on()) return Failure{Failure::Kind::closed, ""};
    if (now - heard > times.silent) return Failure{Failure::Kind::broken, "it went silent"};
    return std::nullopt;
  }

  // Receives until `text` has what `enough` wants. Returns why it could not.
  template <typename Enough>
  Failure gather(std::string& text, std::size_t most, Clock::time_point deadline, const Enough& enough) {
    while (!enough()) {
      if (text.size() >= most)
        return {Failure::Kind::too_large, "the answer to an upgrade of more than 64 KiB"};
      const Dialed::Moved moved = fill();
      if (moved == Dialed::Moved::ended) return dialed.failure();
      if (moved == Dialed::Moved::some) {
        const std::size_t count = std::min(end - begin, most - text.size());
        text.append(in.data() + begin, count);
        begin += count;
        continue;
      }
      if (!go_on()) return {Failure::Kind::closed, ""};
      if (Clock::now() > deadline) return {Failure::Kind::timed_out, "no answer within 30 s"};
      dialed.wait(Dialed::For::receiving, turn);
    }
    return {};
  }
};

WebSocket::WebSocket(Dialed& dialed, std::function<bool()> go_on, WebSocketTimes times)
    : state_(std::make_unique<State>(State{.dialed = dialed, .go_on = std::move(go_on), .times = times})) {}

WebSocket::~WebSocket() = default;

Upgrade WebSocket::open(const std::vector<std::string>& protocols) {
  State& state = *state_;
  const Clock::time_point deadline = Clock::now() + answer_time;
  std::string random(16, '\0');
  if (!fill_random(reinterpret_cast<unsigned char*>(random.data()), random.size()))
    return {.failure = {Failure::Kind::other, "OpenSSL gives no random numbers"}};
  const std::string key = base64_encode(random);
  state.out = upgrade_request(state.dialed.target(), state.dialed.lines(), key, protocols);
  for (Dialed::Moved moved; (moved = state.flush()) != Dialed::Moved::some;) {
    if (moved == Dialed::Moved::ended) return {.failure = state.dialed.failure()};
    if (!state.go_on()) return {.failure = {Failure::Kind::closed, ""}};
    if (Clock::now() > deadline) return {.failure = {Failure::Kind::timed_out, "no answer within 30 s"}};
    state.dialed.wait(Dialed::For::both, turn);
  }
  std::string text;
  std::size_t head_end = text.npos;
  Failure failure = state.gather(text, most_head, deadline,
                                 [&] { return (head_end = text.find("\r\n\r\n")) != text.npos; });
  if (failure.kind != Failure::Kind::none) return {.failure = failure};
  const std::optional<AnswerHead> head = parse_answer_head(std::string_view(text).substr(0, head_end + 4));
  if (!head) return {.failure = {Failure::Kind::other, "its answer is no HTTP"}};
  text.erase(0, head_end + 4);
  if (head->status == 101) {
    if (const std::string fault = upgrade_fault(*head, key, protocols); !fault.empty())
      return {.failure = {Failure::Kind::other, fault, "", true}};
    state.begin -= text.size();  // the bytes after the head are still in the buffer: they came last
    state.start_frames();
    return {.status = 101, .protocol = head->header("sec-websocket-protocol")};
  }
  std::optional<std::string> body;
  failure =
      state.gather(text, most_body, deadline, [&] { return (body = whole_body(*head, text)).has_value(); });
  return {.status = head->status, .body = body ? *body : text};  // a part of the body says something, too
}

Failure WebSocket::run(const Take& take, const Give& give) {
  State& state = *state_;
  state.take = &take;
  state.heard = state.pinged = Clock::now();
  while (true) {
    const Clock::time_point now = Clock::now();
    if (auto failure = state.over(now)) return *failure;
    const Dialed::Moved moved = state.fill();
    if (moved == Dialed::Moved::some) {
      if (Failure failure = state.parse(); failure.kind != Failure::Kind::none) return failure;
    }
    if (wslay_event_get_close_received(state.frames)) {
      (void)state.push([] { return std::string(); });  // the answer to the close, if there is room for it
      return {};
    }
    state.ping(now);
    const bool is_open = state.push(give);
    if (moved == Dialed::Moved::ended || !is_open) {
      const Failure failure = state.dialed.failure();
      return failure.kind == Failure::Kind::none ? Failure{Failure::Kind::broken, ""} : failure;
    }
    if (moved == Dialed::Moved::some) continue;
    state.dialed.wait(state.has_more ? Dialed::For::both : Dialed::For::receiving,
                      std::min(turn, state.times.ping));
  }
}

}  // namespace mlk::http
