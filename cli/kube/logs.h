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
  Time time;         // when the node took it, by the node's clock
  std::string text;  // as a terminal would leave it, with colours (program_line())
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
std::vector<LogLine> parse_log(std::string_view body);

// "2026-11-21T07:40:25.348347988Z text"; nullopt without a time in front. Pure.
std::optional<LogLine> parse_log_line(std::string_view line);

// Where in a log we are, by stern's rule: the server can only be asked from a whole second on, so we count
// the lines that we have from the last line's second on, and skip as many when we come back. Those may be of
// later seconds too: a node's clock can be set back. Pure.
class LogPosition {
 public:
  // False for a line that was seen before. Lines without a time belong to the second of the one before.
  [[nodiscard]] bool take(LogLine& line, bool has_time);
  void resume();                      // the next lines come from a new request
  std::optional<Time> since() const;  // for that request: the second to start from
 private:
  std::optional<Time> second_;  // of the last line
  std::map<Time, long> seen_;   // lines of each second; of the latest ones
  long to_skip_ = 0;            // of those that come again
};

struct LogTimes {
  std::chrono::milliseconds first_wait{500}, longest_wait{30'000};  // between attempts
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
  // Why there is nothing to see, for people; empty when all is well.
  std::string problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::kube
