#include "perform/trust/secure_stream.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "perform/trust/openssl.h"

namespace tombolo::trust {

using detail::openssl_reason;

namespace {

constexpr size_t kUnauthenticatedInput = 4 * 1024;
constexpr size_t kPeerInput = 64 * 1024;
constexpr size_t kUnauthenticatedMax = 32 * 1024;  // bytes of a handshake
constexpr size_t kChainMax = 16 * 1024;            // bytes of certificates
constexpr size_t kRecordMax = 16 * 1024;
constexpr const char* kCiphers =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

using ContextPtr = std::unique_ptr<SSL_CTX, detail::Freer<SSL_CTX_free>>;

}  // namespace

struct SecureContext::State {
  ContextPtr context;
  std::string fingerprint;  // of the authority, for a joiner; else empty
  std::set<std::string> refused;
};

struct SecureStream::Session {
  std::unique_ptr<SSL, detail::Freer<SSL_free>> ssl;
  std::string authority;  // that a joiner was shown
};

// --- What OpenSSL calls -------------------------------------------------------------------------

struct SecureStream::Glue {
  static int write(BIO* bio, const char* data, int size) {
    auto* self = static_cast<SecureStream*>(BIO_get_data(bio));
    const auto bytes = std::as_bytes(std::span(data, static_cast<size_t>(size)));
    self->output_.insert(self->output_.end(), bytes.begin(), bytes.end());
    return size;
  }

  static int read(BIO* bio, char* data, int size) {
    auto* self = static_cast<SecureStream*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const size_t n = std::min(static_cast<size_t>(size), self->committed_ - self->opened_);
    if (n == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(data, self->input_.data() + self->opened_, n);
    self->opened_ += n;
    return static_cast<int>(n);
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO* bio(SecureStream* self) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tombolo");
      BIO_meth_set_write(made, write);
      BIO_meth_set_read(made, read);
      BIO_meth_set_ctrl(made, control);
      return made;
    }();
    BIO* out = BIO_new(method);
    BIO_set_data(out, self);
    BIO_set_init(out, 1);
    return out;
  }

  static SecureStream& stream_of(X509_STORE_CTX* verification) {
    void* ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    return *static_cast<SecureStream*>(SSL_get_app_data(static_cast<SSL*>(ssl)));
  }

  // Remembers in words what is wrong. Signatures are checked before times, so the name of a
  // certificate that has expired is one that our authority gave.
  static int judge(int good, X509_STORE_CTX* verification) {
    SecureStream& self = stream_of(verification);
    const X509* certificate = X509_STORE_CTX_get_current_cert(verification);
    const std::string name =
        certificate ? detail::common_name(X509_get_subject_name(certificate)) : "";
    if (good == 1) {
      const bool is_host = X509_STORE_CTX_get_error_depth(verification) == 0;
      if (!is_host || !self.context_->state_->refused.contains(name)) return 1;
      X509_STORE_CTX_set_error(verification, X509_V_ERR_CERT_REVOKED);
    }
    std::string& words = self.objection_;
    const int reason = X509_STORE_CTX_get_error(verification);
    switch (reason) {
      case X509_V_ERR_CERT_REVOKED:
        words = fmt::format("its certificate is of \"{}\", which this host refuses", name);
        break;
      case X509_V_ERR_CERT_HAS_EXPIRED:
        words = fmt::format("its certificate, of \"{}\", expired on {}", name,
                            date(detail::time_of(X509_get0_notAfter(certificate))));
        break;
      case X509_V_ERR_CERT_NOT_YET_VALID:
        words = fmt::format("its certificate, of \"{}\", is valid only from {}", name,
                            date(detail::time_of(X509_get0_notBefore(certificate))));
        break;
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        words = "its certificate is of another authority";
        break;
      default:
        words =
            fmt::format("its certificate is no good: {}", X509_verify_cert_error_string(reason));
    }
    return 0;
  }

