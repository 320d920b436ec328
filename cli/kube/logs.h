// Logs of containers: the requests for logs, the form of lines, and the position of a reader.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kube/client.h"
#include "cli/util/time.h"

namespace mlk::kube {

struct LogLine {
  Time time;         // when the node received the line, by the node's clock
  std::string text;  // as a terminal would leave it, with colours (program_line())
};

struct LogOptions {
  std::string container{};  // empty: the only one
  std::optional<int> tail_lines{};
  std::optional<std::chrono::seconds> since{};
  std::optional<Time> from{};  // a whole second; replaces tail_lines and since
  bool follow = false;
  bool previous = false;  // of the container's last incarnation
  std::optional<std::size_t> limit_bytes{};
};

// The present content of the log. Throws ApiError: status 400 while the container has not started, 404 if
// there is no pod.
std::vector<LogLine> read_log(Client& client, const std::string& name_space, const std::string& pod,
                              const LogOptions& options = {});

// The same in two parts, for callers that request many logs at once.
Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options);
std::vector<LogLine> parse_log(std::string_view body);  // without lines of the kubelet

// "2026-11-21T07:40:25.348347988Z text"; nullopt without a time in front. Pure.
std::optional<LogLine> parse_log_line(std::string_view line);

// Whether a stream with a limit of `limit` bytes (0: none) ends at its last line. `came` counts the bytes up
// to and including this line, with all line ends. The server may cut within a line. A server that ignores
// limits continues. Pure.
enum class AtLimit { goes_on, ends_after, ends_within };
AtLimit at_limit(std::size_t limit, std::size_t came);

// A line without a time comes from the kubelet, not from the program: the kubelet says why it cannot
// continue, with status 200. Returns its meaning for people, to follow "node n1: ". Pure.
std::string kubelet_said(std::string_view line);
// Whether such a line says that the node can start no more followers; mlk then polls the node's logs. Pure.
bool lacks_inotify(std::string_view line);

// Why a log did not come, for a StreamEnd that is an error. The text is the same for all pods with the same
// cause. Pure.
ApiError log_error(const StreamEnd& end, const Config& config);

// The position of a reader in a log, by stern's rule. A request can start only at a whole second, so mlk
// counts the lines that it has from the last line's second on, and skips as many after it reconnects. Lines
// of later seconds count too: a node's clock can be set back. Pure.
class LogPosition {
 public:
  [[nodiscard]] bool take(const LogLine& line);  // false for a line that was seen before
  void resume();                                 // the next lines come from a new request
  std::optional<Time> since() const;             // the second from which that request starts
  // Fewer known lines came again than expected: the node has rotated the log, and lines may be lost.
  bool was_cut() const { return was_cut_; }

 private:
  std::optional<Time> second_;  // of the last line
  std::map<Time, long> seen_;   // number of lines of each of the latest seconds
  long to_skip_ = 0;            // known lines that come again
  bool was_cut_ = false;
};

// The meaning of was_cut() for people, to follow "node n1: ".
std::string rotated(const std::string& pod);

}  // namespace mlk::kube
