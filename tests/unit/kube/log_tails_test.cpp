#include "cli/kube/log_tails.h"

#include <map>

#include <doctest/doctest.h>

#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/log_tails");

namespace mlk::kube {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string line = "2026-11-21T07:40:25Z text\n";

// A server with logs that the test writes, and the answers in the order of their arrival.
struct Tails {
  std::map<std::string, std::pair<int, std::string>> logs;  // by pod: the status, and the text
  FakeServer server;
  std::vector<std::pair<std::string, TailAnswer>> taken;

  Tails() {
    server.http->Get(R"(/api/v1/namespaces/lab/pods/(.+)/log)",
                     [this](const httplib::Request& request, httplib::Response& response) {
                       if (request.matches[1] == "silent") server.hang();
                       const auto& [status, text] = logs.at(request.matches[1]);
                       response.status = status;
                       response.set_content(text, "text/plain");
                     });
  }
  LogTails::Take noted(const std::string& pod) {
    return [this, pod](const TailAnswer& answer) { taken.emplace_back(pod, answer); };
  }
  TailAnswer answer(int status, const std::string& text, int lines, std::size_t bytes) {
    logs["p"] = {status, text};
    Client client(server.start());
    LogTails tails(client, "lab");
    tails.add({.pod = "p", .lines = lines, .bytes = bytes}, noted("p"));
    tails.read(Clock::now() + 20s);
    REQUIRE(taken.size() == 1);
    return taken.front().second;
  }
};

TEST_CASE("an answer is `whole` below the limits of lines and bytes, and `cut_off` at the limit of bytes") {
  struct Row {
    int lines;
    std::size_t bytes;
    bool whole, cut_off;
  };
  const std::size_t two = 2 * line.size();
  for (const Row& row :
       {Row{3, two + 1, true, false}, Row{2, two + 1, false, false}, Row{1, two + 1, false, false},
        Row{3, two, false, true}, Row{3, two - 1, false, true}}) {
    const TailAnswer answer = Tails().answer(200, line + line, row.lines, row.bytes);
    CHECK(answer.status == 200);
    CHECK(answer.lines.size() == (row.cut_off ? 1 : 2));  // without the line that may be cut in two
    CHECK(answer.whole == row.whole);
    CHECK(answer.cut_off == row.cut_off);
  }
}

TEST_CASE("an answer that is cut within its first line has no lines") {
  for (const std::string text : {"2026-11-21T07:4", "2026-11-21T07:40:25Z loss=0.1"}) {
    const TailAnswer answer = Tails().answer(200, text, 3, text.size());
    CHECK(answer.lines.empty());
    CHECK(answer.cut_off);
    CHECK_FALSE(answer.whole);
  }
}

TEST_CASE("an answer has no lines if its status is not 200") {
  for (const int status : {400, 404, 500}) {
    const TailAnswer answer = Tails().answer(status, line, 3, 1000);
    CHECK(answer.status == status);
    CHECK(answer.lines.empty());
    CHECK_FALSE(answer.whole);
    CHECK_FALSE(answer.cut_off);
  }
}

TEST_CASE("the receiver of a log may request further logs, and a silent log does not delay other logs") {
  Tails logs;
  logs.logs = {{"a", {200, line}}, {"b", {200, line}}};
  Client client(logs.server.start());
  LogTails tails(client, "lab");
  tails.add({.pod = "silent", .lines = 1, .bytes = 1000}, logs.noted("silent"));
  tails.add({.pod = "a", .lines = 1, .bytes = 1000}, [&](const TailAnswer& answer) {
    logs.noted("a")(answer);
    tails.add({.pod = "b", .lines = 1, .bytes = 1000}, logs.noted("b"));
  });
  tails.read(Clock::now() + 1s);
  REQUIRE(logs.taken.size() >= 2);  // the silent log may give a third answer just before the deadline
  CHECK(logs.taken[0].first == "a");
  CHECK(logs.taken[1].first == "b");
  logs.taken.clear();
  tails.read(Clock::now() + 1s);  // read() dropped the remaining logs at the deadline
  CHECK(logs.taken.empty());
}

TEST_CASE("the answer for a log has the status 0 if the server cannot be reached") {
  Tails logs;
  Config config = logs.server.start();
  logs.server.http->stop();
  Client client(config);
  LogTails tails(client, "lab");
  tails.add({.pod = "p", .lines = 1, .bytes = 1000}, logs.noted("p"));
  tails.read(Clock::now() + 20s);
  REQUIRE(logs.taken.size() == 1);
  CHECK(logs.taken.front().second.status == 0);
}

}  // namespace
}  // namespace mlk::kube
