// Authority: the private CA of one group of hosts. It signs their certificates and nothing else.
//
// The first host has it, in authority.key next to its own credentials. A host that joins makes its
// own key, which never leaves it, and sends a signing request. All keys are ECDSA P-256: fast, and
// known to every TLS.
//
// The authority revokes nothing: certificates of hosts last 90 days, and a host that must be kept
// out before that is refused by each of the others (credentials.h).
#pragma once

#include <chrono>
#include <string>

#include "perform/trust/credentials.h"

namespace tombolo::trust {

inline constexpr std::chrono::hours kAuthorityLasts{24 * 3650};
inline constexpr std::chrono::hours kHostLasts{24 * 90};

struct Validity {
  WallTime from;
  WallTime until;
};

// A host's own key and what it asks to have signed.
struct SigningRequest {
  std::string key;      // PEM; stays here
  std::string request;  // PEM
};
// With this key, or where it is empty with a new one.
Result<SigningRequest> make_request(const std::string& key_pem = {});

class Authority {
 public:
  static Result<Authority> create(WallTime now);
  static Result<Authority> load(const std::string& directory);
  // authority.key, next to the credentials of the host that has it. Never overwrites.
  Status save(const std::string& directory) const;

  const std::string& certificate() const { return certificate_; }

  // A certificate with this name, whatever the request says; only its key counts. PEM.
  Result<std::string> sign(const std::string& request, const std::string& name,
                           const Validity& validity) const;
  // For the same key and name. PEM.
  Result<Credentials> renew(const Credentials& credentials, WallTime now) const;
  // Key and certificate in one go, for this host, a folder to carry, or a test.
  Result<Credentials> issue(const std::string& name, const Validity& validity) const;

 private:
  Authority(std::string certificate, std::string key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}
  std::string certificate_;  // PEM
  std::string key_;          // PEM
};

// From an hour ago, as clocks differ, for as long as a host's certificate lasts.
Validity host_validity(WallTime now);

}  // namespace tombolo::trust
