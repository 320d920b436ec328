// Keeps the first error while a command changes several runs, so that one error does not end the command.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "cli/run/change/hooks.h"

namespace mlk {

class FirstError {
 public:
  // The hooks must outlive the object.
  explicit FirstError(const ChangeHooks& hooks) : hooks_(hooks) {}

  // Runs the action. Returns false after an Error: stores the first Error for rethrow(), and warns of each
  // later Error. Throws Error{interrupted} at once, since the user wants to end the command. Catches no
  // exceptions of other types.
  bool attempt(const std::function<void()>& action);

  // Throws the first error, if there was one. Call it after the last action.
  void rethrow() const;

 private:
  const ChangeHooks& hooks_;
  std::exception_ptr first_;
  std::string what_;  // of the first error
};

}  // namespace mlk
