// From an experiment and its inputs to a run: what submit and rollback do alike.
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
  bool again = false;  // as in SubmitRequest
  std::string output;  // of the run on standard output: "name" or "json"
};

// Renders the run, warns of what may go wrong with it, submits it, prints it on standard output, and says for
// people what was found or created and what to type next. Sets the exit code of the session if the run has
// ended already. Errors as of submit_run().
Submitted submit(const ToSubmit& what, Session& session);

}  // namespace mlk
