// Sends further requests for facts that the objects of a run do not show: the state of the nodes of its pods,
// the last words of a failed container other than `main`, and whether the Service of a live run exists. The
// status of a pod has no last words of injected containers, and lacks words that came after the kubelet had
// read the log. A missing Secret needs no request: the kubelet of each pod that needs it reports this.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunObjects;

class SideReads {
 public:
  // `runs`: many runs, without requests about their Services.
  enum class Scope { one_run, runs };

  // The client must outlive this object.
  SideReads(kube::Client& client, std::string name_space, Scope scope,
            std::chrono::milliseconds ask_node_again = std::chrono::seconds(3));
  ~SideReads();
  SideReads(const SideReads&) = delete;
  SideReads& operator=(const SideReads&) = delete;

  // Adds the known answers to the objects, and sends requests for the unknown ones. Does not wait. Asks again
  // after 3 s about a doubtful node, after 1 s about a log that may still get lines, and after 30 s about a
  // Service (except if the Service exists and all ranks run). Call it from one thread.
  void poll(RunObjects& objects);

  // As poll(), but waits for the answers, at most for `budget`.
  void wait(const std::vector<RunObjects*>& runs,
            std::chrono::milliseconds budget = std::chrono::milliseconds(1500));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
