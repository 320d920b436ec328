#include "cli/kube/log_parser.h"

#include <optional>
#include <utility>

#include "cli/util/program_text.h"

namespace mlk::kube {

void LogParser::open(const LogOptions& options, Time now) {
  may_begin_within_ = options.from || options.since;
  if (options.from) wants_rest_ = false;  // mlk has shown the line within which the answer begins
  if (options.since) begin_ = later(now, -options.since->count());
}

LogParser::Parsed LogParser::parse(std::string_view line) {
  const bool may_be_rest = std::exchange(may_begin_within_, false);
  if (std::optional<LogLine> whole = parse_log_line(line)) return {Kind::line, std::move(*whole)};
  if (line.empty()) return {};
  if (!may_be_rest || is_by_kubelet(line)) return {Kind::sentence};
  // If a request is repeated before a line with a time has come, the rest comes again.
  if (!std::exchange(wants_rest_, false)) return {};
  return {Kind::rest, LogLine{begin_, program_line(line, Colors::kept)}};
}

}  // namespace mlk::kube
