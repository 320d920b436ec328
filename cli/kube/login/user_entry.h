// Reads the user entry of a kubeconfig: all ways to log in that the entry may contain, and their precedence.
#pragma once

#include <string>

#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/login/kubeconfig_file.h"

namespace mlk::kube {

// Fills the login fields of `config`. Uses the first of these that the entry has, in client-go's order: a
// token from a file, a token, a password, a provider, a plugin. A client certificate also has precedence over
// a plugin. Throws Error{usage} for fields that conflict or cannot be used.
void read_user(const std::string& name, const KubeconfigEntry& user, Config& config);

}  // namespace mlk::kube
