// Turns a failed request, or an answer that is an error, into words that help a researcher.
#pragma once

#include <chrono>
#include <string>

#include "cli/http/failure.h"
#include "cli/kube/client.h"
#include "cli/util/time.h"

namespace mlk::kube {

using http::Failure;

// An error with status 0 and reason "Unreachable" or "NoCredentials"; status 401 if no retry can bring
// credentials. Pure.
[[nodiscard]] ApiError unreachable_error(const Failure& failure, const Config& config);

// The error for an answer over 399. `what` names the requested object: "pods in namespace x". `now` decides
// whether refused credentials have expired. Pure.
[[nodiscard]] ApiError status_error(int status, const std::string& body, const std::string& what,
                                    const Config* config, Time now = std::chrono::system_clock::now());

// Whether the same request may get a good answer later: there was no answer (status 0), or it was 429 or 5xx.
// Pure.
[[nodiscard]] constexpr bool may_pass(int status) { return status == 0 || status == 429 || status >= 500; }

}  // namespace mlk::kube
