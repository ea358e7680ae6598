#include "perform/launch/certificate_watch.h"

namespace tombolo::launch {
namespace {

constexpr std::chrono::hours kSayAgainAfter{24};

}  // namespace

std::string CertificateWatch::add(const trust::CertificateFacts& certificate, trust::WallTime now) {
  const auto said = said_.find(certificate.name);
  if (said != said_.end() && now - said->second < kSayAgainAfter) return "";
  std::string line = trust::expiry_warning(certificate, now);
  if (!line.empty()) said_[certificate.name] = now;
  return line;
}

}  // namespace tombolo::launch
