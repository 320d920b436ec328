// Reads and checks the fields of a kubeconfig's entry. Errors name the file and the entry, never a secret.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/kube/login/kubeconfig_file.h"
#include "cli/util/error.h"

namespace mlk::kube {

inline constexpr std::size_t credential_file_limit = 1u << 20;

Error entry_error(const std::string& what, const std::string& hint = "");  // Error{usage}

// Reads a boolean by the rules of YAML 1.1, which client-go uses.
bool boolean_field(const KubeconfigEntry& entry, const std::string& field, const std::string& what);

// Returns the content of the file that `field` names, or the decoded base64 of `field`-data. The path may be
// relative to the folder of the file that defines the entry. An entry with both fields is an error. Empty if
// the entry has neither.
std::string file_or_data(const KubeconfigEntry& entry, const std::string& field, const std::string& what);

// Whether the header of a request can hold the text: true if the text has no control characters.
bool fits_in_header(std::string_view text);
// Throws Error{usage} for a value that a header cannot hold.
void check_header_value(const std::string& value, const std::string& what);

}  // namespace mlk::kube
