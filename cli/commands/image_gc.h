// mlk image gc: deletes unneeded layers from the cache, or unneeded images from a repository.
#pragma once

namespace CLI {
class App;
}

namespace mlk {

struct Session;

// Adds the command `gc` below the command `image`.
void add_image_gc(CLI::App& image, Session& session);

}  // namespace mlk
