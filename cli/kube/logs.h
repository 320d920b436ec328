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
  std::string container{};  // empty: the only container of the pod
  std::optional<int> tail_lines{};
  std::optional<std::chrono::seconds> since{};
  std::optional<Time>
      from{};  // without a fraction of a second; if it is set, tail_lines and since are ignored
  bool follow = false;
  bool previous = false;  // true: the log of the container's previous incarnation
  std::optional<std::size_t> limit_bytes{};
};

// The request for a log. The answer has status 400 while the container has not started, and 404 if there is
// no pod. If the request is streamed, a line of more than 1 MiB loses its middle.
Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options);
// The lines of the answer, without those that have no time.
std::vector<LogLine> parse_log(std::string_view body);

// Parses "2026-11-21T07:40:25.348347988Z text"; nullopt if the line does not begin with a time. Pure.
std::optional<LogLine> parse_log_line(std::string_view line);

// Says whether a stream with a limit of `limit` bytes (0: no limit) goes on after its latest line, ends after
// this line, or ends within this line because the server has cut it. `came`: the bytes of all lines up to the
// latest one, with a newline for each. If the server ignores the limit and sends more bytes, the result is
// goes_on. Pure.
enum class AtLimit { goes_on, ends_after, ends_within };
AtLimit at_limit(std::size_t limit, std::size_t came);

// Explains a sentence of the kubelet, in words that can stand after "node n1: ". A sentence of the kubelet is
// a line without a time in an answer with status 200, and says why the kubelet cannot continue the log. Pure.
std::string kubelet_said(std::string_view line);
// Whether a line without a time has the words of a sentence of the kubelet. Pure.
bool is_by_kubelet(std::string_view line);
// Whether a line of the kubelet says that the node can follow no more logs; mlk then polls the logs. Pure.
bool lacks_inotify(std::string_view line);

// Whether a stream ended because the pod is gone. Only the API server knows this. Another 404 may come from
// the node: a kubelet that has just started does not know its pods yet. Pure.
[[nodiscard]] bool pod_is_gone(const StreamEnd& end);

// Makes the error that says why a log did not arrive, from a StreamEnd that is an error. The text is the same
// for all pods with the same cause. Pure.
ApiError log_error(const StreamEnd& end, const Config& config);

// The position of a reader in a log, by the rule of the tool stern. A request can start only at the
// beginning of a second. So mlk counts the lines that came in the same second as the last line, requests the
// log from this second on, and skips that many lines. It also counts lines of later seconds, because a node's
// clock can be set back.
// With tailLines or sinceSeconds, the requested part of the log may begin within a second. The next request
// then also returns the earlier lines of this second, which are left out. Pure.
class LogPosition {
 public:
  [[nodiscard]] bool admit(
      const LogLine& line);           // false for a known line, and for one before the requested part
  void resume();                      // call it before the lines of a new request
  std::optional<Time> since() const;  // the second at which the next request starts
  // True if fewer known lines came again than expected. Then the node has rotated the log, and lines
  // may be lost.
  bool was_cut() const { return was_cut_; }

 private:
  std::optional<Time> second_;    // the time of the last line, without a fraction of a second
  std::optional<Time> earliest_;  // the earliest time of all lines
  std::map<Time, long> seen_;     // how many lines came in each of the latest seconds
  long to_skip_ = 0;              // how many known lines the next request returns again
  bool was_cut_ = false;
};

// Says what was_cut() means, in words that can stand after "node n1: ".
std::string rotated(const std::string& pod);

}  // namespace mlk::kube
