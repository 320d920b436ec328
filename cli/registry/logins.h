// Finds logins for registries: in the files that `docker login`, `podman login` and `skopeo login` write, and
// with the helpers that these files name.
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

// A login for a registry. Never print it.
struct Login {
  std::string user, password;
  std::string identity_token;  // in place of user and password; mlk exchanges it for access tokens
};

// A config.json of Docker, or an auth.json of Podman and similar tools. The format of auth.json is a subset
// of the format of config.json.
struct LoginFile {
  std::map<std::string, Login> logins;         // by registry, or registry/repository
  std::map<std::string, std::string> helpers;  // programs docker-credential-NAME, by registry
  std::string store;                           // the helper for all other registries; empty: none
};

// Throws Error{failure}. The message contains `name`, but no part of the text.
LoginFile parse_login_file(std::string_view text, const std::string& name);

// The keys under which a file may hold a login for the repository, the most specific first.
std::vector<std::string> login_keys(const image::Reference& reference);

// The login that a helper has printed for `get`; nullopt if the output has no login. Throws Error{failure}.
std::optional<Login> parse_helper_answer(std::string_view output, const std::string& helper);

// The files of logins, in the order in which mlk reads them. `env`: the value of a variable, "" when unset.
std::vector<std::filesystem::path> login_files(const std::function<std::string(const std::string&)>& env);

// The first login in the files or from the helpers of the files. nullopt: there is none. Skips each helper
// that is not installed or cannot be executed, and describes the first such helper in `missing`. Waits 30 s
// at most for each helper. Throws Error{failure} for a file or a helper that cannot be used, and
// Error{interrupted} when go_on returns false.
std::optional<Login> find_login(const std::vector<std::filesystem::path>& files,
                                const image::Reference& reference, const std::function<bool()>& go_on,
                                std::string* missing = nullptr);

}  // namespace mlk::registry
