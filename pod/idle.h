// What keeps a pod of `mlk pull` alive.
#pragma once

#include <string>

namespace mlk::pod {

// Waits until no other process has run in this container for the given number of seconds, and returns 0. A
// request of mlk pull runs as another process of the container. Ends at once after SIGTERM or SIGINT. 64: the
// text is no number from 1 to 86400.
int idle(const std::string& seconds);

}  // namespace mlk::pod
