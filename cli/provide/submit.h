// Submits an experiment with its inputs as a run. The common part of submit and rollback.
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

// Renders the run, warns of possible problems, submits the run, prints it on standard output, and prints for
// people which run was found or created and the next command to type. Sets the exit code of the session if
// the run has ended already. Errors as of submit_run().
Submitted submit(const ToSubmit& what, Session& session);

}  // namespace mlk
