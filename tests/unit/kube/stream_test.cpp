#include <atomic>
#include <mutex>
#include <optional>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/stream");

using namespace mlk::kube;
using std::chrono::milliseconds;

namespace {

// The lines and the end of a stream; the loop's thread writes them.
struct Collected {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::optional<StreamEnd> end;

  std::function<void(std::string_view)> on_line() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
  }
  std::function<void(StreamEnd)> on_end() {
    return [this](StreamEnd how) {
      const std::lock_guard lock(mutex);
      end = std::move(how);
    };
  }
  bool ended() {
    const std::lock_guard lock(mutex);
    return end.has_value();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
};

std::string chunked(const std::vector<std::string>& chunks, bool complete) {
  std::string out = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& chunk : chunks) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", chunk.size());
    out += size + chunk + "\r\n";
  }
  return complete ? out + "0\r\n\r\n" : out;
}

// Sends lines for ever.
void endless(FakeServer& server) {
  server.http->Get(".*", [&](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [&](std::size_t, httplib::DataSink& sink) {
      std::this_thread::sleep_for(milliseconds(1));
      return !server.stopping && sink.write("line\n", 5);
    });
  });
}

}  // namespace

TEST_CASE("a stream delivers whole lines from pieces that the network has cut") {
  RawServer server([](int, const std::string&) { return chunked({"o", "ne\ntw", "o\n\nth", "ree"}, true); });
  Client client(server.config());
  Collected got;
  std::atomic<int> opened = 0;
  const auto stream =
      client.stream({.path = "/x"}, got.on_line(), got.on_end(), [&](int status) { opened = status; });
  REQUIRE(eventually([&] { return got.ended(); }));
  CHECK(got.lines == std::vector<std::string>{"one", "two", "", "three"});
  CHECK(got.end->status == 200);
  CHECK(got.end->error.empty());
  CHECK(opened == 200);
}

TEST_CASE("a broken stream ends with an error and does not deliver half a line") {
  RawServer server([](int, const std::string&) { return chunked({"one\ntw"}, false); });
  Client client(server.config());
  Collected got;
  const auto stream = client.stream({.path = "/x"}, got.on_line(), got.on_end());
  REQUIRE(eventually([&] { return got.ended(); }));
  CHECK(got.lines == std::vector<std::string>{"one"});
  CHECK(got.end->status == 0);
  CHECK_FALSE(got.end->error.empty());
}

TEST_CASE("if a stream is refused, it ends with the status and the body of the answer") {
  FakeServer server;
  server.http->Get(
      ".*", [](const auto&, auto& response) { answer(response, 410, status_body(410, "Gone", "too old")); });
  Client client(server.start());
  Collected got;
  const auto stream = client.stream({.path = "/x"}, got.on_line(), got.on_end());
  REQUIRE(eventually([&] { return got.ended(); }));
  CHECK(got.lines.empty());
  CHECK(got.end->status == 410);
  CHECK(got.end->body.find("too old") != std::string::npos);
}

TEST_CASE("a line over 16 MiB ends the stream") {
  RawServer server(
      [](int, const std::string&) { return chunked({"ok\n", std::string(17u << 20, 'x')}, true); });
  Client client(server.config());
  Collected got;
  const auto stream = client.stream({.path = "/x"}, got.on_line(), got.on_end());
  REQUIRE(eventually([&] { return got.ended(); }));
  CHECK(got.count() == 1);
  CHECK(got.end->status == 0);
  CHECK(got.end->error.find("a line of more than 16 MiB") != std::string::npos);
}

TEST_CASE("a stream fails if the answer does not begin in time, but may be silent afterwards") {
  FakeServer server;
  server.http->Get("/silent", [&](const auto&, auto&) { server.hang(); });
  server.http->Get("/quiet", [&](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json",
                                          [&](std::size_t offset, httplib::DataSink& sink) {
                                            if (offset == 0) return sink.write("first\n", 6);
                                            std::this_thread::sleep_for(milliseconds(2500));
                                            return sink.write("second\n", 7) && (sink.done(), true);
                                          });
  });
  Client client(server.start());
  Collected silent, quiet;
  const auto one =
      client.stream({.path = "/silent", .timeout = milliseconds(300)}, silent.on_line(), silent.on_end());
  const auto two =
      client.stream({.path = "/quiet", .timeout = milliseconds(2000)}, quiet.on_line(), quiet.on_end());
  REQUIRE(eventually([&] { return silent.ended() && quiet.ended(); }));
  CHECK(silent.end->error.find("no answer within 0.3 s") != std::string::npos);
  CHECK(quiet.end->status == 200);
  CHECK(quiet.lines == std::vector<std::string>{"first", "second"});
}

TEST_CASE("no callback runs after a stream has been destroyed") {
  FakeServer server;
  endless(server);
  Client client(server.start());
  for (int i = 0; i < 20; ++i) {
    auto count = std::make_unique<std::atomic<int>>(0);
    auto stream = client.stream(
        {.path = "/x"}, [&count](std::string_view) { ++*count; }, [](StreamEnd) { FAIL("ended"); });
    if (i % 2 == 0) REQUIRE(eventually([&] { return *count > 0; }));
    stream.reset();
    count.reset();  // a late callback would now use freed memory
  }
}

TEST_CASE("a stream may be destroyed in its own callback") {
  FakeServer server;
  endless(server);
  Client client(server.start());
  std::unique_ptr<Stream> stream;
  std::mutex mutex;
  std::atomic<int> lines = 0;
  {
    const std::lock_guard lock(mutex);
    stream = client.stream(
        {.path = "/x"},
        [&](std::string_view) {
          const std::lock_guard guard(mutex);
          ++lines;
          stream.reset();
        },
        [](StreamEnd) {});
  }
  REQUIRE(eventually([&] { return lines > 0; }));
  client.send({.method = "PUT", .path = "/nothing"});  // the loop still works
  CHECK(lines == 1);
}

TEST_CASE("a stream calls no more callbacks if its client has been destroyed") {
  FakeServer server;
  endless(server);
  std::unique_ptr<Stream> stream;
  std::atomic<int> lines = 0;
  std::atomic<bool> ended = false;
  {
    Client client(server.start());
    stream =
        client.stream({.path = "/x"}, [&](std::string_view) { ++lines; }, [&](StreamEnd) { ended = true; });
    REQUIRE(eventually([&] { return lines > 0; }));
  }
  const int before = lines;
  std::this_thread::sleep_for(milliseconds(50));
  CHECK(lines == before);
  CHECK_FALSE(ended);
}

TEST_CASE("one client can run many streams at the same time") {
  FakeServer server;
  endless(server);
  Client client(server.start());
  std::vector<std::atomic<int>> counts(20);
  std::vector<std::unique_ptr<Stream>> streams;
  for (auto& count : counts) {
    streams.push_back(
        client.stream({.path = "/x"}, [&count](std::string_view) { ++count; }, [](StreamEnd) {}));
  }
  CHECK(eventually([&] {
    return std::all_of(counts.begin(), counts.end(), [](const auto& count) { return count > 3; });
  }));
}
