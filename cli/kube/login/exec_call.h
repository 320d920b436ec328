// Runs credential plugins: a process, a terminal, a clock.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/kube/login/exec_plugin.h"
#include "cli/kube/login/kubeconfig.h"

namespace mlk::kube {

// What a call needs of the program around it.
struct PluginHost {
  std::function<void(const std::string&)> say{};  // gets lines of the plugin for the user; from any thread
  std::function<bool()> interrupted{};            // true: the user has had enough; from any thread
  std::chrono::seconds patience{180};             // people may have to log in by a browser
  bool may_ask = true;                            // the plugin may use the terminal
};

// Runs the plugin of `config` and gives what it answers. Blocks. Throws Error. Never through a shell.
Credential call_plugin(const Config& config, const PluginHost& host, const std::function<bool()>& give_up);

struct PluginAnswer {
  Credential credential;
  std::optional<Error> error;
};

// Calls on a thread of their own, one at a time.
class PluginCaller {
 public:
  using Call = std::function<Credential(const std::function<bool()>& give_up)>;

  // `ended` runs on that thread when an answer can be taken.
  PluginCaller(Call call, std::function<void()> ended);
  ~PluginCaller() { stop(); }
  PluginCaller(const PluginCaller&) = delete;
  PluginCaller& operator=(const PluginCaller&) = delete;

  void start();  // nothing while one is under way or its answer has not been taken
  [[nodiscard]] std::optional<PluginAnswer> take();
  void stop();  // for good: a call that is under way is given up

 private:
  const Call call_;
  const std::function<void()> ended_;
  std::atomic<bool> give_up_ = false;
  std::mutex mutex_;
  std::optional<PluginAnswer> answer_;  // under it
  bool busy_ = false;                   // of the owner's thread
  std::thread thread_;
};

}  // namespace mlk::kube
