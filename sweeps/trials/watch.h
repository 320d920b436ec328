// Current copies of all objects of one sweep.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "sweeps/trials/objects.h"

namespace mlk::sweeps {

class SweepWatch {
 public:
  // The client must outlive it. Watching starts at once; the constructor does not wait.
  SweepWatch(kube::Client& client, const std::string& name_space, const std::string& sweep);
  ~SweepWatch();
  SweepWatch(const SweepWatch&) = delete;
  SweepWatch& operator=(const SweepWatch&) = delete;

  // True if something has changed since the last call, false after `timeout`. Reading the objects of a large
  // sweep takes long, so not every change returns: after a look there is a rest that is much longer than the
  // look. A look is the time between objects() and looked(), or the next wait(). For one thread.
  bool wait(std::chrono::milliseconds timeout);

  // nullopt before the first lists have arrived. Throws Error{not_found} when the sweep was deleted, and the
  // ApiError that is final: 401, 403.
  std::optional<SweepObjects> objects();
  void looked();

  // What keeps it from being current for a minute or longer; empty when all is well.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::sweeps
