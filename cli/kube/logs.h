// Logs of containers: read once, or followed over breaks, restarts and silence.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/util/time.h"

namespace mlk::kube {

struct LogLine {
  Time time;  // when the node took it, by the node's clock
  std::string text;
};

struct LogOptions {
  std::string container{};  // empty: the only one
  std::optional<int> tail_lines{};
  std::optional<std::chrono::seconds> since{};
  bool previous = false;  // of the container's last incarnation
  std::optional<std::size_t> limit_bytes{};
};

// What the log holds now. Throws ApiError: status 400 while the container has not started, 404 without the
// pod.
std::vector<LogLine> read_log(Client& client, const std::string& name_space, const std::string& pod,
                              const LogOptions& options = {});

// The same in two parts, for those who ask for many logs at once.
Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options);
std::vector<LogLine> parse_log(std::string_view body);  // without what the kubelet_said()

// What a terminal would show of a line that rewrites itself, as progress bars do: what follows the last '\r'.
std::string_view last_rewrite(std::string_view line);

// "2026-11-21T07:40:25.348347988Z text"; nullopt without a time in front. Pure.
std::optional<LogLine> parse_log_line(std::string_view line);

// A line without a time is none of the program's: the kubelet says there why it cannot go on, with status
// 200.
// What it means, for people: follows "node n1: " or so.
std::string kubelet_said(std::string_view line);
bool lacks_inotify(std::string_view line);  // the node can start no more followers: its logs are polled

// Where in a log we are, by stern's rule: the server can only be asked from a whole second on, so we count
// the lines that we have from the last line's second on, and skip as many when we come back. Those may be of
// later seconds too: a node's clock can be set back. Pure.
class LogPosition {
 public:
  // False for a line that was seen before.
  [[nodiscard]] bool take(const LogLine& line);
  void resume();                      // the next lines come from a new request
  std::optional<Time> since() const;  // for that request: the second to start from
  // Of the lines that we had fewer came again: the node has rotated the log, and others may be lost.
  bool was_cut() const { return was_cut_; }
 private:
  std::optional<Time> second_;  // of the last line
  std::map<Time, long> seen_;   // lines of each second; of the latest ones
  long to_skip_ = 0;            // of those that come again
  bool was_cut_ = false;
};

struct LogTimes {
  std::chrono::milliseconds first_wait{500}, longest_wait{10'000};  // between attempts
  std::chrono::milliseconds answer{30'000};  // until the head of a log that is not followed
  std::chrono::milliseconds poll{1'000};     // of a node that cannot follow
  std::chrono::milliseconds follow_again{60'000};  // the same node, tried again
  std::chrono::milliseconds silence{
      300'000};                             // a stream without a line is opened anew: some die without a sign
  std::chrono::milliseconds linger{3'000};  // the same for a container that has ended
};

// Follows one container of one pod. Driven by the pod's status, as the end of a stream says nothing: streams
// end at time-outs of what lies between, and do not go on to a restarted container.
class LogFollower {
 public:
  struct Start {
    std::optional<int> tail_lines{};
    std::optional<std::chrono::seconds> since{};
  };

  // Who takes the lines. Both run on the client's loop thread and must not wait; `room` also in update().
  struct Reader {
    std::function<void(const LogLine&)> line;  // in the order of the log
    // Whether one more line may come. After a no the log is let go; resume() and update() go on from there
    // after a yes. Empty: always.
    std::function<bool()> room{};
  };

  // The client must outlive the follower.
  LogFollower(Client& client, std::string name_space, std::string pod, std::string container, Start start,
              Reader reader, LogTimes times = {});
  ~LogFollower();  // no callback runs after it
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  // Call with the pod as it is now after every change of it, and about once a second: opens and reopens what
  // is due. Does not wait. From one thread at a time, never from within a callback.
  void update(const json& pod);
  // After lines were taken: goes on with a log that was let go, if there is room. As update() otherwise.
  void resume();
  // The container has ended and its last line was delivered, or its log cannot be had any more.
  [[nodiscard]] bool finished() const;
  // Why there is nothing to see, for people; empty when all is well. The same for all pods that suffer from
  // one cause.
  std::string problem() const;
  // What its node says of the log, each sentence once: why lines come late, or are missing.
  std::vector<std::string> notes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::kube
