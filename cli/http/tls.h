// Checks a server's certificate, and finds out why it was refused. libcurl's own message does not name the
// authority.
#pragma once

#include <string>

#include <curl/curl.h>

namespace mlk::http {

// The fault of the certificate that was refused last.
struct CertificateProblem {
  long error = 0;      // X509_V_ERR_...
  std::string text;    // OpenSSL's text for `error`
  std::string issuer;  // of the certificate where the check stopped
};

// Requires TLS 1.2 or newer. The usual check of the server's certificate writes its error to `problem`, which
// must outlive the handle. With `insecure`, there is no check.
void set_verification(CURL* easy, bool insecure, CertificateProblem& problem);

}  // namespace mlk::http
