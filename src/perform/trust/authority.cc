#include "perform/trust/authority.h"

#include <algorithm>

#include "base/file.h"
#include "perform/trust/openssl.h"

namespace tombolo::trust {
namespace {

using detail::BioPtr;
using detail::CertificatePtr;
using detail::KeyPtr;
using detail::openssl_reason;
using detail::RequestPtr;

constexpr int64_t kRequestMax = 16 * 1024;
constexpr std::chrono::hours kClocksDiffer{1};
constexpr const char* kAuthorityName = "Tombolo authority";

Error no_certificate() {
  return {ErrorCode::kFailed, "cannot make a certificate: " + openssl_reason(), {}, {}};
}

std::string authority_key_path(const std::string& directory) {
  return directory + "/authority.key";
}

Result<KeyPtr> make_key() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return failed("cannot make a key: " + openssl_reason());
  return key;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

Result<std::string> pem_of_key(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("cannot write a key: " + openssl_reason());
  return text_of(bio.get());
}

struct Extension {
  int kind;
  const char* value;
};

// A certificate about `subject` and its key; issuer and signature are the caller's.
Result<CertificatePtr> draft(EVP_PKEY* key, const std::string& subject, const Validity& validity) {
  CertificatePtr out(X509_new());
  X509* c = out.get();
  const std::unique_ptr<BIGNUM, detail::Freer<BN_free>> serial(BN_new());
  X509_NAME* name = X509_get_subject_name(c);
  const auto when = [](WallTime time) {
    return static_cast<time_t>(time.time_since_epoch().count());
  };
  const bool made =
      X509_set_version(c, X509_VERSION_3) == 1 &&
      BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(c)) != nullptr &&
      ASN1_TIME_set(X509_getm_notBefore(c), when(validity.from)) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(c), when(validity.until)) != nullptr &&
      X509_set_pubkey(c, key) == 1 &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(subject.data()),
                                 static_cast<int>(subject.size()), -1, 0) == 1;
  if (!made) return fail(no_certificate());
  return out;
}

Status seal(X509* certificate, X509* issuer, EVP_PKEY* issuer_key,
            std::initializer_list<Extension> extensions) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1)
    return fail(no_certificate());
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const Extension& extension : extensions) {
    const std::unique_ptr<X509_EXTENSION, detail::Freer<X509_EXTENSION_free>> made(
        X509V3_EXT_conf_nid(nullptr, &context, extension.kind, extension.value));
    if (!made || X509_add_ext(certificate, made.get(), -1) != 1) return fail(no_certificate());
  }
  if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) return fail(no_certificate());
  return {};
}

}  // namespace

Validity host_validity(WallTime now) { return {now - kClocksDiffer, now + kHostLasts}; }

Result<SigningRequest> make_request(const std::string& key_pem) {
  const KeyPtr key = key_pem.empty() ? TRY(make_key()) : TRY(detail::key_of(key_pem, "host.key"));
  const RequestPtr request(X509_REQ_new());
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1)
    return failed("cannot make a signing request: " + openssl_reason());
  return SigningRequest{TRY(pem_of_key(key.get())), text_of(bio.get())};
}

Result<Authority> Authority::create(WallTime now) {
  const KeyPtr key = TRY(make_key());
  const CertificatePtr certificate =
      TRY(draft(key.get(), kAuthorityName, {now - kClocksDiffer, now + kAuthorityLasts}));
  TRY(seal(certificate.get(), certificate.get(), key.get(),
           {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
            {NID_key_usage, "critical,keyCertSign,cRLSign"},
            {NID_subject_key_identifier, "hash"}}));
  return Authority(TRY(detail::pem_of(certificate.get())), TRY(pem_of_key(key.get())));
}

Result<Authority> Authority::load(const std::string& directory) {
  auto key = read_secret(authority_key_path(directory));
  if (!key) {
    return fail(Error(key.error()).during("looking for the authority, which one host has"));
  }
  Authority authority(TRY(read_file(directory + "/authority.pem", kRequestMax)), std::move(*key));
  const auto certificate = TRY(detail::certificate_of(authority.certificate_, "authority.pem"));
  const auto private_key = TRY(detail::key_of(authority.key_, "authority.key"));
  if (X509_check_private_key(certificate.get(), private_key.get()) != 1) {
    ERR_clear_error();
    return unusable(directory + ": authority.key is not the key of authority.pem");
  }
  return authority;
}

Status Authority::save(const std::string& directory) const {
  return save_secret(authority_key_path(directory), key_);
}

Result<std::string> Authority::sign(const std::string& request, const std::string& name,
                                    const Validity& validity) const {
  TRY(check_name(name));
  if (request.size() > kRequestMax) return unusable("the signing request is too long");
  const BioPtr bio(BIO_new_mem_buf(request.data(), static_cast<int>(request.size())));
  const RequestPtr asked(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* key = asked ? X509_REQ_get0_pubkey(asked.get()) : nullptr;
  if (!key || EVP_PKEY_is_a(key, "EC") != 1 || X509_REQ_verify(asked.get(), key) != 1) {
    ERR_clear_error();
    return unusable("this is no signing request of a host");
  }
  const auto issuer = TRY(detail::certificate_of(certificate_, "authority.pem"));
  const auto issuer_key = TRY(detail::key_of(key_, "authority.key"));
  const CertificatePtr certificate = TRY(draft(key, name, validity));
  const std::string names = "DNS:" + name;
  TRY(seal(certificate.get(), issuer.get(), issuer_key.get(),
           {{NID_basic_constraints, "critical,CA:FALSE"},
            {NID_key_usage, "critical,digitalSignature"},
            {NID_ext_key_usage, "serverAuth,clientAuth"},
            {NID_subject_key_identifier, "hash"},
            {NID_authority_key_identifier, "keyid"},
            {NID_subject_alt_name, names.c_str()}}));
  return detail::pem_of(certificate.get());
}

Result<Credentials> Authority::renew(const Credentials& credentials, WallTime now) const {
  const auto old = TRY(detail::certificate_of(credentials.certificate, "host.pem"));
  const SigningRequest own = TRY(make_request(credentials.key));
  std::string certificate = TRY(
      sign(own.request, detail::common_name(X509_get_subject_name(old.get())), host_validity(now)));
  return Credentials{certificate_, std::move(certificate), credentials.key, credentials.refused};
}

Result<Credentials> Authority::issue(const std::string& name, const Validity& validity) const {
  SigningRequest own = TRY(make_request());
  std::string certificate = TRY(sign(own.request, name, validity));
  return Credentials{certificate_, std::move(certificate), std::move(own.key), {}};
}

}  // namespace tombolo::trust
