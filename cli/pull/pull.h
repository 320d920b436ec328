// What `mlk pull` does.
#pragma once

#include <string>
#include <vector>

namespace mlk {

struct Session;

struct PullOptions {
  std::string run;                 // as the user types it
  std::vector<std::string> paths;  // as the user sees them; empty: the outputs, or else the checkpoints
  std::string to;                  // the folder to write to; empty: one with the name of the run
  bool list = false;               // only print what is there
};

// Brings the files of the run to this machine, and prints the folder. If some files do not come, says why and
// sets the exit code of the session. Throws Error{not_found} if the run has no files, or not the named ones.
void pull(const PullOptions& options, Session& session);

}  // namespace mlk
