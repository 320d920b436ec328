// mlk image gc: deletes unneeded layers from the cache, or unneeded images from a repository.
#pragma once

namespace CLI {
class App;
}

namespace mlk {

struct Session;

// Below the command `image`.
void add_image_gc(CLI::App& image, Session& session);

}  // namespace mlk
