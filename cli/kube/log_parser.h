// In the answers to requests for a log, distinguishes the lines of the program from the sentences of the
// kubelet.
#pragma once

#include <string_view>

#include "cli/kube/logs.h"
#include "cli/util/time.h"

namespace mlk::kube {

// The kubelet stores a line of more than 16 KiB in parts, but sends a time only at the beginning of a line.
// So an answer to sinceTime or sinceSeconds may begin within a line of the program. The first line of this
// answer then has no time. Any other line without a time is a sentence of the kubelet. The first line is also
// such a sentence if is_by_kubelet() recognises its words. Pure.
class LogParser {
 public:
  enum class Kind {
    line,      // a line of the program, with its time
    rest,      // the end of a line that began before the requested time; not counted by LogPosition
    sentence,  // a sentence of the kubelet; see kubelet_said()
    nothing,   // an empty line, or a rest that was returned or shown before
  };
  struct Parsed {
    Kind kind = Kind::nothing;
    LogLine line{};  // for Kind::line and Kind::rest; a rest has the time at which the answer begins
  };

  void open(const LogOptions& options, Time now);  // call it before the lines of a new request
  [[nodiscard]] Parsed parse(std::string_view line);

 private:
  bool may_begin_within_ = false;  // the next line is the first one of an answer that may begin within a line
  bool wants_rest_ = true;         // false after a rest was returned, or its whole line was shown
  Time begin_{};                   // the time at which an answer to sinceSeconds begins
};

}  // namespace mlk::kube
