// What kept us from an answer, or from a good one, in words that help a researcher.
#pragma once

#include <chrono>
#include <string>

#include "cli/http/failure.h"
#include "cli/kube/client.h"
#include "cli/util/time.h"

namespace mlk::kube {

using http::Failure;

// Status 0, reason "Unreachable" or "NoCredentials"; 401 for credentials that are missing for good. Pure.
[[nodiscard]] ApiError unreachable_error(const Failure& failure, const Config& config);

// The error that an answer over 399 means. `what` is what was asked for: "pods in namespace x". `now` tells
// whether refused credentials have expired. Pure.
[[nodiscard]] ApiError status_error(int status, const std::string& body, const std::string& what,
                                    const Config* config, Time now = std::chrono::system_clock::now());

// Whether the same request may get a good answer later: there was none (status 0), or it was 429 or 5xx.
// Pure.
[[nodiscard]] constexpr bool may_pass(int status) { return status == 0 || status == 429 || status >= 500; }

}  // namespace mlk::kube
