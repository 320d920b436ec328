// What the server's answer to a POST says about the object. Pure.
#pragma once

#include "cli/kube/client.h"

namespace mlk {

bool exists_already(const kube::ApiError& error);

// There was no answer, or the answer says nothing about the object (409 also comes from a quota that other
// requests change at the same time). It is not known whether the object was stored. POST is safe to repeat.
bool unclear(const kube::ApiError& error);

// A server that has just started refuses requests that it will allow later: it does not know the roles yet
// (an earlier check said that the roles allow the request), nor the namespaces and quotas.
bool has_just_started(const kube::ApiError& error);

// The answer says nothing about the object, and the object may be stored.
bool says_nothing(const kube::ApiError& error);

}  // namespace mlk
