// Reads from the server's answer to a POST whether the object was stored. Pure.
#pragma once

#include "cli/kube/client.h"

namespace mlk {

bool exists_already(const kube::ApiError& error);

// Whether mlk cannot tell if the object was stored: no answer came, or the answer says nothing about the
// object (409 also comes from a quota that other requests change at the same time). The caller may retry the
// POST.
bool unclear(const kube::ApiError& error);

// Whether the server probably refuses because it has just started, and has not read the namespaces, quotas or
// roles yet. A 403 for a missing right counts as well, since an earlier check showed that the user has the
// right. A later retry can succeed.
bool has_just_started(const kube::ApiError& error);

// Whether the answer says nothing about the object: the object may be stored or not.
bool is_inconclusive(const kube::ApiError& error);

}  // namespace mlk
