// A host for tests: a network namespace without a name and a TUN device in it. The namespace is
// gone when its last descriptor is closed, so nothing is left behind, however the test ends.
//
// Needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and /dev/net/tun; make() says what is missing.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/result.h"
#include "lab/wanem/forwarder.h"

namespace tombolo::test {

inline sockaddr_in socket_address(uint32_t address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(address);
  return out;
}

class TunHost {
 public:
  // Its address is in 10.78.0.0/16, all of which it reaches through the device.
  static Result<TunHost> make(uint32_t address) {
    Result<TunHost> out = TunHost();
    std::thread([&] {
      if (const Status made = out->enter_new(address); !made) out = fail(made.error());
    }).join();
    return out;
  }
  TunHost(TunHost&& other) noexcept { *this = std::move(other); }
  TunHost& operator=(TunHost&& other) noexcept {
    std::swap(namespace_fd_, other.namespace_fd_);
    std::swap(tun_fd_, other.tun_fd_);
    return *this;
  }
  ~TunHost() {
    if (tun_fd_ >= 0) close(tun_fd_);
    if (namespace_fd_ >= 0) close(namespace_fd_);
  }

  int tun_fd() const { return tun_fd_; }

  // Runs `work` inside the namespace and waits. Sockets made there stay there.
  void inside(const std::function<void()>& work) const {
    std::thread([&] {
      if (setns(namespace_fd_, CLONE_NEWNET) == 0) work();
    }).join();
  }
  int socket_inside(int type) const {
    int fd = -1;
    inside([&] { fd = socket(AF_INET, type | SOCK_CLOEXEC, 0); });
    return fd;
  }
  void set(const std::string& key, const std::string& value) const {
    inside([&] {
      const int fd = open(("/proc/sys/net/ipv4/" + key).c_str(), O_WRONLY | O_CLOEXEC);
      if (fd >= 0 && write(fd, value.data(), value.size()) < 0) errno = 0;  // an older kernel
      if (fd >= 0) close(fd);
    });
  }

 private:
  TunHost() = default;

  static tl::unexpected<Error> missing(const char* what) {
    return failed(std::string(what) + ": " + std::strerror(errno), "root and /dev/net/tun");
  }

  Status enter_new(uint32_t address) {
    if (unshare(CLONE_NEWNET) != 0) return missing("cannot make a network namespace");
    namespace_fd_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    tun_fd_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (namespace_fd_ < 0 || tun_fd_ < 0) return missing("cannot open /dev/net/tun");
    ifreq request{};
    std::strcpy(request.ifr_name, "wan0");
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tun_fd_, TUNSETIFF, &request) != 0) return missing("cannot make a TUN device");
    TRY(wanem::enable_offloads(tun_fd_));

    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto configure = [&](unsigned long what) { return ioctl(control, what, &request) == 0; };
    const auto put = [&](uint32_t value) {
      const sockaddr_in as = socket_address(value, 0);
      std::memcpy(&request.ifr_addr, &as, sizeof as);
    };
    bool done = true;
    request.ifr_qlen = 20000;
    done = configure(SIOCSIFTXQLEN) && done;
    put(address);
    done = configure(SIOCSIFADDR) && done;
    put(0xffff0000);
    done = configure(SIOCSIFNETMASK) && done;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    done = configure(SIOCSIFFLAGS) && done;
    close(control);
    if (!done) return missing("cannot configure a TUN device");
    return {};
  }

  int namespace_fd_ = -1;
  int tun_fd_ = -1;
};

}  // namespace tombolo::test
