#include "perform/launch/security.h"

#include "perform/transport/address.h"

namespace tombolo::launch {

Result<std::optional<trust::Credentials>> credentials_of(
    const Security& security, const std::function<void(const std::string&)>& log) {
  if (security.credentials.empty()) return std::nullopt;
  const trust::WallTime now = trust::wall_time();
  std::optional credentials(TRY(trust::load_credentials(security.credentials, now)));
  const std::string warning = trust::expiry_warning(*credentials, now);
  if (log && !warning.empty()) log(warning);
  return credentials;
}

bool beyond_this_host(const std::string& launcher_host, const std::string& islands_network) {
  return islands_network.empty() && launcher_host != "localhost" &&
         !transport::is_loopback(launcher_host);
}

}  // namespace tombolo::launch
