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

// The whole tree; commands keep a reference to `session`.
std::unique_ptr<CLI::App> make_app(Session& session);

// `arguments` without the program's name. Returns the exit code.
int run(const std::vector<std::string>& arguments, Session& session);

}  // namespace mlk
