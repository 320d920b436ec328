// Authorities and certificates that live as long as a test.
#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

struct Certificate {
  std::shared_ptr<X509> x509;
  std::shared_ptr<EVP_PKEY> key;

  std::string pem() const {
    const std::shared_ptr<BIO> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_X509(bio.get(), x509.get());
    return text_of(bio.get());
  }
  std::string key_pem() const {
    const std::shared_ptr<BIO> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
  }

 private:
  static std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
  }
};

struct CertificateWish {
  std::string name = "test";
  std::string alternatives = "IP:127.0.0.1";  // empty: the certificate is an authority
  const Certificate* issuer = nullptr;        // null: self-signed
  long valid_seconds = 3600;                  // negative: the certificate has expired
};

inline Certificate make_certificate(const CertificateWish& wish) {
  Certificate made;
  made.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  made.x509.reset(X509_new(), X509_free);
  X509* x509 = made.x509.get();
  static long serial = 1;
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
  X509_gmtime_adj(X509_getm_notBefore(x509), -7200);
  X509_gmtime_adj(X509_getm_notAfter(x509), wish.valid_seconds);
  X509_set_pubkey(x509, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(wish.name.c_str()), -1, -1, 0);
  const Certificate& issuer = wish.issuer != nullptr ? *wish.issuer : made;
  X509_set_issuer_name(x509, X509_get_subject_name(issuer.x509.get()));
  const auto extend = [&](int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer.x509.get(), x509, nullptr, nullptr, 0);
    const std::shared_ptr<X509_EXTENSION> extension(
        X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()), X509_EXTENSION_free);
    X509_add_ext(x509, extension.get(), -1);
  };
  extend(NID_basic_constraints, wish.alternatives.empty() ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!wish.alternatives.empty()) extend(NID_subject_alt_name, wish.alternatives);
  X509_sign(x509, issuer.key.get(), EVP_sha256());
  return made;
}

inline Certificate make_authority(const std::string& name) {
  return make_certificate({name, "", nullptr, 3600});
}
