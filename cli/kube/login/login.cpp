#include "cli/kube/login/login.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "cli/kube/login/entry_fields.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

std::string login_word(Login login) {
  switch (login) {
    case Login::token:
      return "token";
    case Login::token_file:
      return "token file";
    case Login::service_account:
      return "service account";
    case Login::oidc:
      return "oidc";
    case Login::basic:
      return "basic";
    case Login::exec:
      return "exec plugin";
    case Login::none:
      break;
  }
  return "none";
}

// Without this, OpenSSL would ask for a password on the terminal.
int no_password(char*, int, int, void*) { return 0; }

}  // namespace

LoginView login_of(const Config& config) {
  LoginView view;
  view.way = login_word(config.login);
  if (config.exec) view.plugin = config.exec->command;
  view.expires = end_of({config.token, config.client_certificate_pem, config.client_key_pem});
  if (config.client_certificate_pem.empty()) return view;
  view.way = config.login == Login::none ? "client certificate" : "client certificate and " + view.way;
  return view;
}

std::string text_of_end(Time end, Time now) {
  const auto left = std::chrono::floor<std::chrono::seconds>(end - now);
  const bool over = left.count() < 0;
  return (over ? "expired " : "until ") + format_time(end) + " (" + format_duration(over ? -left : left) +
         (over ? " ago)" : " left)");
}

std::optional<Time> end_of(const Credential& credential) {
  if (credential.expires) return credential.expires;
  const std::optional<Time> token = token_end(credential.token);
  const std::optional<Time> certificate = certificate_end(credential.certificate_pem);
  return token && certificate ? std::min(*token, *certificate) : token ? token : certificate;
}

std::optional<Time> certificate_end(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(std::min(pem.size(), credential_file_limit))), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, &no_password, nullptr), &X509_free);
  std::tm end{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return std::nullopt;
  }
  return later(Time{}, ::timegm(&end));
}

std::optional<Time> token_end(const std::string& token) {
  const std::vector<std::string> parts = split(token, '.');
  if (parts.size() != 3) return std::nullopt;
  std::string payload = parts[1];
  std::replace(payload.begin(), payload.end(), '-', '+');
  std::replace(payload.begin(), payload.end(), '_', '/');
  payload.resize((payload.size() + 3) / 4 * 4, '=');
  try {
    const nlohmann::json claims = json_or_null(base64_decode(payload));
    const auto end = claims.find("exp");  // end() also if the claims are no object
    if (end == claims.end() || !end->is_number()) return std::nullopt;
    const double seconds = end->get<double>();
    if (!(seconds >= 0 && seconds < 1e15)) return std::nullopt;
    return later(Time{}, static_cast<std::int64_t>(seconds));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace mlk::kube
