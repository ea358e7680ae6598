#include "perform/join/security.h"

#include "perform/transport/address.h"

namespace tombolo::join {

Result<std::optional<trust::Credentials>> credentials_of(const Security& security) {
  if (security.credentials.empty()) return std::nullopt;
  return TRY(trust::load_credentials(security.credentials, trust::wall_time()));
}

std::optional<trust::CertificateFacts> certificate_of(const Security& security) {
  if (security.credentials.empty()) return std::nullopt;
  auto facts = trust::certificate_in(security.credentials);
  return facts ? std::optional(std::move(*facts)) : std::nullopt;
}

bool beyond_this_host(const std::string& launcher_host, const std::string& islands_network) {
  return islands_network.empty() && launcher_host != "localhost" &&
         !transport::is_loopback(launcher_host);
}

}  // namespace tombolo::join
