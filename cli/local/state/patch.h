// The patches of PATCH requests: JSON, merge, strategic and apply patches. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::local {

// The patched `object`. `content_type` determines the kind of the patch `body`. An apply patch is merged like
// a strategic patch. Throws StatusError 400 for an invalid body, 415 for another content type, 422 for a JSON
// patch that cannot be applied to the object, 413 for a JSON patch that copies more than 3 MiB.
nlohmann::json apply_patch(const std::string& content_type, const nlohmann::json& object,
                           const std::string& body);

bool is_apply_patch(const std::string& content_type);

// Parses JSON with a limit on its depth. Throws StatusError 400.
nlohmann::json parse_body(const std::string& body);

}  // namespace mlk::local
