// How the bytes of a run are protected on their way between its processes.
//
//   credentials     TLS 1.3 everywhere, certificates on both sides; any address
//   plain TCP       nothing; any address, because the user asked for it by name
//   neither         nothing, and nothing leaves this machine (transport/address.h)
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "perform/trust/credentials.h"

namespace tombolo::join {

struct Security {
  std::string credentials;  // the folder (trust/credentials.h); empty: none
  bool plain_tcp = false;

  bool reaches_other_hosts() const { return !credentials.empty() || plain_tcp; }
};

// Whether ranks that meet there may be on several hosts: then the network between them is real,
// nothing is paced, and each has a clock of its own.
bool beyond_this_host(const std::string& launcher_host, const std::string& islands_network);

// Reads and checks them; nothing where there are none.
Result<std::optional<trust::Credentials>> credentials_of(const Security& security);

// This host's certificate, as it lies in the folder: a renewed one counts at once, because a
// rank that loses a connection is about to read it. Nothing where there is none.
std::optional<trust::CertificateFacts> certificate_of(const Security& security);

}  // namespace tombolo::join
