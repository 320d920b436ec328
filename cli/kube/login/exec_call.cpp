#include "cli/kube/login/exec_call.h"

#include <unistd.h>
#include <utility>

#include "cli/util/text.h"

namespace mlk::kube {
namespace {

constexpr std::size_t output_limit = 1u << 20;
// A plugin that runs longer than this may wait for the user. From then on, mlk shows the plugin's stderr
// while the plugin runs, because the text may say what to do: "open this page".
constexpr std::chrono::seconds telling_after{2};

// Passes the new lines of a plugin's stderr, without secrets, to PluginHost::say.
class StderrPrinter {
 public:
  StderrPrinter(const ExecPlugin& plugin, const PluginHost& host) : plugin_(plugin), host_(host) {}

  void print(const ProcessResult& result, bool to_the_end) {
    if (!host_.say) return;
    const std::size_t end = to_the_end ? result.error.size() : result.error.rfind('\n') + 1;
    if (end <= told_) return;
    const std::string text = without_secrets(result.error.substr(told_, end - told_), plugin_, result.output);
    told_ = end;
    for (const std::string& line : split(text, '\n')) {
      if (!trim(line).empty()) host_.say(line);
    }
  }
  std::size_t told() const { return told_; }  // bytes

 private:
  const ExecPlugin& plugin_;
  const PluginHost& host_;
  std::size_t told_ = 0;
};

}  // namespace

Credential call_plugin(const Config& config, const PluginHost& host, const std::function<bool()>& give_up) {
  const ExecPlugin& plugin = config.exec.value();
  const bool interactive = is_interactive(plugin, host.may_ask && ::isatty(STDIN_FILENO) == 1);
  Command command;
  command.argv = {plugin.command};
  command.argv.insert(command.argv.end(), plugin.args.begin(), plugin.args.end());
  for (const auto& variable : plugin.env) {
    if (variable.first != "KUBERNETES_EXEC_INFO") command.env.push_back(variable);
  }
  command.env.emplace_back("KUBERNETES_EXEC_INFO", exec_info(plugin, config, interactive));
  command.of_terminal = interactive;
  command.timeout = host.patience;
  command.output_limit = output_limit;
  StderrPrinter printer(plugin, host);
  const auto start = std::chrono::steady_clock::now();
  command.go_on = [&](const ProcessResult& so_far) {
    if (std::chrono::steady_clock::now() - start > telling_after) printer.print(so_far, false);
    return !give_up() && !(host.interrupted && host.interrupted());
  };
  ProcessResult result;
  try {
    result = run_process(command);
  } catch (const Error& error) {
    if (error.code() == ExitCode::not_found) throw exec_missing(plugin, error.what());
    throw Error(ExitCode::cluster, std::string("credential plugin: ") + error.what());
  }
  if (!result.ok()) {
    result.error.erase(0, printer.told());
    throw exec_failure(plugin, result, host.patience);
  }
  printer.print(result, true);
  return parse_exec_credential(result.output, plugin);
}

PluginCaller::PluginCaller(Call call, std::function<void()> ended)
    : call_(std::move(call)), ended_(std::move(ended)) {}

void PluginCaller::stop() {
  give_up_ = true;
  if (thread_.joinable()) thread_.join();
}

void PluginCaller::start() {
  if (busy_) return;
  busy_ = true;
  if (thread_.joinable()) thread_.join();  // the thread has ended: its last answer was taken
  const auto call = [this] {
    PluginAnswer answer;
    try {
      answer.credential = call_([this] { return give_up_.load(); });
    } catch (const Error& error) {
      answer.error = error;
    } catch (const std::exception& error) {
      answer.error = Error(ExitCode::failure, error.what());
    }
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    ended_();
  };
  try {
    thread_ = std::thread(call);
  } catch (const std::system_error& error) {  // the system has no more threads
    {
      const std::lock_guard lock(mutex_);
      answer_ = PluginAnswer{{}, Error(ExitCode::failure, error.what())};
    }
    ended_();
  }
}

std::optional<PluginAnswer> PluginCaller::poll() {
  const std::lock_guard lock(mutex_);
  std::optional<PluginAnswer> answer;
  answer.swap(answer_);
  if (answer) busy_ = false;
  return answer;
}

}  // namespace mlk::kube
