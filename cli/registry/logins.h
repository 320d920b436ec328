// Where the logins of registries lie: the files that docker login, podman login and skopeo login write, and
// the helpers that they name.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/image/reference.h"

namespace mlk::registry {

// Never print one.
struct Login {
  std::string user, password;
  std::string identity_token;  // in place of both: it is exchanged for the tokens of requests
};

// A config.json of Docker, or an auth.json of the containers tools, which is a part of the same format.
struct LoginFile {
  std::map<std::string, Login> logins;         // by registry, or registry/repository
  std::map<std::string, std::string> helpers;  // programs docker-credential-NAME, by registry
  std::string store;                           // such a program for all others; may be empty
};

// Throws Error{failure}, naming `name` and nothing of the text.
LoginFile parse_login_file(std::string_view text, const std::string& name);

// Under which names a login for the repository may stand, the most special first.
std::vector<std::string> login_keys(const image::Reference& reference);

// What a helper has printed for `get`; nullopt: it has none. Throws Error{failure}.
std::optional<Login> parse_helper_answer(std::string_view output, const std::string& helper);

// The files in the order in which they are asked. `env`: the value of a variable, "" when unset.
std::vector<std::filesystem::path> login_files(const std::function<std::string(const std::string&)>& env);

// The first login that one of the files or its helper has; nullopt: there is none. A helper that is not
// installed has none, and `missing` says which. Waits for helpers, 30 s at most. Throws Error: failure for a
// file or a helper that cannot be used, interrupted when go_on says no.
std::optional<Login> find_login(const std::vector<std::filesystem::path>& files,
                                const image::Reference& reference, const std::function<bool()>& go_on,
                                std::string* missing = nullptr);

}  // namespace mlk::registry
