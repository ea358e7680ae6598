// Certificates of a run's hosts: people hear of one that is about to expire, or has, once a day for as
// long as the run goes on. Pure.
#pragma once

#include <map>
#include <string>

#include "perform/trust/credentials.h"

namespace tombolo::launch {

class CertificateWatch {
 public:
  // What to say now of this host's certificate; mostly nothing.
  std::string add(const trust::CertificateFacts& certificate, trust::WallTime now);

 private:
  std::map<std::string, trust::WallTime> said_;  // by name of the host
};

}  // namespace tombolo::launch
