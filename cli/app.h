// The command tree: parse the words, run the command, turn errors into messages and exit codes.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlk {

struct Session;

// Makes the whole command tree. The commands keep a reference to `session`, which must outlive the tree.
std::unique_ptr<CLI::App> make_app(Session& session);

// Runs the command in `arguments`, which do not contain the name of the program. Returns the exit code.
int run(const std::vector<std::string>& arguments, Session& session);

}  // namespace mlk
