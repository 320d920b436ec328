// Follows the log of a container, over breaks, restarts and silence.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/kube/objects.h"

namespace mlk::kube {

struct LogTimes {
  std::chrono::milliseconds first_wait{500}, longest_wait{10'000};  // between attempts
  std::chrono::milliseconds answer{30'000};        // until the head of a log that is not followed
  std::chrono::milliseconds poll{1'000};           // of a node that cannot follow
  std::chrono::milliseconds follow_again{60'000};  // the same node, tried again
  // An API server that has just started answers everything with 403 until it has read the roles.
  std::chrono::milliseconds refusal{30'000};
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
