// The user's rights and identity on the cluster, and the cluster's Kubernetes version.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "cli/kube/client.h"

namespace mlk::kube {

struct AccessQuestion {
  std::string verb;  // get, list, watch, create, patch, delete ...
  Resource resource;
  std::string subresource{};  // "log"
};

// Sends one SelfSubjectAccessReview for each question, several at once. The answers have the order of the
// questions. If `as` is not empty, mlk impersonates the user of that name. Throws ApiError 403 if our user
// may not impersonate that user, and another ApiError if a request fails.
[[nodiscard]] std::vector<bool> may_all(Client& client, const std::string& name_space,
                                        const std::vector<AccessQuestion>& questions,
                                        const std::string& as = "");

struct Identity {
  std::string name;
  std::vector<std::string> groups;
};

// Sends a SelfSubjectReview. Returns the name and the groups under which the server knows our user.
Identity whoami(Client& client);
// Sends it at once, and waits for the answer in get(), in the thread that calls get(). The client must live
// until then.
std::future<Identity> ask_whoami(Client& client);

struct ServerVersion {
  int major = 0, minor = 0;
  std::string text;  // "v1.37.1"
};

// Throws ApiError, also when the answer at /version is not from a Kubernetes API server.
ServerVersion server_version(Client& client);

// Throws Error{cluster} when `version` is older than `major`.`minor`. Pure.
void require_version(const ServerVersion& version, int major, int minor);

}  // namespace mlk::kube
