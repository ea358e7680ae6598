// OpenSSL's objects as values that free themselves. For the .cc files of this module alone.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::trust::detail {

template <auto free_it>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    free_it(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Freer<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Freer<X509_REQ_free>>;

// What OpenSSL says about its last failure; empties its queue. Names no bytes of keys.
inline std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason ? reason : "unknown reason";
}

Result<CertificatePtr> certificate_of(const std::string& pem, const std::string& what);
Result<KeyPtr> key_of(const std::string& pem, const std::string& what);
Result<std::string> pem_of(X509* certificate);

std::chrono::sys_seconds time_of(const ASN1_TIME* time);
// "paris": the common name, without anything that a terminal would obey.
std::string common_name(const X509_NAME* name);

}  // namespace tombolo::trust::detail
