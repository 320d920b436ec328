// Turns a failed request, or an answer that is an error, into words that help a researcher.
#pragma once

#include <chrono>
#include <string>

#include "cli/http/failure.h"
#include "cli/kube/client.h"
#include "cli/util/time.h"

namespace mlk::kube {

using http::Failure;

// Makes an error with the reason "Unreachable" or "NoCredentials". The error has the status 401 if
// credentials are missing and a retry cannot help, and otherwise the status 0. Pure.
[[nodiscard]] ApiError unreachable_error(const Failure& failure, const Config& config);

// The error for an answer that is no success. `what` names the requested object: "pods in namespace x". `now`
// decides whether refused credentials have expired. Pure.
[[nodiscard]] ApiError status_error(int status, const std::string& body, const std::string& what,
                                    const Config* config, Time now = std::chrono::system_clock::now());

// Whether a retry of the same request may succeed later: true for status 0 (no answer), 429, and every status
// from 500 on. Pure.
[[nodiscard]] constexpr bool may_pass(int status) { return status == 0 || status == 429 || status >= 500; }

}  // namespace mlk::kube
