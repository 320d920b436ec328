// The reason for which there is no answer.
#pragma once

#include <string>

#include <curl/curl.h>

#include "cli/http/proxy.h"
#include "cli/http/tls.h"

namespace mlk::http {

struct Failure {
  enum class Kind {
    none,
    resolve,  // no such host
    proxy,    // there is one in between, and it is at fault
    refused,  // no process listens
    no_route,
    timed_out,           // no connection, or no answer in time
    untrusted,           // the server's certificate: its authority
    expired,             // ... its dates
    host_name,           // ... its names
    client_certificate,  // ours, or its authority's, cannot be used
    credentials,         // there are none
    tls,
    handshake,  // the connection ended within the one of TLS: the request was not sent
    broken,     // the connection ended before the answer did
    silent,     // nothing came over it for long, while another one was answered: it was left
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

// The same failure of a request that went this way: what is the proxy's is told as the proxy's. `answered`:
// the status of its answer to CONNECT, 0 without one. Pure.
[[nodiscard]] Failure told_of(Failure failure, const Proxy& proxy, long answered);

}  // namespace mlk::http
