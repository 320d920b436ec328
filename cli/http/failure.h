// The reason why there is no answer.
#pragma once

#include <string>

#include <curl/curl.h>

#include "cli/http/proxy.h"
#include "cli/http/tls.h"

namespace mlk::http {

struct Failure {
  enum class Kind {
    none,
    resolve,  // the host name cannot be resolved
    proxy,    // the proxy is at fault
    refused,  // no process listens at the address
    no_route,
    timed_out,           // no connection, or no answer in time
    untrusted,           // the authority of the server's certificate is not trusted
    expired,             // the server's certificate has expired, or is not valid yet
    host_name,           // the server's certificate is for other names
    authority,           // the certificates of the trusted authorities cannot be read
    client_certificate,  // our certificate cannot be used
    credentials,         // no credential is available
    tls,
    handshake,  // the connection ended within the TLS handshake: the request was not sent
    broken,     // the connection ended before the answer was complete
    silent,     // abandoned: no data came for a long time, while another connection got an answer
    too_large,
    closed,  // the caller has stopped the loop or the exchange
    other,
  };
  Kind kind = Kind::none;
  std::string detail{};   // for a message: lower case, no full stop; may be empty
  std::string hint{};     // about the proxy, or from a source of credentials
  bool for_good = false;  // a retry cannot help
};

// The failure for a result code of libcurl. `text`: the text in libcurl's error buffer, may be empty.
// `os_error`: CURLINFO_OS_ERRNO. Pure.
[[nodiscard]] Failure failure_of(CURLcode code, const std::string& text, int os_error,
                                 const CertificateProblem& problem);

// The failure of a request that mlk has sent by way of `proxy`. If the proxy is at fault, or may be at fault,
// the result names the proxy. `answered`: the status of the proxy's answer to CONNECT, 0 without an answer.
// Pure.
[[nodiscard]] Failure blame_proxy(Failure failure, const Proxy& proxy, long answered);

}  // namespace mlk::http
