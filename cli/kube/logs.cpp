#include "cli/kube/logs.h"

#include <algorithm>

#include "cli/kube/failure.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

using std::chrono::seconds;

// If a node's clock is set back by at most so many seconds, a reader gets no line twice.
constexpr std::size_t most_seconds = 600;

// A longer line is shortened in a stream. Otherwise every request for the log would fail at a line of more
// than 16 MiB, and the lines after it could never be read.
constexpr std::size_t longest_line = 1u << 20;

// Removes the URL of the log on the node, which the API server quotes, because this URL differs between the
// pods of a node.
std::string without_address(const std::string& text) {
  const std::size_t begin = text.find("Get \"http");
  const std::size_t end = begin == std::string::npos ? begin : text.find("\": ", begin);
  return end == std::string::npos ? text : text.substr(0, begin) + text.substr(end + 3);
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const auto time = parse_time(line.substr(0, blank));
  if (!time) return std::nullopt;
  const std::string_view text = blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
  return LogLine{*time, program_line(text, Colors::kept)};
}

std::string kubelet_said(std::string_view line) {
  constexpr std::size_t longest = 300;
  if (lacks_inotify(line)) return "it is out of inotify instances, so its logs are asked for again and again";
  return "it says of the log: " + printable(cut(line, longest));
}

bool is_by_kubelet(std::string_view line) {
  return line.starts_with("failed to ") || line.starts_with("unable to retrieve ") || lacks_inotify(line);
}

bool lacks_inotify(std::string_view line) {
  return line.find("fsnotify watcher") != std::string_view::npos ||
         (line.find("inotify") != std::string_view::npos && line.find("too many") != std::string_view::npos);
}

std::string rotated(const std::string& pod) {
  return "it has rotated the log of " + pod + ": lines may be missing";
}

bool pod_is_gone(const StreamEnd& end) {
  if (end.status != 404 || !end.error.empty()) return false;
  return std::string_view(status_error(end.status, end.body, "", nullptr).what()).starts_with("pods ");
}

ApiError log_error(const StreamEnd& end, const Config& config) {
  const ApiError error = end.error.empty() ? status_error(end.status, end.body, "", &config)
                                           : ApiError(end.status, "Unreachable", end.error);
  std::string text = without_address(error.what());
  if (pod_is_gone(end)) {
    text = "deleted with the pod";
  } else if (error.status() == 404 && text.find("( pods/log ") != std::string::npos) {
    text = "the node does not know the pod";  // the API server's own text differs from pod to pod
  }
  return ApiError(error.status(), error.reason(), text, error.hint());
}

bool LogPosition::admit(const LogLine& line) {
  const Time second = std::chrono::floor<seconds>(line.time);
  if (to_skip_ > 0 && line.time < earliest_) return false;  // before the requested part
  if (to_skip_ > 0) {
    if (!seen_.empty() && second <= seen_.rbegin()->first) {
      --to_skip_;
      return false;
    }
    to_skip_ = 0;
    was_cut_ = true;
  }
  second_ = second;
  earliest_ = std::min(earliest_.value_or(line.time), line.time);
  ++seen_[second];
  if (seen_.size() > most_seconds) seen_.erase(seen_.begin());
  return true;
}

void LogPosition::resume() {
  to_skip_ = 0;
  if (!second_) return;
  for (auto at = seen_.lower_bound(*second_); at != seen_.end(); ++at) to_skip_ += at->second;
}

std::optional<Time> LogPosition::since() const { return second_; }

Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options) {
  Request request;
  request.path = path_of(resources::pods, name_space, pod) + "/log";
  request.accept = "*/*";
  request.longest_line = longest_line;
  const auto ask = [&](const char* name, std::string value) {
    request.query.emplace_back(name, std::move(value));
  };
  ask("timestamps", "true");
  if (!options.container.empty()) ask("container", options.container);
  if (options.follow) ask("follow", "true");
  if (options.from) ask("sinceTime", format_time(*options.from));
  if (options.tail_lines && !options.from) ask("tailLines", std::to_string(*options.tail_lines));
  if (options.since && !options.from)
    ask("sinceSeconds", std::to_string(std::max<long>(1, options.since->count())));
  if (options.previous) ask("previous", "true");
  if (options.limit_bytes) ask("limitBytes", std::to_string(*options.limit_bytes));
  return request;
}

AtLimit at_limit(std::size_t limit, std::size_t came) {
  if (limit == 0 || came < limit || came > limit + 1) return AtLimit::goes_on;
  return came == limit ? AtLimit::ends_after : AtLimit::ends_within;
}

std::vector<LogLine> parse_log(std::string_view rest) {
  std::vector<LogLine> lines;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (auto line = parse_log_line(rest.substr(0, end))) lines.push_back(std::move(*line));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return lines;
}

}  // namespace mlk::kube
