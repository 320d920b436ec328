// --dry-run of the commands that create something from an experiment.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace mlk {

enum class DryRun {
  no,
  client,  // nobody is asked
  server,  // the cluster checks it; nothing is stored
};

// A flag with an optional value, client: "--dry-run FILE" does not take FILE for it.
void add_dry_run(CLI::App& command, std::string& text, const std::string& description);

// `text` as add_dry_run() has left it. Throws Error{usage} if it is neither empty nor one of the two.
DryRun read_dry_run(const std::string& text);

}  // namespace mlk
