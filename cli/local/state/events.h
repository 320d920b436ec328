// Events: what happened to an object, for people. They are kept for an hour.
#pragma once

#include <string>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// If an equal event exists, increases its count instead of adding an event. Never throws, since an event is
// not important enough for a failure.
void record_event(Store& store, const json& object, const std::string& component, const std::string& type,
                  const std::string& reason, const std::string& message, Time now);

// Removes events that are over an hour old. If more than 2000 events remain, removes the oldest ones, too.
void expire_events(Store& store, Time now);

}  // namespace mlk::local
