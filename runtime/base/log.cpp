// Lines on stderr, each one write.
#include "runtime/base/log.h"

#include <unistd.h>

namespace mlk::rt {

void Log::line(std::string_view message) const {
  const std::string text = who_ + ": " + std::string(message) + "\n";
  // Nothing to be done when stderr is gone: the lines are for people, the run goes on.
  [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
}

}  // namespace mlk::rt
