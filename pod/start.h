// Starts the user's program so that what it writes in some folders stays when the pod ends.
#pragma once

#include <string>
#include <vector>

namespace mlk::pod {

// `words`: the folders, below the working folder; "--"; the program and its arguments. Each folder becomes a
// link to a folder of the same name in $MLK_OUTPUTS, which is in a volume. A first word "--own-folder" says
// that the working folder is not mlk's; with mlk --local it is the user's, and nothing is linked there. The
// program runs as a child with the same streams and the same process group, and gets all signals that this
// process gets. When the program
// has ended, this process ends in the same way: with the same exit code, or by the same signal. 126: the
// folders cannot be made; 127: there is no such program.
int start(const std::vector<std::string>& words);

}  // namespace mlk::pod
