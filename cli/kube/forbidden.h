// The cause of a 403 answer of an API server, and what the user can do. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk::kube {

enum class Forbidden {
  rights,       // the roles of the user do not allow the request
  quota,        // the quota of the namespace is too small
  terminating,  // the namespace is being deleted
  admission,    // a webhook or a policy of the cluster refuses the object
  standards,    // the object violates Pod Security
  limits,       // the object violates a LimitRange
  account,      // the service account of the pods cannot be used
  other,
};
// Finds the cause in the server's message, because the server's reason is always "Forbidden".
Forbidden why_forbidden(std::string_view message);
std::string hint_for(Forbidden why);

}  // namespace mlk::kube
