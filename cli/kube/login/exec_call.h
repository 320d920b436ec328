// Runs credential plugins; uses processes, the terminal and the clock.
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

// The services of the surrounding program that a call uses.
struct PluginHost {
  std::function<void(const std::string&)>
      say{};                            // shows a line of the plugin to the user; called from any thread
  std::function<bool()> interrupted{};  // whether the user wants to stop; called from any thread
  std::chrono::seconds patience{180};   // timeout; people may have to log in with a browser
  bool may_ask = true;                  // the plugin may use the terminal
};

// Runs the plugin of `config`, never through a shell, and returns its credential. Blocks. Throws Error.
Credential call_plugin(const Config& config, const PluginHost& host, const std::function<bool()>& give_up);

struct PluginAnswer {
  Credential credential;
  std::optional<Error> error;
};

// Calls plugins on its own thread, one call at a time.
class PluginCaller {
 public:
  using Call = std::function<Credential(const std::function<bool()>& give_up)>;

  // `ended` runs when poll() can return an answer: on the thread of the call, or within start() if the system
  // has no more threads.
  PluginCaller(Call call, std::function<void()> ended);
  ~PluginCaller() { stop(); }
  PluginCaller(const PluginCaller&) = delete;
  PluginCaller& operator=(const PluginCaller&) = delete;

  void start();  // does nothing while a call runs, or while its answer waits for poll()
  [[nodiscard]] std::optional<PluginAnswer> poll();
  void stop();  // final; abandons a call that is running

 private:
  const Call call_;
  const std::function<void()> ended_;
  std::atomic<bool> give_up_ = false;
  std::mutex mutex_;
  std::optional<PluginAnswer> answer_;  // guarded by the mutex
  bool busy_ = false;                   // used by the owner's thread
  std::thread thread_;
};

}  // namespace mlk::kube
