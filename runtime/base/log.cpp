// Lines on stderr, each in one write.
#include "runtime/base/log.h"

#include <unistd.h>

namespace mlk::rt {

void Log::line(std::string_view message) const {
  const std::string text = who_ + ": " + std::string(message) + "\n";
  // If stderr is closed, the line is lost, and the run continues: only people read these lines.
  [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
}

}  // namespace mlk::rt
