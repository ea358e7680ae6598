#include "perform/join/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/host_name.h"

namespace tombolo::join {
namespace {

// Up to the first dot, as MASTER_ADDR may be the full name and gethostname() the short one.
bool is_own_name(const std::string& name) {
  const std::string own = host_name();
  const std::string_view short_own = std::string_view(own).substr(0, own.find('.'));
  return !short_own.empty() && std::string_view(name).substr(0, name.find('.')) == short_own;
}

bool is_this_host(const std::string& host) {
  return host.empty() || host == "localhost" || transport::is_address_of_this_host(host) ||
         is_own_name(host);
}

Result<transport::Address> inside_islands(transport::Address at, const cluster::Islands& islands) {
  const auto& hosts = islands.hosts;
  if (hosts.empty()) return unusable(fmt::format("{} has no hosts", cluster::kIslandsVariable));
  for (const cluster::Host& host : hosts) {
    if (host.address == at.host || host.name == at.host)
      return transport::Address{host.address, at.port};
  }
  if (is_this_host(at.host)) return transport::Address{hosts.front().address, at.port};
  return unusable(fmt::format("{} is no host of these islands, and plain TCP stays there", at.host),
                  fmt::format("--rendezvous {}:{}", hosts.front().address, at.port));
}

Error file_error(const std::string& path, const char* doing) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {} it: {}", path, doing, std::strerror(errno)),
          {},
          "an output folder that all ranks can write to, or TOMBOLO_TOKEN for all of them"};
}

}  // namespace

Result<transport::Address> rendezvous_address(const std::string& wanted,
                                              const LaunchedRank& launched,
                                              const std::optional<cluster::Islands>& islands,
                                              const Security& security) {
  transport::Address at{launched.rendezvous_host, launched.rendezvous_port};
  if (!wanted.empty()) at = TRY(during(transport::parse_address(wanted), "reading --rendezvous"));
  if (at.port == 0) at.port = kRendezvousPort;
  if (islands) return inside_islands(at, *islands);
  if (security.reaches_other_hosts() && !at.host.empty())
    return transport::Address{TRY(transport::resolve(at.host)), at.port};
  if (is_this_host(at.host)) return transport::Address{"127.0.0.1", at.port};
  return unusable(
      fmt::format("the rendezvous {} is not on this host, and plain TCP stays on this host",
                  at.host),
      "credentials for both hosts (tombolo init, tombolo init --join), or --plain-tcp where the "
      "network between them encrypts");
}

Result<std::optional<link::Token>> token_of_environment() {
  const char* text = std::getenv(kTokenVariable);
  if (!text) return std::nullopt;
  return std::optional(
      TRY(during(link::Token::parse(text), fmt::format("reading {}", kTokenVariable))));
}

std::string token_path(const std::string& output) { return output + "/rendezvous-token"; }

// Written under another name first, so that no reader sees half of it.
Result<TokenFile> TokenFile::create(const std::string& path, const link::Token& token) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return fail(file_error(path, "write"));
  const std::string text = token.hex();
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = file_error(path, "write");
    unlink(temporary.c_str());
    return fail(error);
  }
  return TokenFile(path);
}

TokenFile::~TokenFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

Result<std::optional<link::Token>> read_token_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  if (fd < 0) return fail(file_error(path, "read"));
  struct stat about {};
  std::array<char, 64> text{};
  const bool safe =
      fstat(fd, &about) == 0 && (about.st_mode & 077) == 0 && about.st_uid == geteuid();
  const ssize_t got = ::read(fd, text.data(), text.size());
  close(fd);
  if (!safe) {
    return unusable(fmt::format("{}: others than this user can read or have written it", path),
                    "removing it, and another output folder: --out");
  }
  return std::optional(
      TRY(during(link::Token::parse({text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))}),
                 "reading " + path)));
}

}  // namespace tombolo::join
