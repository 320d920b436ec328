// Why an API server has answered 403, and what to do about it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk::kube {

enum class Forbidden {
  rights,       // the roles of the user
  quota,        // of the namespace
  terminating,  // the namespace is being deleted
  admission,    // a webhook, or a policy of the cluster
  standards,    // Pod Security
  limits,       // a LimitRange
  account,      // the service account of the pods
  other,
};
// Decides by the server's message, because the server's reason is "Forbidden" in all of these cases.
Forbidden why_forbidden(std::string_view message);
std::string hint_for(Forbidden why);

}  // namespace mlk::kube
