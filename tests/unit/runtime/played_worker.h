// A worker that the test plays before a server under test, and the messages of both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/runtime/ps_processes.h"

namespace mlk::test {

inline const std::vector<rt::TensorInfo> served_tensors = {{"w", {2, 2}, 0, 4}, {"b", {2}, 4, 2}};

inline rt::Header seed_header(std::uint32_t chunk, std::uint64_t clock, std::uint64_t round,
                              std::uint8_t flags = 0) {
  rt::Header header;
  header.type = rt::MessageType::seed;
  header.key = chunk;
  header.clock = clock;
  header.offset = round;
  header.flags = flags;
  return header;
}

inline rt::Header push_header(std::uint32_t chunk, std::uint64_t clock, std::uint64_t offset) {
  rt::Header header;
  header.type = rt::MessageType::push;
  header.key = chunk;
  header.clock = clock;
  header.offset = offset;
  return header;
}

// The offset of a push with sync, for a slice of `samples` samples.
inline std::uint64_t slice_of(std::uint64_t slice, std::uint64_t samples) { return slice << 32 | samples; }

inline rt::Bytes join_payload(const rt::JoinMessage& join) { return rt::encode(join); }

// A worker that the test plays.
struct PlayedWorker : PlayedProcess {
  explicit PlayedWorker(std::uint32_t rank, std::uint64_t at = 1)
      : PlayedProcess({rt::Role::worker, rank}, "127.0.0.1:0", at) {}

  void join(std::uint64_t clock = 0, std::vector<rt::TensorInfo> tensors = served_tensors) {
    rt::JoinMessage message;
    message.position = 10 * clock;
    message.tensors = std::move(tensors);
    say(rt::MessageType::join, clock, 0, 0, 0, join_payload(message));
  }
  void ready() { say(rt::MessageType::ready, 0, 0, 0, 0, rt::encode(rt::ReadyMessage())); }
  void done(std::uint64_t clock, std::uint32_t slice, double loss = 0) {
    say(rt::MessageType::ready, 0, 0, 0, 0, rt::encode(rt::ReadyMessage{true, clock, slice, loss, 0.25, 0}));
  }
  rt::WorkMessage hear_work(std::uint64_t clock, std::uint32_t slice) {
    const rt::Event event = hear(rt::MessageType::work);
    CHECK(event.header.clock == clock);
    CHECK(event.header.key == slice);
    generation = event.header.generation;
    const auto work = rt::decode_work(event.payload);
    REQUIRE(work);
    return *work;
  }
  void hear_accepted(std::uint32_t chunk, std::uint64_t clock, std::uint8_t flags) {
    const rt::Header header = hear(rt::MessageType::accepted).header;
    CHECK(header.key == chunk);
    CHECK(header.clock == clock);
    CHECK(header.flags == flags);
  }
  void hear_weights(std::uint32_t chunk, std::uint64_t clock, std::uint64_t version, const Numbers& values) {
    rt::Header header;
    const Numbers heard = hear_floats(rt::MessageType::weights, &header);
    CHECK(header.key == chunk);
    CHECK(header.clock == clock);
    CHECK(header.offset == version);
    CHECK(header.generation == generation);
    REQUIRE(heard.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(heard[i] == doctest::Approx(values[i]));
  }
  // Seeds this server with the weights 1 2 3 4 and 5 6.
  void seed_all(std::uint64_t clock = 0) {
    const rt::Header wanted = hear(rt::MessageType::seed_wanted).header;
    CHECK(wanted.key == 0);
    say_floats(seed_header(0, clock, wanted.clock), Numbers{1, 2, 3, 4});
    say_floats(seed_header(1, clock, wanted.clock), Numbers{5, 6});
  }
  void hear_finish(const std::string& result) {
    CHECK(rt::PayloadReader(hear(rt::MessageType::finish).payload).text() == result);
  }
  void report(const std::string& result) {
    say(rt::MessageType::reported, 0, 0, 0, 0, rt::PayloadWriter().text(result).bytes());
  }
};

// Server 0 as the only server, and its workers.
struct LoneServer {
  PsProcess server;
  std::vector<std::unique_ptr<PlayedWorker>> workers;

  explicit LoneServer(int count, bool sync = true) : server({rt::Role::server, 0}, count, 1) {
    server.config.consistency.sync = sync;
  }
  PlayedWorker& come(std::uint32_t rank, std::uint64_t incarnation = 1) {
    workers.push_back(std::make_unique<PlayedWorker>(rank, incarnation));
    workers.back()->dial(server);
    return *workers.back();
  }
  // All workers leave, then the server is told to stop.
  void stop() {
    for (const auto& worker : workers) worker->end(rt::ExitCode::terminated);
    server.request_stop();
    CHECK(server.end() == ProcessEnd{rt::ExitCode::terminated, ""});
    CHECK(server.result().find(R"("done":false,"message":"terminated")") != std::string::npos);
  }
};

}  // namespace mlk::test
