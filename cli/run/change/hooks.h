// Hooks through which functions that change runs communicate with the user of a command.
#pragma once

#include <functional>
#include <string>

namespace mlk {

// Hooks of the functions that stop, resume and delete runs.
struct ChangeHooks {
  std::function<void(const std::string&)> note, warn;      // for people
  std::function<bool()> interrupted;                       // true: the user wants to stop waiting
  std::function<std::string(const std::string&)> command;  // the full command for "resume digits-abcde"
};

// Hooks of the functions that create runs. One thread at a time may call a hook: a caller that creates
// several runs in parallel has to ensure this.
struct SubmitHooks {
  std::function<void(const std::string&)> note;  // progress, for people
  std::function<void()> check_interrupted;       // throws if the user wants to stop
  std::function<void()> owner_is_there{};        // called as soon as the owner of the run or sweep exists
  std::function<std::string()> submitter{};  // the annotation that says who submits; empty: nothing is said
  // On the embedded cluster: variables of the user's shell, as a JSON object, with which programs start.
  std::string shell{};
};

}  // namespace mlk
