// The API server's description of itself: versions, groups, resources, OpenAPI. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::local {

// The document at `path` ("/version", "/api", "/apis/batch/v1", "/openapi/v3" ...); nullopt if there is none.
std::optional<nlohmann::json> discover(const std::string& path);

}  // namespace mlk::local
