#include "cli/http/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "cli/util/text.h"

namespace mlk::http {
namespace {

int on_verify(X509_STORE_CTX* store, void* argument) {
  const int good = X509_verify_cert(store);
  if (good == 1) return good;
  auto& problem = *static_cast<CertificateProblem*>(argument);
  problem.error = X509_STORE_CTX_get_error(store);
  problem.text = X509_verify_cert_error_string(problem.error);
  problem.issuer.clear();
  if (X509* certificate = X509_STORE_CTX_get_current_cert(store)) {
    char name[256] = {};
    X509_NAME_oneline(X509_get_issuer_name(certificate), name, sizeof name - 1);
    problem.issuer = printable(name);
  }
  return good;
}

CURLcode on_ssl_context(CURL*, void* context, void* problem) {
  SSL_CTX_set_cert_verify_callback(static_cast<SSL_CTX*>(context), on_verify, problem);
  return CURLE_OK;
}

}  // namespace

void set_verification(CURL* easy, bool insecure, CertificateProblem& problem) {
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (insecure) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  } else {
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &on_ssl_context);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, &problem);
  }
}

}  // namespace mlk::http
