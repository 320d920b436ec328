// Checks that a shared object has the content that its name says. Another user may have created the object,
// and its code will run with the rights of the present user.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/kube/client.h"

namespace mlk {

// Whether a ConfigMap is immutable and holds exactly one file, whose sha256 is the digest. If the file is a
// .gz, the digest may also be the sha256 of its uncompressed content, since builds of mlk compress
// differently. Pure.
bool holds_digest(const nlohmann::json& config_map, const std::string& digest);

enum class SharedContent { good, changed_meanwhile };

// Reads the object with these metadata, and compares its content with its digest. Reads the content of each
// uid only once, since the content of an immutable object cannot change. Throws Error: failure if the content
// is different.
SharedContent check_shared(kube::Client& client, const kube::Resource& resource,
                           const std::string& name_space, const nlohmann::json& metadata);

// Remembers that this process has created the object, so that check_shared() does not read its content.
void note_own_content(const nlohmann::json& created);
bool is_known_content(const nlohmann::json& metadata);

}  // namespace mlk
