// Tests a follower of logs while no caller takes its lines.

#include "cli/run/read/log_follower.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/kube/reflector.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/read/log_follower");

namespace {

constexpr int lines_in_log = 100'500;  // more than a follower holds

// A running pod whose log has more lines than a follower holds, and then stays open.
struct Chatty : mlk::test::FakeCluster {
  std::atomic<bool> said = false;

  // `ends`: the log closes after its lines, and the pod has ended.
  explicit Chatty(bool ends = false) {
    nlohmann::json pod = mlk::test::pod_of("x-abcde", ends ? "Succeeded" : "Running");
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-11-23T12:00:00Z"}}}}}}};
    if (ends) pod["status"]["containerStatuses"][0]["state"] = {{"terminated", {{"exitCode", 0}}}};
    store.create("pods", pod);
    before([this, ends](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (!request.path.ends_with("/log")) return std::nullopt;
      mlk::local::Answer answer;
      answer.content_type = "text/plain";
      answer.stream = [this, ends](const mlk::local::Sink& client) {
        std::string text;
        for (int i = 1; i <= lines_in_log; ++i)
          text += "2026-11-23T12:00:00.000000001Z line " + std::to_string(i) + "\n";
        client.write(text);
        said = true;
        while (!ends && client.alive()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      };
      return answer;
    });
  }
};

std::vector<nlohmann::json> pods_of(mlk::kube::Client& client) {
  return client.list(mlk::kube::resources::pods, "default").items;
}

}  // namespace

TEST_CASE("a lossy follower keeps the newest lines and does not hold up other requests") {
  Chatty cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunLogFollower follower(client, "default", {.lossy = true});
  follower.update(pods_of(client));
  eventually([&] { return cluster.said.load(); });
  std::vector<mlk::RunLogLine> lines;
  eventually([&] {
    CHECK_NOTHROW(pods_of(client));
    std::vector<mlk::RunLogLine> more = follower.take();
    lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return !lines.empty() && lines.back().text == "line " + std::to_string(lines_in_log);
  });
}

TEST_CASE("a lossy follower keeps the newest 100000 lines") {
  Chatty cluster(true);
  mlk::kube::Client client(cluster.config());
  mlk::RunLogFollower follower(client, "default", {.lossy = true});
  CHECK(follower.finished());
  const std::vector<nlohmann::json> pods = pods_of(client);
  CHECK(eventually([&] {
    follower.update(pods);
    return follower.finished();
  }));
  const std::vector<mlk::RunLogLine> lines = follower.take();
  REQUIRE(lines.size() == 100'000);
  CHECK(lines.front().text == "line 501");
  CHECK(lines.back().text == "line 100500");
  CHECK(lines.back().role == "worker");
  CHECK(lines.back().pod == "x-abcde-worker-0-abcde");
  CHECK(lines.back().uid == "uid-of-x-abcde-worker0");
  CHECK(follower.take().empty());
  CHECK(follower.problems().empty());
}

TEST_CASE("a follower that is not lossy returns all lines, in order") {
  Chatty cluster(true);
  mlk::kube::Client client(cluster.config());
  const std::vector<nlohmann::json> pods = pods_of(client);
  mlk::RunLogFollower follower(client, "default", {});
  follower.update(pods);
  std::size_t count = 0;
  bool in_order = true;
  CHECK(eventually([&] {
    const bool last = follower.finished();
    for (const mlk::RunLogLine& line : follower.take())
      in_order = in_order && line.text == "line " + std::to_string(++count);
    return last || count == lines_in_log;
  }));
  CHECK(count == lines_in_log);
  CHECK(in_order);
}

TEST_CASE("a full follower can be updated and destroyed even if nobody takes its lines") {
  Chatty cluster;
  mlk::kube::Client client(cluster.config());
  const std::vector<nlohmann::json> pods = pods_of(client);
  mlk::RunLogFollower follower(client, "default", {});
  follower.update(pods);
  CHECK(eventually([&] { return cluster.said.load(); }));
  follower.update(pods);
  CHECK_FALSE(follower.finished());
}

TEST_CASE("other watches of a client continue even if nobody takes the follower's lines") {
  Chatty cluster(true);
  mlk::kube::Client client(cluster.config());
  const std::vector<nlohmann::json> pods = pods_of(client);
  mlk::RunLogFollower follower(client, "default", {});
  follower.update(pods);
  REQUIRE(eventually([&] { return cluster.said.load(); }));

  std::atomic<int> changes = 0;
  mlk::kube::Reflector watch(client, mlk::kube::resources::config_maps, "default", {}, [&] { ++changes; });
  REQUIRE(eventually([&] { return watch.synced(); }));
  const int before = changes;
  cluster.ask("POST", mlk::test::config_maps_path, mlk::test::owner_of("y-abcde"));
  CHECK(eventually([&] { return changes > before; }));

  std::vector<mlk::RunLogLine> lines;
  CHECK(eventually([&] {
    follower.update(pods);
    const bool last = follower.finished();
    for (mlk::RunLogLine& line : follower.take()) lines.push_back(std::move(line));
    return last;
  }));
  REQUIRE(lines.size() == lines_in_log);
  CHECK(std::all_of(lines.begin(), lines.end(), [next = 0](const mlk::RunLogLine& line) mutable {
    return line.text == "line " + std::to_string(++next);
  }));
}

TEST_CASE("a follower reports a node's message about a log once") {
  mlk::test::FakeCluster cluster;
  std::atomic<int> asked = 0;
  nlohmann::json pod = mlk::test::pod_of("x-abcde", "Running");
  pod["spec"]["nodeName"] = "n1";
  pod["status"]["containerStatuses"] = {
      {{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-11-23T12:00:00Z"}}}}}}};
  cluster.store.create("pods", pod);
  std::atomic<bool> speaks = true;
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/log")) return std::nullopt;
    ++asked;
    if (!speaks) return mlk::test::refusal(500, "InternalError", "the node is away");
    mlk::local::Answer answer;
    answer.content_type = "text/plain";
    answer.body = "2026-11-23T12:00:00.000000001Z hello\nGone.\n";
    return answer;
  });
  mlk::kube::Client client(cluster.config());
  using When = mlk::RunLogFollower::When;
  const std::vector<nlohmann::json> pods = pods_of(client);
  {
    mlk::RunLogFollower follower(client, "default", {});
    follower.update(pods);
    CHECK(follower.unfinished() == std::set<std::string>{pods[0]["metadata"]["uid"]});
    std::vector<std::string> told;
    CHECK(eventually([&] {
      for (std::string& text : follower.new_warnings(When::going_on)) told.push_back(std::move(text));
      return !told.empty();
    }));
    CHECK(told == std::vector<std::string>{"node n1: it says of the log: Gone."});
    CHECK(follower.new_warnings(When::going_on).empty());
  }
  speaks = false;
  mlk::RunLogFollower follower(client, "default", {});
  follower.update(pods);
  CHECK(eventually([&] {
    follower.update(pods);
    return !follower.problems().empty();
  }));
  const std::vector<mlk::LogProblem> problems = follower.problems();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].pod == "x-abcde-worker-0-abcde");
  CHECK(problems[0].node == "n1");
  CHECK(follower.new_warnings(When::going_on).empty());  // the problem is too young to be reported
  const std::vector<std::string> at_end = follower.new_warnings(When::at_end);
  REQUIRE(at_end.size() == 1);
  CHECK(at_end[0].starts_with("no logs of x-abcde-worker-0-abcde on node n1: "));
  CHECK(follower.new_warnings(When::at_end).empty());
  CHECK_FALSE(follower.finished());
}
