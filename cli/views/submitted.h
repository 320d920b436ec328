// The messages of a command after it has submitted a run.
#pragma once

#include <string>

#include "cli/run/change/submission.h"

namespace mlk {

struct Session;

// Prints the name of the run on standard output or, if `output` is "json", an object with this name.
// `name_space`: empty if the namespace is unknown.
void print_handle(const std::string& run, const std::string& output, const std::string& name_space,
                  Session& session);

// "has ended already: it failed 5m ago: worker/0: exit code 3". Pure.
std::string how_it_ended(const RunStatus& status, Time now);

// The exit code of a submit: 0, except if the submit has created nothing because the run had ended already.
// In that case the code shows how the run ended.
ExitCode code_of(const Submitted& submitted);

// Prints for people which run was found or created, and the next command to type.
void print_outcome(const Submitted& submitted, Session& session, const SubmitRequest& request);

}  // namespace mlk
