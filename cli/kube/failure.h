// What kept us from an answer, or from a good one, in words that help a researcher.
#pragma once

#include <string>

#include "cli/kube/client.h"

namespace mlk::kube {

// Why an exchange brought no answer.
struct Failure {
  enum class Kind {
    none,
    resolve,  // no such host
    proxy,
    refused,  // nobody listens
    no_route,
    timed_out,           // no connection, or no answer in time
    untrusted,           // the server's certificate: its authority
    expired,             // ... its dates
    host_name,           // ... its names
    client_certificate,  // ours, or the authority's, cannot be used
    credentials,         // there are none: no plugin, or a bad answer of it
    tls,
    broken,  // the connection ended before the answer did
    too_large,
    closed,  // the client was destroyed
    other,
  };
  Kind kind = Kind::none;
  std::string detail;     // lower case, no full stop; of libcurl, OpenSSL or a plugin
  std::string hint{};     // of a plugin
  bool for_good = false;  // trying again cannot help
};

// Status 0, reason "Unreachable" or "NoCredentials"; 401 for credentials that are missing for good. Pure.
ApiError unreachable_error(const Failure& failure, const Config& config);

// The error that an answer over 399 means. `what` is what was asked for: "pods in namespace x". Pure.
ApiError status_error(int status, const std::string& body, const std::string& what, const Config* config);

}  // namespace mlk::kube
