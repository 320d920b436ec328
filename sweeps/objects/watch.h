// Current copies of all objects of one sweep.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "sweeps/objects/objects.h"

namespace mlk::sweeps {

class SweepWatch {
 public:
  // The client must outlive this object. Watching starts at once; the constructor does not wait.
  SweepWatch(kube::Client& client, const std::string& name_space, const std::string& sweep);
  ~SweepWatch();
  SweepWatch(const SweepWatch&) = delete;
  SweepWatch& operator=(const SweepWatch&) = delete;

  // Returns true if something has changed since the last call, false after `timeout`. Reading the objects of
  // a large sweep takes long, so not every change ends the wait: after each reading, wait() first pauses for
  // several times as long as the reading took, at most 3 s. A reading lasts from objects() until observed()
  // or the next wait(). Not thread-safe.
  bool wait(std::chrono::milliseconds timeout);

  // nullopt until the server has answered the first lists. Throws Error{not_found} if the sweep was deleted,
  // and ApiError if the server refuses with 401 or 403, since both are final.
  std::optional<SweepObjects> objects();
  void observed();

  // The reason why the objects have not been current for a minute or longer; empty without a problem.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::sweeps
