#include <fcntl.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "lab/islands/network_namespace.h"
#include "lab/islands/room.h"

namespace tombolo::islands {
namespace {

uint64_t effective_capabilities() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("CapEff:", 0) == 0) return std::stoull(line.substr(7), nullptr, 16);
  }
  return 0;
}

bool has_program(const char* name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (access((std::string(folder) + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

Status check_privileges() {
  std::vector<std::string> missing;
  const uint64_t capabilities = effective_capabilities();
  if (!(capabilities >> CAP_SYS_ADMIN & 1)) missing.push_back("CAP_SYS_ADMIN (namespaces)");
  if (!(capabilities >> CAP_NET_ADMIN & 1)) missing.push_back("CAP_NET_ADMIN (network devices)");
  const FileDescriptor tun(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  if (!tun.valid()) missing.push_back(fmt::format("/dev/net/tun ({})", std::strerror(errno)));
  if (!has_program("ip")) missing.push_back("the program ip (Debian package iproute2)");
  if (missing.empty()) return {};
  return unusable(
      fmt::format("emulated islands need what is missing here: {}", fmt::join(missing, ", ")),
      tun.valid() ? "running as root (sudo), with iproute2 installed (tools/setup)"
                  : "running as root (sudo) on a machine with TUN devices; in a "
                    "container: --privileged, or --cap-add SYS_ADMIN --cap-add "
                    "NET_ADMIN --device /dev/net/tun");
}

std::string netem_support() {
  if (!has_program("tc")) return "unknown: the program tc is missing";
  const Result<NetworkNamespace> trial = NetworkNamespace::create();
  if (!trial) return "unknown: " + trial.error().message;
  std::string answer = "no";
  const Status tried = trial->inside([&]() -> Status {
    const ProgramResult done =
        TRY(run_program({"tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"}));
    answer = done.status == 0 ? "yes" : "no: " + done.output.substr(0, done.output.find('\n'));
    return {};
  });
  return tried ? answer : "unknown: " + tried.error().message;
}

}  // namespace tombolo::islands
