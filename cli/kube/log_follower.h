// Follows the log of a container, also after broken connections, restarts and silence.
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
  std::chrono::milliseconds first_wait{500}, longest_wait{10'000};  // the wait between two attempts
  std::chrono::milliseconds answer{30'000};  // for the head of the answer, if mlk does not follow the log
  std::chrono::milliseconds poll{1'000};     // polling interval for a node that cannot follow logs
  std::chrono::milliseconds follow_again{60'000};  // after this time, mlk asks the node again to follow
  // During this time, a refusal is not final: after its start, an API server refuses everything until it has
  // read the roles (403), and a kubelet does not know its pods until it has read them (404).
  std::chrono::milliseconds refusal{30'000};
  std::chrono::milliseconds silence{300'000};  // a stream that is silent so long may be dead; it is reopened
  std::chrono::milliseconds linger{3'000};     // the limit of silence after the container has ended
};

// Follows one container of one pod. The follower relies on the pod's status, because the end of a stream does
// not mean the end of the log. Proxies end streams at their time-outs, and a stream does not continue into a
// restarted container.
class LogFollower {
 public:
  struct Start {
    std::optional<int> tail_lines{};
    std::optional<std::chrono::seconds> since{};
  };

  // The receiver of the lines. Both functions run on the client's loop thread and must not wait; update() and
  // resume() also call `room`.
  struct Reader {
    std::function<void(const LogLine&)> line;  // in the order of the log
    // Returns whether there is room for one more line. If not, the follower closes the log; resume() and
    // update() continue at the same line when there is room again. Empty: always true.
    std::function<bool()> room{};
  };

  // The client must outlive the follower.
  LogFollower(Client& client, std::string name_space, std::string pod, std::string container, Start start,
              Reader reader, LogTimes times = {});
  ~LogFollower();  // no callback runs after it
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  // Opens and reopens streams that are due. Call it with the current pod after every change of the pod, and
  // about once a second. Does not wait. Call it from one thread at a time, never from within a callback.
  void update(const json& pod);
  // Continues a log that was closed for lack of room, if there is room again. The rules of update() apply.
  void resume();
  // True if the container has ended and its last line was delivered, or if no more of its log can be read.
  [[nodiscard]] bool finished() const;
  // The reason why no lines come, for people; empty if there is no problem. The text is the same for all pods
  // with the same cause.
  std::string problem() const;
  // Sentences that say why lines of the log come late or are missing, for people. Each sentence comes once.
  // There are at most 20 sentences.
  std::vector<std::string> notes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::kube
