// What one may do on the cluster, who one is there, and which Kubernetes it runs.
#pragma once

#include <string>
#include <vector>

#include "cli/kube/client.h"

namespace mlk::kube {

struct AccessQuestion {
  std::string verb;  // get, list, watch, create, patch, delete ...
  Resource resource;
  std::string subresource{};  // "log"
};

// SelfSubjectAccessReview. Throws ApiError when the server cannot be asked.
[[nodiscard]] bool may(Client& client, const std::string& name_space, const std::string& verb,
                       const Resource& resource);
// The same for several at once: answers in the order of the questions. `as`: another user, for those who may
// impersonate that one; who may not gets ApiError 403.
[[nodiscard]] std::vector<bool> may_all(Client& client, const std::string& name_space,
                                        const std::vector<AccessQuestion>& questions,
                                        const std::string& as = "");

struct Identity {
  std::string name;
  std::vector<std::string> groups;
};

// SelfSubjectReview: the name by which the server knows us.
Identity whoami(Client& client);

struct ServerVersion {
  int major = 0, minor = 0;
  std::string text;  // "v1.37.1"
};

// Throws ApiError, also when the answer at /version is not that of a Kubernetes API server.
ServerVersion server_version(Client& client);

// Throws Error{cluster} when it is older. Pure.
void require_version(const ServerVersion& version, int major, int minor);

}  // namespace mlk::kube
