// Submits an experiment with its inputs as a run, for mlk submit and mlk rollback.
#pragma once

#include <string>

#include "cli/provide/images.h"
#include "cli/run/change/submission.h"

namespace mlk {

struct ToSubmit {
  const Experiment& experiment;
  const FileContents& files;
  const Templates& templates;
  const Provided& provided;
  DryRun dry_run = DryRun::no;
  bool again = false;         // as in SubmitRequest
  std::string checkpoints{};  // as in SubmitRequest
  std::string output;         // how the run is printed on standard output: "name" or "json"
};

// Renders the run, warns of possible problems, and submits the run. Prints the name of the run on standard
// output. Reports on stderr which run was found or created, and which command to type next. Sets the exit
// code of the session if the run has ended already. A dry run of the client only renders the run and prints
// its name. Throws the errors of submit_run().
Submitted submit(const ToSubmit& what, Session& session);

}  // namespace mlk
