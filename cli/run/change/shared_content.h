// Whether a shared object that others have made is what its name says: code runs with the rights of the user.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/kube/client.h"

namespace mlk {

// Whether a ConfigMap cannot be changed and holds nothing but one file whose sha256 is the digest; that of a
// file.gz may be of what is in it, since builds of mlk compress differently. Pure.
bool holds_digest(const nlohmann::json& config_map, const std::string& digest);

enum class SharedContent { good, changed_meanwhile };

// Reads the object that stands behind these metadata, and compares it with its digest. The content of one uid
// is read once: it cannot change. Throws Error: failure for another content.
SharedContent check_shared(kube::Client& client, const kube::Resource& resource,
                           const std::string& name_space, const nlohmann::json& metadata);

// Notes that this program has made the object with that content.
void note_own_content(const nlohmann::json& created);
bool is_known_content(const nlohmann::json& metadata);

}  // namespace mlk
