#include "cli/kube/exec_protocol.h"

#include <charconv>

#include <nlohmann/json.hpp>

#include "cli/kube/resource.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

using json = nlohmann::json;

// The exit code among the causes of a Status; nullopt: there is none.
std::optional<int> exit_code_in(const json& status) {
  for (const json& cause : at_path(status, {"details", "causes"})) {
    if (text_of(cause, {"reason"}) != "ExitCode") continue;
    const std::string& text = text_of(cause, {"message"});
    int code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
    if (error == std::errc() && end == text.data() + text.size()) return code;
  }
  return std::nullopt;
}

}  // namespace

http::Request exec_request(const ExecCommand& command) {
  http::Request request{.path = path_of(resources::pods, command.name_space, command.pod) + "/exec",
                        .accept = "*/*"};
  for (const std::string& word : command.words) request.query.emplace_back("command", word);
  if (!command.container.empty()) request.query.emplace_back("container", command.container);
  if (!command.input.empty()) request.query.emplace_back("stdin", "true");
  request.query.emplace_back("stdout", "true");
  request.query.emplace_back("stderr", "true");
  return request;
}

std::optional<ExecEnd> exec_end(std::string_view text) {
  const json status = json_or_null(text);
  if (!status.is_object()) return std::nullopt;
  const std::string& result = text_of(status, {"status"});
  if (result == "Success") return ExecEnd{};
  if (result != "Failure") return std::nullopt;
  if (text_of(status, {"reason"}) == "NonZeroExitCode") {
    if (const std::optional<int> code = exit_code_in(status)) return ExecEnd{*code, ""};
  }
  constexpr std::size_t longest = 600;
  const std::string message = printable_line(cut(text_of(status, {"message"}), longest));
  return ExecEnd{-1, message.empty() ? "the cluster does not say why" : message};
}

std::string ExecInput::next() {
  constexpr std::size_t most = 32u << 10;  // the kubelet reads messages of this size
  if (!rest_.empty()) {
    const std::string_view part = rest_.substr(0, most);
    rest_.remove_prefix(part.size());
    std::string message(1, static_cast<char>(Channel::in));
    return message.append(part);
  }
  if (!closes_) return "";
  closes_ = false;
  return {static_cast<char>(Channel::close), static_cast<char>(Channel::in)};
}

}  // namespace mlk::kube
