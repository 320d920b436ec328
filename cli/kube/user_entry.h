// The user entry of a kubeconfig: all the ways to log in that it may hold, and which of them counts.
#pragma once

#include <string>

#include "cli/kube/kubeconfig.h"
#include "cli/kube/kubeconfig_file.h"

namespace mlk::kube {

// Fills the fields of `config` that say how to log in, by client-go's order: a token from a file, a token, a
// password; a provider or a program only where there is none of them, a program only without a client
// certificate too. Throws Error{usage} for what does not go together.
void read_user(const std::string& name, const KubeconfigEntry& user, Config& config);

}  // namespace mlk::kube
