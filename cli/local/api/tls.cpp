#include "cli/local/api/tls.h"

#include <memory>

#include <nlohmann/json.hpp>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"

namespace mlk::local {
namespace {

using nlohmann::json;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

void require(bool good) {
  if (!good) throw Error(ExitCode::failure, "cannot make the certificates of the local cluster");
}

void add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

// A certificate for `key`, signed with `issuer_key`. If `issuer` is null, the certificate names itself as its
// issuer.
Certificate make_certificate(const char* name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key) {
  Certificate certificate(X509_new());
  require(certificate != nullptr);
  X509_set_version(certificate.get(), 2);
  const std::string serial = random_bytes(16);
  std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()), static_cast<int>(serial.size()),
                nullptr),
      BN_free);
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  // The certificate is also valid in the past, since the clock of a laptop may be set back by hours.
  constexpr long ten_years = 10L * 365 * 24 * 3600;
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -ten_years);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), ten_years);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  X509_set_issuer_name(certificate.get(), issuer != nullptr ? X509_get_subject_name(issuer) : subject);
  require(X509_set_pubkey(certificate.get(), key) == 1);
  X509* signer = issuer != nullptr ? issuer : certificate.get();
  if (issuer == nullptr) {
    add_extension(certificate.get(), signer, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate.get(), signer, NID_key_usage, "critical,keyCertSign");
  } else {
    add_extension(certificate.get(), signer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(certificate.get(), signer, NID_ext_key_usage, "serverAuth");
    add_extension(certificate.get(), signer, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  }
  require(X509_sign(certificate.get(), issuer_key, EVP_sha256()) > 0);
  return certificate;
}

template <class Write>
std::string pem(const Write& write) {
  const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  require(bio != nullptr && write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bool is_valid_now(const std::string& certificate) {
  const std::unique_ptr<BIO, Free> bio(
      BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const Certificate read(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  return read != nullptr && X509_cmp_current_time(X509_get0_notBefore(read.get())) < 0 &&
         X509_cmp_current_time(X509_get0_notAfter(read.get())) > 0;
}

}  // namespace

Credentials make_credentials() {
  const Key ca_key(EVP_EC_gen("P-256")), key(EVP_EC_gen("P-256"));
  require(ca_key != nullptr && key != nullptr);
  const Certificate ca = make_certificate("mlk-local-ca", ca_key.get(), nullptr, ca_key.get());
  const Certificate certificate = make_certificate("mlk-local", key.get(), ca.get(), ca_key.get());
  Credentials result;
  result.ca = pem([&](BIO* bio) { return PEM_write_bio_X509(bio, ca.get()); });
  result.certificate = pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
  result.key = pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  result.token = hex(random_bytes(32));
  return result;
}

Credentials load_credentials(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) {
    const json saved = json_or_null(read_file(file, 1 << 20));
    if (saved.is_object() && is_valid_now(saved.at("ca")) && is_valid_now(saved.at("certificate")))
      return {saved.at("ca"), saved.at("certificate"), saved.at("key"), saved.at("token")};
  }
  const Credentials made = make_credentials();
  const json saved = {
      {"ca", made.ca}, {"certificate", made.certificate}, {"key", made.key}, {"token", made.token}};
  write_file_atomically(file, saved.dump(), 0600);
  return made;
}

std::string kubeconfig_text(const Credentials& credentials, const std::string& server_url) {
  const std::string name = "mlk-local";
  const json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", name},
      {"clusters", json::array({{{"name", name},
                                 {"cluster",
                                  {{"server", server_url},
                                   {"certificate-authority-data", base64_encode(credentials.ca)}}}}})},
      {"users", json::array({{{"name", name}, {"user", {{"token", credentials.token}}}}})},
      {"contexts",
       json::array(
           {{{"name", name}, {"context", {{"cluster", name}, {"user", name}, {"namespace", "default"}}}}})},
      {"preferences", json::object()}};
  return config.dump(2) + "\n";
}

}  // namespace mlk::local
