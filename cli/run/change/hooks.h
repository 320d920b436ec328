// How functions that change runs talk with the user of a command.
#pragma once

#include <functional>
#include <string>

namespace mlk {

// Of what stops, resumes and deletes runs.
struct ChangeHooks {
  std::function<void(const std::string&)> note, warn;      // for people
  std::function<bool()> interrupted;                       // the user wants to stop waiting
  std::function<std::string(const std::string&)> command;  // how the user types "resume digits-abcde"
};

// Of what creates runs. Called by one thread at a time: a caller that creates several things in parallel has
// to ensure that.
struct SubmitHooks {
  std::function<void(const std::string&)> note;  // progress, for people
  std::function<void()> check_interrupted;       // throws if the user wants to stop
  std::function<void()> owner_is_there{};        // once the cluster has the owner of a run or sweep
};

}  // namespace mlk
