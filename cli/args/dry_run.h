// --dry-run of the commands that create something from an experiment.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace mlk {

enum class DryRun {
  no,
  client,  // no cluster or registry is contacted
  server,  // the cluster checks the objects and stores nothing
};

// Adds the flag --dry-run. Its value may be left out, and is then `client`. A value must follow "=", so in
// "--dry-run FILE" the word FILE is not the value.
void add_dry_run(CLI::App& command, std::string& text, const std::string& description);

// Returns the meaning of the `text` that add_dry_run() has stored. Throws Error{usage} if the text is not "",
// "client" or "server".
DryRun read_dry_run(const std::string& text);

}  // namespace mlk
