#include "perform/observe/certificate_watch.h"

namespace tombolo::observe {
namespace {

constexpr std::chrono::hours kSayAgainAfter{24};
constexpr size_t kNamesMax = 4096;  // of hosts; ranks say the names

}  // namespace

std::string CertificateWatch::add(const trust::CertificateFacts& certificate, trust::WallTime now) {
  const auto said = said_.find(certificate.name);
  if (said != said_.end() && now - said->second < kSayAgainAfter) return "";
  if (said == said_.end() && said_.size() >= kNamesMax) return "";
  std::string line = trust::expiry_warning(certificate, now);
  if (!line.empty()) said_[certificate.name] = now;
  return line;
}

}  // namespace tombolo::observe
