// Logs of containers: how they are asked for, what their lines are, and where in them a reader is.
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
  Time time;         // when the node took it, by the node's clock
  std::string text;  // as a terminal would leave it, with colours (program_line())
};

struct LogOptions {
  std::string container{};  // empty: the only one
  std::optional<int> tail_lines{};
  std::optional<std::chrono::seconds> since{};
  std::optional<Time> from{};  // a whole second; the two above are not asked for then
  bool follow = false;
  bool previous = false;  // of the container's last incarnation
  std::optional<std::size_t> limit_bytes{};
};

// What the log holds now. Throws ApiError: status 400 while the container has not started, 404 without the
// pod.
std::vector<LogLine> read_log(Client& client, const std::string& name_space, const std::string& pod,
                              const LogOptions& options = {});

// The same in two parts, for those who ask for many logs at once.
Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options);
std::vector<LogLine> parse_log(std::string_view body);  // without what the kubelet_said()

// "2026-11-21T07:40:25.348347988Z text"; nullopt without a time in front. Pure.
std::optional<LogLine> parse_log_line(std::string_view line);

// Where a stream that was asked for `limit` bytes (0: all) stands with a line by which `came` bytes have
// come, each line counted with its end: it ends after this line, or within it, as the server cuts where it
// has to. A server that knows no limits goes on. Pure.
enum class AtLimit { goes_on, ends_after, ends_within };
AtLimit at_limit(std::size_t limit, std::size_t came);

// A line without a time is none of the program's: there the kubelet says why it cannot go on, with status
// 200. Its meaning, for people, to be put behind "node n1: ". Pure.
std::string kubelet_said(std::string_view line);
// Of such a line: the node can start no more followers, so its logs have to be polled. Pure.
bool lacks_inotify(std::string_view line);

// Why a log did not come. The text is the same for all pods that suffer from one cause. Of a StreamEnd that
// is not a good one. Pure.
ApiError log_error(const StreamEnd& end, const Config& config);

// Where in a log we are, by stern's rule: the server can only be asked from a whole second on, so we count
// the lines that we have from the last line's second on, and skip as many when we come back. Those may be of
// later seconds too: a node's clock can be set back. Pure.
class LogPosition {
 public:
  [[nodiscard]] bool take(const LogLine& line);  // false for a line that was seen before
  void resume();                                 // the next lines come from a new request
  std::optional<Time> since() const;             // for that request: the second to start from
  // Fewer of the lines that we had came again: the node has rotated the log, and others may be lost.
  bool was_cut() const { return was_cut_; }

 private:
  std::optional<Time> second_;  // of the last line
  std::map<Time, long> seen_;   // lines of each second; of the latest ones
  long to_skip_ = 0;            // of those that come again
  bool was_cut_ = false;
};

// What was_cut() means, for people, to be put behind "node n1: ".
std::string rotated(const std::string& pod);

}  // namespace mlk::kube
