// Finds out why a server's certificate was refused. libcurl's own message does not name the authority.
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

// Makes the usual check of the server's certificate write its error to `problem`, which must outlive the
// handle.
void note_certificate_problems(CURL* easy, CertificateProblem& problem);

}  // namespace mlk::http
