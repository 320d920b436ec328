// mlk image gc: deletes what is not needed any more, from the cache of layers or from a repository.
#pragma once

namespace CLI {
class App;
}

namespace mlk {

struct Session;

// Below the command `image`.
void add_image_gc(CLI::App& image, Session& session);

}  // namespace mlk