  // A joiner trusts the authority whose fingerprint it was told, and takes the certificate from
  // what it is shown.
  static int find_authority(X509_STORE_CTX* verification, void* state) {
    SecureStream& self = stream_of(verification);
    const std::string& wanted = static_cast<SecureContext::State*>(state)->fingerprint;
    STACK_OF(X509)* shown = X509_STORE_CTX_get0_untrusted(verification);
    for (int i = 0; i < sk_X509_num(shown); ++i) {
      X509* one = sk_X509_value(shown, i);
      const auto pem = detail::pem_of(one);
      if (!pem || fingerprint_of(*pem).value_or("") != wanted) continue;
      STACK_OF(X509)* trusted = sk_X509_new_null();
      sk_X509_push(trusted, one);
      X509_STORE_CTX_set0_trusted_stack(verification, trusted);
      X509_STORE_CTX_set_verify_cb(verification, judge);
      const int good = X509_verify_cert(verification);
      sk_X509_free(trusted);
      if (good == 1) self.session_->authority = *pem;
      return good == 1 ? 1 : 0;
    }
    self.objection_ = "it does not have the authority that the token names";
    X509_STORE_CTX_set_error(verification, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
    return 0;
  }
};

// --- Contexts -----------------------------------------------------------------------------------

namespace {

// Nothing is resumed: every connection proves itself.
Result<ContextPtr> bare_context() {
  ContextPtr made(SSL_CTX_new(TLS_method()));
  SSL_CTX* c = made.get();
  if (!c || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(c, kCiphers) != 1 || SSL_CTX_set_num_tickets(c, 0) != 1)
    return failed("cannot begin with TLS 1.3: " + openssl_reason());
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, kChainMax);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  return made;
}

// The authority goes along: a joiner looks for it.
Status show(SSL_CTX* context, const Credentials& credentials) {
  const auto own = TRY(detail::certificate_of(credentials.certificate, "host.pem"));
  const auto key = TRY(detail::key_of(credentials.key, "host.key"));
  const auto authority = TRY(detail::certificate_of(credentials.authority, "authority.pem"));
  if (SSL_CTX_use_certificate(context, own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_add1_chain_cert(context, authority.get()) != 1 ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1)
    return unusable("these credentials are no good: " + openssl_reason());
  return {};
}

}  // namespace

SecureContext::SecureContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
SecureContext::~SecureContext() = default;

Result<std::shared_ptr<const SecureContext>> SecureContext::create(const Credentials& credentials) {
  ContextPtr context = TRY(bare_context());
  TRY(show(context.get(), credentials));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     SecureStream::Glue::judge);
  return std::shared_ptr<const SecureContext>(new SecureContext(
      std::make_unique<State>(State{std::move(context), "", credentials.refused})));
}

Result<std::shared_ptr<const SecureContext>> SecureContext::for_inviter(
    const Credentials& credentials) {
  ContextPtr context = TRY(bare_context());
  TRY(show(context.get(), credentials));
  return std::shared_ptr<const SecureContext>(
      new SecureContext(std::make_unique<State>(State{std::move(context), "", {}})));
}

Result<std::shared_ptr<const SecureContext>> SecureContext::for_joiner(std::string fingerprint) {
  auto state = std::make_unique<State>(State{TRY(bare_context()), std::move(fingerprint), {}});
  SSL_CTX_set_verify(state->context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(state->context.get(), SecureStream::Glue::find_authority,
                                   state.get());
  return std::shared_ptr<const SecureContext>(new SecureContext(std::move(state)));
}

// --- The stream ---------------------------------------------------------------------------------

SecureStream::SecureStream(std::shared_ptr<const SecureContext> context, Role role)
    : context_(std::move(context)),
      session_(std::make_unique<Session>()),
      input_(kUnauthenticatedInput) {
  session_->ssl.reset(SSL_new(context_->state_->context.get()));
  SSL* ssl = session_->ssl.get();
  CHECK(ssl, "no memory for a TLS connection");
  BIO* bio = Glue::bio(this);
  SSL_set_bio(ssl, bio, bio);  // takes it
  SSL_set_app_data(ssl, this);
  if (role == Role::kAnswers) {
    SSL_set_accept_state(ssl);
  } else {
    SSL_set_connect_state(ssl);
    static_cast<void>(shake_hands());  // says its first words
  }
}

SecureStream::~SecureStream() = default;

std::span<std::byte> SecureStream::space() {
  opened_ = committed_ = 0;
  return input_;
}

void SecureStream::commit(size_t bytes) {
  CHECK(bytes <= input_.size(), "{} bytes committed where {} fit", bytes, input_.size());
  committed_ = bytes;
  if (!ready_) unauthenticated_bytes_ += bytes;
}

void SecureStream::widen() {
  if (input_.size() < kPeerInput) input_.resize(kPeerInput);
}

Result<bool> SecureStream::shake_hands() {
  if (unauthenticated_bytes_ > kUnauthenticatedMax) {
    failure_ = Error{ErrorCode::kFailed,
                     fmt::format("its TLS handshake is longer than {} bytes", kUnauthenticatedMax),
                     {},
                     {}};
    return fail(*failure_);
  }
  ERR_clear_error();
  const int result = SSL_do_handshake(session_->ssl.get());
  if (result == 1) return ready_ = true;
  if (SSL_get_error(session_->ssl.get(), result) == SSL_ERROR_WANT_READ) return false;
  return fail(explain(result));
}

Result<size_t> SecureStream::open(std::span<std::byte> to) {
  if (failure_) return fail(*failure_);
  if (!ready_ && !TRY(shake_hands())) return 0;
  size_t sum = 0;
  while (sum < to.size() && !heard_end_) {
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(session_->ssl.get(), to.data() + sum, to.size() - sum, &got);
    const int error = SSL_get_error(session_->ssl.get(), result);
    if (result == 1) {
      sum += got;
    } else if (error == SSL_ERROR_WANT_READ) {
      break;
    } else if (error == SSL_ERROR_ZERO_RETURN) {
      heard_end_ = true;
    } else {
      explain(result);
      if (sum == 0) return fail(*failure_);
      break;  // what came before counts; the next call tells
    }
  }
  return sum;
}

namespace {

// Alerts about bytes, not about who sent them.
bool says_damage(int alert) {
  switch (alert) {
    case SSL_AD_UNEXPECTED_MESSAGE:
    case SSL_AD_BAD_RECORD_MAC:
    case SSL_AD_RECORD_OVERFLOW:
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_ILLEGAL_PARAMETER:
    case SSL_AD_DECODE_ERROR:
    case SSL_AD_DECRYPT_ERROR:
      return true;
    default:
      return false;
  }
}

// Explains to people a failed handshake, or a record that no holder of the keys can have sent.
Error in_words(unsigned long code) {
  const auto error = [](std::string words, std::string hint = {}) {
    return Error{ErrorCode::kFailed, std::move(words), {}, std::move(hint)};
  };
  const int reason = ERR_GET_REASON(code);
  const auto damaged = [&](const std::string& words) {
    return Error{.message = fmt::format("{}; {}", words, kDamagedOnTheWay),
                 .cause = ErrorCause::kDamagedOnTheWay};
  };
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return damaged("its TLS connection is broken");
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return error("it has no certificate");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
      return error("it speaks an older TLS than 1.3");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
    case SSL_R_RECORD_LENGTH_MISMATCH:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
      return error("it does not speak TLS 1.3", "credentials for both sides, or for none");
    default:
      break;
  }
  if (reason > SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    const char* said = SSL_alert_desc_string_long(alert);
    if (says_damage(alert)) return damaged(fmt::format("it could not read this host: {}", said));
    return error(fmt::format("it refused this host: {}", said),
                 "looking at what it logged; tombolo init makes certificates");
  }
  const char* words = ERR_reason_error_string(code);
  return damaged(fmt::format("its TLS is broken: {}", words ? words : "unknown reason"));
}

}  // namespace

const Error& SecureStream::explain(int result) {
  const bool cut = SSL_get_error(session_->ssl.get(), result) == SSL_ERROR_SYSCALL;
  failure_ = !objection_.empty() ? Error{ErrorCode::kFailed, objection_, {}, {}}
             : cut               ? Error{ErrorCode::kFailed, "its TLS connection broke off", {}, {}}
                                 : in_words(ERR_peek_error());
  ERR_clear_error();
  return *failure_;
}

void SecureStream::seal(std::span<const std::byte> plain) {
  CHECK(ready_, "sealed before the handshake was over");
  if (failure_ || said_end_) return;  // the peer would not read it; our reader ends the connection
  output_.reserve(output_.size() + plain.size() + 32 * (plain.size() / kRecordMax + 1));
  while (!plain.empty()) {
    ERR_clear_error();
    size_t put = 0;
    if (SSL_write_ex(session_->ssl.get(), plain.data(), plain.size(), &put) != 1) {
      explain(0);
      return;
    }
    plain = plain.subspan(put);
    sealed_ += put;
    if (sealed_ >= renew_after_) {
      SSL_key_update(session_->ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);  // goes with what is next
      sealed_ = 0;
    }
  }
}

void SecureStream::say_end() {
  if (!ready_ || failure_ || said_end_) return;
  said_end_ = true;
  ERR_clear_error();
  SSL_shutdown(session_->ssl.get());
  ERR_clear_error();
}

void SecureStream::take(std::vector<std::byte>& into) {
  into.clear();
  std::swap(into, output_);
}

Result<std::string> SecureStream::shown_authority() const {
  if (session_->authority.empty()) return failed("no authority was shown");
  return session_->authority;
}

}  // namespace tombolo::trust
