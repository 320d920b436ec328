#include "cli/kube/exec.h"

#include <doctest/doctest.h>

#include "tests/unit/kube/exec_server.h"

TEST_SUITE_BEGIN("kube/exec");

using namespace mlk::kube;

namespace {

struct Ran {
  ExecEnd end{};
  std::string out{}, err{}, error{}, hint{}, reason{};
  int status = 0;
};

Ran run_on(const Config& config, const std::string& input = "", mlk::http::WebSocketTimes times = {}) {
  Client client(config);
  Ran ran;
  try {
    ran.end = exec(
        client, {"ns", "worker-0", "main", {"cat", "a;b c"}, input}, [&](auto text) { ran.out += text; },
        [&](auto text) { ran.err += text; }, [] { return true; }, times);
  } catch (const ApiError& error) {
    ran.error = error.what();
    ran.hint = error.hint();
    ran.reason = error.reason();
    ran.status = error.status();
  }
  return ran;
}

Ran run(const std::function<void(ExecPeer&)>& script, const std::string& input = "",
        mlk::http::WebSocketTimes times = {}) {
  const ExecServer server(script);
  return run_on(server.config, input, times);
}

bool has_words(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

std::string echo(ExecPeer& peer, std::size_t wanted) {
  std::string all;
  while (all.size() < wanted) {
    const auto message = peer.hear();
    if (!message) return all;
    CHECK(message->size() <= (32u << 10) + 1);
    CHECK(message->front() == 0);
    all += message->substr(1);
    peer.say(1, message->substr(1));
  }
  return all;
}

}  // namespace

TEST_CASE("exec() delivers stdout and stderr, and returns the exit code of the command") {
  for (const int code : {3, 137}) {
    const Ran ran = run([&](ExecPeer& peer) {
      peer.accept();
      peer.say(1, "one ");
      peer.say(2, "warned");
      peer.say(1, "two");
      peer.exit(code);
    });
    CHECK(ran.error == "");
    CHECK(ran.out == "one two");
    CHECK(ran.err == "warned");
    CHECK(ran.end.code == code);
  }
  CHECK(run([](ExecPeer& peer) {
          peer.accept();
          peer.succeed();
        }).end.code == 0);
}

TEST_CASE("the request of exec() names the words of the command, the container and the channels") {
  std::string head;
  run([&](ExecPeer& peer) {
    head = peer.head;
    peer.accept();
    peer.succeed();
  });
  CHECK(
      head.starts_with("GET /api/v1/namespaces/ns/pods/worker-0/exec?command=cat&command=a%3Bb%20c&"
                       "container=main&stdout=true&stderr=true HTTP/1.1\r\n"));
  CHECK(has_words(head, "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n"));
  CHECK(has_words(head, "\r\nHost: 127.0.0.1:"));
}

TEST_CASE("exec() sends the whole input and receives at the same time; version 5 closes stdin") {
  const std::string input(1 << 20, 'x');
  std::string closing;
  const Ran ran = run(
      [&](ExecPeer& peer) {
        peer.accept();
        CHECK(echo(peer, input.size()) == input);
        closing = peer.hear().value_or("lost");
        peer.succeed();
      },
      input);
  CHECK(ran.error == "");
  CHECK(ran.out == input);
  CHECK(closing == std::string("\xff\0", 2));
}

TEST_CASE("with version 4 exec() sends the input, and nothing after it") {
  const std::string input(100'000, 'y');
  const Ran ran = run(
      [&](ExecPeer& peer) {
        peer.accept("v4.channel.k8s.io");
        echo(peer, input.size());
        peer.exit(3);
        CHECK_FALSE(peer.hear());  // the answer to the close comes first
      },
      input);
  CHECK(ran.out == input);
  CHECK(ran.end.code == 3);
}

TEST_CASE("a connection that ends before the exit code is an error that says so") {
  const Ran ran = run([](ExecPeer& peer) {
    peer.accept();
    peer.say(1, "half");
  });
  CHECK(ran.out == "half");
  CHECK(ran.reason == "Unreachable");
  CHECK(has_words(ran.error, "the connection was lost before the command ended"));
}

TEST_CASE("a server that goes silent ends exec() with an error") {
  const Ran ran = run(
      [](ExecPeer& peer) {
        peer.accept();
        peer.hang();
      },
      "", {.ping = std::chrono::milliseconds(20), .silent = std::chrono::milliseconds(200)});
  CHECK(ran.reason == "Unreachable");
  CHECK(has_words(ran.error, "silent"));
}

TEST_CASE("a server that only answers pings is not silent") {
  const Ran ran = run(
      [](ExecPeer& peer) {
        peer.accept();
        std::thread later([&] {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          peer.succeed();
        });
        peer.hear();
        later.join();
      },
      "", {.ping = std::chrono::milliseconds(20), .silent = std::chrono::seconds(2)});
  CHECK(ran.error == "");
}

TEST_CASE("an answer other than 101 becomes the error of the server") {
  const std::string body =
      R"({"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":)"
      R"("pods \"worker-0\" is forbidden: User \"u\" cannot create resource \"pods/exec\" in API group \"\""})";
  for (const bool chunked : {false, true}) {
    const Ran ran = run([&](ExecPeer& peer) {
      char size[16];
      std::snprintf(size, sizeof size, "%zx", body.size());
      peer.send(chunked ? "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(size) +
                              "\r\n" + body + "\r\n0\r\n\r\n"
                        : "HTTP/1.1 403 Forbidden\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body);
      peer.hang();
    });
    CHECK(ran.status == 403);
    CHECK(ran.reason == "Forbidden");
    CHECK(has_words(ran.error, "cannot create resource \"pods/exec\""));
    CHECK(has_words(ran.hint, "permission"));
  }
}

TEST_CASE("exec() refuses an acceptance that is not for its own request, or of an unknown protocol") {
  CHECK(has_words(run([](ExecPeer& peer) {
                    std::string answer = peer.acceptance("v5.channel.k8s.io");
                    answer.insert(answer.find("Accept: ") + 8, "x");
                    peer.send(answer);
                  }).error,
                  "does not belong to our key"));
  CHECK(has_words(run([](ExecPeer& peer) { peer.accept("v9"); }).error, "mlk did not offer"));
}

TEST_CASE("the head of an answer may come in parts, and has a maximum size") {
  const Ran parts = run([](ExecPeer& peer) {
    for (const char c : peer.acceptance("v5.channel.k8s.io") + ExecPeer::frame(2, "\1hello"))
      peer.send(std::string(1, c));
    peer.succeed();
  });
  CHECK(parts.error == "");
  CHECK(parts.out == "hello");
  const Ran endless = run([](ExecPeer& peer) {
    peer.send("HTTP/1.1 101 Switching Protocols\r\n");
    while (peer.send("X-More: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  CHECK(has_words(endless.error, "more than 64 KiB"));
}

TEST_CASE("exec() refuses a message of more than 16 MiB") {
  const Ran ran = run([](ExecPeer& peer) {
    peer.accept();
    peer.say(1, std::string(17 << 20, 'z'));
    peer.hang();
  });
  CHECK(has_words(ran.error, "more than 16 MiB"));
}

TEST_CASE("exec() streams 100 MB") {
  std::size_t came = 0;
  const ExecServer server([](ExecPeer& peer) {
    peer.accept();
    const std::string part(32 << 10, 'p');
    for (int i = 0; i < 3200; ++i) peer.say(1, part);
    peer.succeed();
  });
  Client client(server.config);
  const ExecEnd end = exec(
      client, {"ns", "p", "", {"cat"}, ""}, [&](auto text) { came += text.size(); }, [](auto) {},
      [] { return true; });
  CHECK(end.code == 0);
  CHECK(came == 3200u * (32u << 10));
}

TEST_CASE("exec() ends when go_on() says so, and passes exceptions of its callbacks through") {
  const ExecServer server([](ExecPeer& peer) {
    peer.accept();
    peer.say(1, "x");
    peer.hear();
  });
  Client client(server.config);
  const ExecCommand command{"ns", "p", "", {"sleep"}, ""};
  bool goes_on = true;
  CHECK_THROWS_WITH_AS(
      (void)exec(
          client, command, [&](auto) { goes_on = false; }, [](auto) {}, [&] { return goes_on; }),
      "exec in pod p in namespace ns was ended", ApiError);
  CHECK_THROWS_AS(
      (void)exec(
          client, command, [](auto) { throw std::runtime_error("full"); }, [](auto) {}, [] { return true; }),
      std::runtime_error);
}
