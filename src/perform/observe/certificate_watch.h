// Certificates of a run's hosts: one that is about to expire, or has, is reported once a day for as long
// as the run lasts. Pure. Memory: bounded, whatever names ranks send.
#pragma once

#include <map>
#include <string>

#include "perform/trust/credentials.h"

namespace tombolo::observe {

class CertificateWatch {
 public:
  // The warning to log now about this host's certificate; usually empty.
  std::string add(const trust::CertificateFacts& certificate, trust::WallTime now);

 private:
  std::map<std::string, trust::WallTime> said_;  // by name of the host
};

}  // namespace tombolo::observe
