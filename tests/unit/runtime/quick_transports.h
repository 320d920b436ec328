// Transports on loopback with short waits, the lines that they log, and messages for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/transport/transport.h"

namespace mlk::test {

inline constexpr rt::PeerId worker0{rt::Role::worker, 0}, worker1{rt::Role::worker, 1},
    server0{rt::Role::server, 0};

// The lines that transports log.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;
  rt::Transport::LogLine sink() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
  }
  std::size_t containing(const std::string& text) {
    const std::lock_guard lock(mutex);
    std::size_t count = 0;
    for (const auto& line : lines) count += line.find(text) != std::string::npos;
    return count;
  }
};

inline rt::TransportOptions quick() {
  rt::TransportOptions options;
  options.heartbeat = rt::Milliseconds(50);
  options.suspect_after = rt::Milliseconds(400);
  options.handshake_timeout = rt::Milliseconds(300);
  options.retry_max = rt::Milliseconds(100);
  return options;
}

inline std::unique_ptr<rt::Transport> make(rt::PeerId id, std::uint64_t incarnation, Lines& lines,
                                           char key = 'a', rt::TransportOptions options = quick(),
                                           std::string address = "127.0.0.1:0") {
  return std::make_unique<rt::Transport>(rt::Identity{"run", id, incarnation, address},
                                         rt::parse_key(std::string(64, key)), options, lines.sink());
}

// The next event of a kind; skips events before it. Fails the test after 10 s.
inline rt::Event next(rt::Transport& transport, rt::Event::Kind kind) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (auto event = transport.receive(deadline)) {
    if (event->kind == kind) return *event;
  }
  FAIL("the event did not come");
  return {};
}

inline rt::Header push(std::uint32_t key, std::uint64_t clock = 0) {
  rt::Header header;
  header.type = rt::MessageType::push;
  header.key = key;
  header.clock = clock;
  return header;
}

}  // namespace mlk::test
