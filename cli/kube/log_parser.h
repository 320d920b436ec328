// Tells the lines of a program from the sentences of the kubelet, in the answers to the requests for its log.
#pragma once

#include <string_view>

#include "cli/kube/logs.h"
#include "cli/util/time.h"

namespace mlk::kube {

// The kubelet writes a time only at the beginning of a line, but keeps a line of more than 16 KiB in parts.
// So an answer to sinceTime or sinceSeconds may begin within a line of the program, and then its first line
// has no time. Any other line without a time is a sentence of the kubelet. Pure.
class LogParser {
 public:
  enum class Kind {
    line,      // with its time
    rest,      // the end of a line that began before sinceSeconds; not counted by LogPosition
    sentence,  // of the kubelet; see kubelet_said()
    nothing,   // for nobody
  };
  struct Parsed {
    Kind kind = Kind::nothing;
    LogLine line{};  // of Kind::line, and of Kind::rest with the time at which the answer begins
  };

  void open(const LogOptions& options, Time now);  // the next lines come from a new request
  [[nodiscard]] Parsed parse(std::string_view line);

 private:
  bool may_begin_within_ = false;  // the next line is the first one of an answer that may begin within a line
  bool wants_rest_ = true;         // false once a rest was returned, or its line was shown
  Time begin_{};                   // of an answer to sinceSeconds
};

}  // namespace mlk::kube
