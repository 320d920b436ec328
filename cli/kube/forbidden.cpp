#include "cli/kube/forbidden.h"

#include <algorithm>
#include <array>

namespace mlk::kube {
namespace {

struct Sign {
  std::string_view text;
  Forbidden why;
};

// The message may contain several of these signs: the first one in this list decides. The order matters,
// because the text of a webhook, or the name of a quota or policy, may contain a later sign.
constexpr std::array<Sign, 16> signs{{
    {"admission webhook \"", Forbidden::admission},
    {"denied the request", Forbidden::admission},
    {"ValidatingAdmissionPolicy '", Forbidden::admission},
    {"denied request: ", Forbidden::admission},
    {"because it is being terminated", Forbidden::terminating},
    {"violates PodSecurity", Forbidden::standards},
    {"exceeded quota: ", Forbidden::quota},
    {"failed quota: ", Forbidden::quota},
    {"status unknown for quota: ", Forbidden::quota},
    {"insufficient quota", Forbidden::quota},
    {"error looking up service account", Forbidden::account},
    {" usage per ", Forbidden::limits},
    {"max limit to request ratio", Forbidden::limits},
    {" cannot ", Forbidden::rights},
    {"is attempting to grant", Forbidden::rights},
    {"no RBAC policy matched", Forbidden::rights},
}};

}  // namespace

Forbidden why_forbidden(std::string_view message) {
  const auto sign = std::find_if(signs.begin(), signs.end(), [&](const Sign& each) {
    return message.find(each.text) != std::string_view::npos;
  });
  return sign == signs.end() ? Forbidden::other : sign->why;
}

std::string hint_for(Forbidden why) {
  switch (why) {
    case Forbidden::quota:
      return "delete runs that are not needed (mlk ls), ask the cluster's operators for more quota, or "
             "choose another namespace with -n";
    case Forbidden::terminating:
      return "choose another namespace with -n, or wait until this one is gone and have it made again";
    case Forbidden::admission:
      return "a rule of the cluster does not accept it: change the experiment (patch:) as it says, or ask "
             "the cluster's operators";
    case Forbidden::standards:
      return "change what it names with patch: or user:, or choose another namespace with -n";
    case Forbidden::limits:
      return "change cpu: or memory: of the role, or ask the cluster's operators about the LimitRange";
    case Forbidden::account:
      return "correct service_account:, or have it created: kubectl get serviceaccounts";
    case Forbidden::rights:
    case Forbidden::other:
      break;
  }
  return "ask the cluster's operators for the permission, or choose another namespace with -n";
}

}  // namespace mlk::kube
