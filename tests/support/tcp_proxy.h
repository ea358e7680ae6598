// A bad path on this machine: a TCP proxy in a thread of the test, which resets connections,
// swallows everything for a while, or takes no calls.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tombolo {

class TcpProxy {
 public:
  explicit TcpProxy(uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~TcpProxy() {
    stop_ = true;
    thread_.join();
    calls_.clear();
    ::close(listener_);
  }

  uint16_t port() const { return port_; }
  void lead_to(uint16_t port) { to_ = port; }
  // Nothing gets through, in no direction, and nobody is told. New calls wait.
  void swallow(bool on) { swallows_ = on; }
  // Of so many calls from now on, a bit of the first bytes that come from who called, or that come back,
  // is another when it arrives.
  void damage(int calls, bool what_comes_back) {
    damages_back_ = what_comes_back;
    damages_ = calls;
  }
  // One connection, counted from the oldest; false: there are not as many.
  bool reset(size_t which) {
    const std::lock_guard lock(mutex_);
    if (which >= calls_.size()) return false;
    calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(which));
    return true;
  }
  void reset_all() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }
  uint64_t passed() const { return passed_; }  // bytes
  size_t accepted() const { return accepted_; }

 private:
  // A pair of sockets, and what is on its way between them. They end with a reset.
  struct Call {
    std::array<int, 2> sockets{-1, -1};
    std::array<std::vector<char>, 2> waiting;  // for that socket
    std::array<bool, 2> over{};                // nothing more comes from that socket
    bool broken = false;
    bool damaged = false;
    ~Call() {
      const linger now{.l_onoff = 1, .l_linger = 0};
      for (const int fd : sockets) {
        if (!done()) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        if (fd >= 0) ::close(fd);
      }
    }
    bool done() const {
      return over[0] && over[1] && waiting[0].empty() && waiting[1].empty() && !broken;
    }
  };

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }

  void run() {
    while (!stop_) {
      bool moved = false;
      if (!swallows_) {
        const std::lock_guard lock(mutex_);
        moved = accept_one();
        for (const auto& call : calls_) moved = move(*call) || moved;
        std::erase_if(calls_, [](const auto& call) { return call->broken || call->done(); });
      }
      if (!moved) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  bool accept_one() {
    pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 0) <= 0) return false;
    auto call = std::make_unique<Call>();
    call->sockets = {::accept(listener_, nullptr, nullptr), ::socket(AF_INET, SOCK_STREAM, 0)};
    const sockaddr_in at = loopback(to_);
    if (::connect(call->sockets[1], reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
      return true;  // reset
    for (const int fd : call->sockets) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    calls_.push_back(std::move(call));
    ++accepted_;
    return true;
  }

  bool move(Call& call) {
    bool moved = false;
    for (const size_t from : {0, 1}) {
      std::vector<char>& waiting = call.waiting[1 - from];
      if (waiting.empty() && !call.over[from]) {
        std::array<char, 65536> some;
        const ssize_t got = ::recv(call.sockets[from], some.data(), some.size(), 0);
        if (got > 0 && from == (damages_back_ ? 1u : 0u) && !call.damaged && damages_ > 0) {
          some[static_cast<size_t>(got) / 2] ^= 4;
          call.damaged = true;
          --damages_;
        }
        if (got > 0) waiting.assign(some.begin(), some.begin() + got);
        if (got == 0) call.over[from] = true;
        if (got == 0) ::shutdown(call.sockets[1 - from], SHUT_WR);
        call.broken = call.broken || (got < 0 && errno != EAGAIN);
        moved = moved || got >= 0;
      }
      if (waiting.empty()) continue;
      const ssize_t sent =
          ::send(call.sockets[1 - from], waiting.data(), waiting.size(), MSG_NOSIGNAL);
      call.broken = call.broken || (sent < 0 && errno != EAGAIN);
      if (sent <= 0) continue;
      waiting.erase(waiting.begin(), waiting.begin() + sent);
      passed_ += static_cast<uint64_t>(sent);
      moved = true;
    }
    return moved;
  }

  std::atomic<uint16_t> to_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> swallows_ = false;
  std::atomic<uint64_t> passed_ = 0;
  std::atomic<size_t> accepted_ = 0;
  std::atomic<int> damages_ = 0;
  std::atomic<bool> damages_back_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::thread thread_;
};

}  // namespace tombolo
