// What a command says after it has submitted a run.
#pragma once

#include <string>

#include "cli/run/submission.h"

namespace mlk {

struct Session;

// The run on standard output, by its name or, if `output` is "json", as an object. name_space: empty if it is
// not known.
void print_handle(const std::string& run, const std::string& output, const std::string& name_space,
                  Session& session);

// For people: what was found or created, and what to type next.
void say_outcome(const Submitted& submitted, Session& session, const SubmitRequest& request);

}  // namespace mlk
