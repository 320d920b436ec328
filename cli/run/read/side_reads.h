// What the objects of a run leave open and a request more answers: whether the nodes of its pods are
// there, the last words of a container that failed (the pod's status has none of injected ones, and lacks
// those that the kubelet did not wait for), and whether the Service of a live run is. A missing Secret needs
// no request: the node of each pod that wants it says so.
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
  // Of many runs their Services are not asked about.
  enum class Scope { one_run, runs };

  // The client must outlive it.
  SideReads(kube::Client& client, std::string name_space, Scope scope,
            std::chrono::milliseconds ask_node_again = std::chrono::seconds(3));
  ~SideReads();
  SideReads(const SideReads&) = delete;
  SideReads& operator=(const SideReads&) = delete;

  // Adds what is known to the objects, and asks for what is not. Does not wait; doubtful nodes are asked
  // again after 3 s, a Service after 30 s unless all is well. From one thread.
  void look(RunObjects& objects);

  // The same, and waits for the answers, `budget` at most.
  void wait(const std::vector<RunObjects*>& runs,
            std::chrono::milliseconds budget = std::chrono::milliseconds(1500));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
