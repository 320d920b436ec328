// What client and kubelet say to each other while a command runs in a container: channels in the messages of
// a WebSocket. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/http/request.h"

namespace mlk::kube {

struct ExecCommand {
  std::string name_space, pod, container;
  std::vector<std::string> words;  // the program and its arguments; no shell reads them
  std::string input{};             // sent whole to stdin; empty: the command has no stdin
};

struct ExecEnd {
  int code = 0;           // the exit code; -1: the command did not run, or its exit code is unknown
  std::string message{};  // why, if the code is -1
};

inline const std::string exec_v5 = "v5.channel.k8s.io";  // can close stdin
inline const std::string exec_v4 = "v4.channel.k8s.io";

enum class Channel : unsigned char { in = 0, out = 1, err = 2, status = 3, close = 255 };

[[nodiscard]] http::Request exec_request(const ExecCommand& command);

// The end, from the Status on the channel of that name. nullopt: the text is no Status.
[[nodiscard]] std::optional<ExecEnd> exec_end(std::string_view status);

// Divides stdin into messages. The input must outlive it.
class ExecInput {
 public:
  ExecInput(std::string_view input, bool can_close) : rest_(input), closes_(can_close && !input.empty()) {}
  std::string next();  // empty: there is no further message

 private:
  std::string_view rest_;
  bool closes_;
};

}  // namespace mlk::kube
