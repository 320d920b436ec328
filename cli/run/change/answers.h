// What the server's answer to a POST says of the object. Pure.
#pragma once

#include "cli/kube/client.h"

namespace mlk {

bool exists_already(const kube::ApiError& error);

// There was no answer, or one that says nothing about the object (409 also comes from a quota that others
// change at the same time). It is not known whether the object was stored; POST is safe to repeat.
bool unclear(const kube::ApiError& error);

// A server that has just started refuses what it will allow: it does not know the roles yet (the check before
// said that they allow it), nor the namespaces and quotas.
bool has_just_started(const kube::ApiError& error);

// Nothing is known about the object, and it may be stored.
bool says_nothing(const kube::ApiError& error);

}  // namespace mlk
