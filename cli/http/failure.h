// The reason for which there is no answer.
#pragma once

#include <string>

#include <curl/curl.h>

#include "cli/http/tls.h"

namespace mlk::http {

struct Failure {
  enum class Kind {
    none,
    resolve,  // no such host
    proxy,
    refused,  // no process listens
    no_route,
    timed_out,           // no connection, or no answer in time
    untrusted,           // the server's certificate: its authority
    expired,             // ... its dates
    host_name,           // ... its names
    client_certificate,  // ours, or its authority's, cannot be used
    credentials,         // there are none
    tls,
    broken,  // the connection ended before the answer did
    too_large,
    closed,  // the loop was stopped
    other,
  };
  Kind kind = Kind::none;
  std::string detail{};   // lower case, no full stop; from libcurl, OpenSSL or a source of credentials
  std::string hint{};     // from a source of credentials
  bool for_good = false;  // trying again cannot help
};

// The meaning of a result of libcurl. `text`: its own words, may be empty. `os_error`: CURLINFO_OS_ERRNO.
// Pure.
[[nodiscard]] Failure failure_of(CURLcode code, const std::string& text, int os_error,
                                 const CertificateProblem& problem);

}  // namespace mlk::http
