// Decides from the server's answer to a POST whether the object was stored. Pure.
#pragma once

#include "cli/kube/client.h"

namespace mlk {

bool exists_already(const kube::ApiError& error);

// True if the error does not show whether the object was stored: no answer came, or the answer says nothing
// about the object (such as a 409 for a quota that another request changes at the same time). The caller may
// retry the POST.
bool unclear(const kube::ApiError& error);

// Whether the server probably refuses only because it has just started, and has not read the namespaces,
// quotas or roles yet. True for every 403 that reports a missing right: mlk has checked the user's rights
// before. A later retry can succeed.
bool has_just_started(const kube::ApiError& error);

// True if the error does not show whether the server accepts the object: unclear(), has_just_started(), or
// the status 401 (the credentials are not valid).
bool is_inconclusive(const kube::ApiError& error);

}  // namespace mlk
