// Credentials: how a host proves that it belongs to us, and knows who else does.
//
// A private authority (authority.h) signs one certificate per host. A peer needs a certificate of
// this authority that has not expired, and the job's token (link/handshake.h). Names of hosts are
// for people; they are not compared with addresses.
//
// In a folder: authority.pem, host.pem, and host.key with mode 0600. Refused where others can read
// the key. Nothing here prints a key or puts one into an error. The file `refused` may be there,
// too: names of hosts, a line each, whose certificates this host does not accept any more.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "base/result.h"

namespace tombolo::trust {

using WallTime = std::chrono::sys_seconds;
WallTime wall_time();

struct Credentials {
  std::string authority;          // its certificate, PEM
  std::string certificate;        // of this host, PEM
  std::string key;                // of this host, PEM; the secret
  std::set<std::string> refused;  // names of hosts
};

struct CertificateFacts {
  std::string name;  // "paris"
  WallTime begins;
  WallTime expires;
};

// Unusable where the three do not belong together, or the certificate is not valid at this time.
Result<CertificateFacts> check(const Credentials& credentials, WallTime now);

// Also checks them. Unusable where one is missing, too: the hint says how to get it.
Result<Credentials> load_credentials(const std::string& directory, WallTime now);
// The same without a check, so that what has expired can be renewed.
Result<Credentials> read_credentials(const std::string& directory);
// Makes the folder. Unusable where there are credentials already; whole or not at all.
Status save_credentials(const std::string& directory, const Credentials& credentials);
// Another certificate of the same authority for the same key takes the place of host.pem, in one
// step: who reads the folder meanwhile finds the old one or the new one. Unusable, and nothing is
// changed, where authority, key or name are others.
Status renew_certificate(const std::string& directory, const Credentials& renewed, WallTime now);
// From its next handshake on this host refuses that one, whichever certificate it shows. Unusable
// where the name is this host's own.
Status refuse_host(const std::string& directory, const std::string& name);
// Of the host.pem in a folder, whether or not it is valid now.
Result<CertificateFacts> certificate_in(const std::string& directory);
// One line that says when a certificate expires, or did, and what to do; empty before the last two
// weeks of it, or its last tenth where that is longer.
std::string expiry_warning(const CertificateFacts& facts, WallTime now);

// TOMBOLO_CREDENTIALS, else the folder "tombolo" where this user's settings are (XDG_CONFIG_HOME or
// ~/.config). Empty where there is no home.
std::string default_directory();
bool has_credentials(const std::string& directory);

// A file that only this user can read, written whole under a name that must not exist yet.
Status save_secret(const std::string& path, const std::string& text);
// Unusable where others than its owner can read it.
Result<std::string> read_secret(const std::string& path);

// SHA-256 of the certificate's DER form, in hexadecimal.
Result<std::string> fingerprint_of(const std::string& certificate_pem);

// Letters, digits, "-" and ".", at most 63.
Status check_name(const std::string& name);

std::string date(WallTime time);  // "2026-11-22 04:10 UTC"

}  // namespace tombolo::trust
