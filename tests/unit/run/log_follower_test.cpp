// Following logs that nobody takes from the follower for a while.

#include "cli/run/log_follower.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "tests/unit/fake_cluster.h"

namespace {

constexpr int lines_in_log = 100'500;  // more than a follower holds

// A running pod whose log says more than a follower holds, and then stays open.
struct Chatty : mlk::test::FakeCluster {
  std::atomic<bool> said = false;

  Chatty() {
    nlohmann::json pod = mlk::test::pod_of("x-abcde", "Running");
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-11-23T12:00:00Z"}}}}}}};
    store.create("pods", pod);
    before([this](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (!request.path.ends_with("/log")) return std::nullopt;
      mlk::local::Answer answer;
      answer.content_type = "text/plain";
      answer.stream = [this](const mlk::local::Sink& client) {
        std::string text;
        for (int i = 1; i <= lines_in_log; ++i)
          text += "2026-11-23T12:00:00.000000001Z line " + std::to_string(i) + "\n";
        client.write(text);
        said = true;
        while (client.alive()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      };
      return answer;
    });
  }
};

std::vector<nlohmann::json> pods_of(mlk::kube::Client& client) {
  return client.list(mlk::kube::resources::pods, "default").items;
}

}  // namespace

TEST_CASE("a follower that may lose lines never holds up other requests, and keeps the newest lines") {
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
