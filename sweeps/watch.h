// All objects of one sweep, kept current.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "sweeps/registry.h"

namespace mlk::sweeps {

class SweepWatch {
 public:
  // The client must outlive it. Watching starts at once; nothing is waited for.
  SweepWatch(kube::Client& client, const std::string& name_space, const std::string& sweep);
  ~SweepWatch();
  SweepWatch(const SweepWatch&) = delete;
  SweepWatch& operator=(const SweepWatch&) = delete;

  // True when something has changed since the last call, false after `timeout`. For one thread.
  bool wait(std::chrono::milliseconds timeout);

  // nullopt before the first lists have arrived. Throws Error{not_found} when the sweep was deleted, and the
  // ApiError that is final: 401, 403.
  std::optional<SweepObjects> objects() const;

  // What keeps it from being current for a minute or longer; empty when all is well.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::sweeps
