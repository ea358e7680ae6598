#include "perform/transport/join_hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "base/check.h"
#include "perform/trust/secure_stream.h"

namespace tombolo::transport {
namespace {

using trust::SecureContext;
using trust::SecureStream;

constexpr size_t kGuestsMax = 32;
constexpr SimDuration kUnauthenticatedMax{10'000'000'000};
constexpr SimDuration kLookAgain{500'000'000};
constexpr size_t kMessageMax = 20 * 1024;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in address_of(const Address& at) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(at.port);
  inet_pton(AF_INET, at.host.c_str(), &out.sin_addr);
  return out;
}

Error socket_error(const std::string& doing) {
  return {ErrorCode::kUnusable, fmt::format("cannot {}: {}", doing, std::strerror(errno)), {}, {}};
}

int milliseconds(SimDuration span) {
  return static_cast<int>(std::clamp<int64_t>(span.ns / 1'000'000 + 1, 0, 60'000));
}

// One connection, either side. What it has to say is short enough for any socket's buffer.
class Talk {
 public:
  Talk(Socket socket, std::shared_ptr<const SecureContext> context, SecureStream::Role role)
      : socket_(std::move(socket)), stream_(std::move(context), role) {
    flush();
  }

  int fd() const { return socket_.fd(); }
  const std::vector<std::byte>& heard() const { return heard_; }
  bool ready() const { return stream_.ready(); }
  Result<std::string> shown_authority() const { return stream_.shown_authority(); }

  // True while the other side is there. Never blocks.
  Result<bool> read() {
    const auto space = stream_.space();
    const ssize_t got = recv(fd(), space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    stream_.commit(static_cast<size_t>(got));
    const Status status = open();
    flush();  // what TLS says about it, too
    TRY(status);
    return true;
  }
  void say_last(std::span<const std::byte> words) {
    stream_.seal(words);
    stream_.say_end();
    flush();
    shutdown(fd(), SHUT_WR);
  }
  void say(std::span<const std::byte> words) {
    stream_.seal(words);
    flush();
  }

 private:
  Status open() {
    std::vector<std::byte> some(4096);
    while (const size_t opened = TRY(stream_.open(some))) {
      if (heard_.size() + opened > kMessageMax) return failed("its message is too long");
      heard_.insert(heard_.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(opened));
    }
    return {};
  }
  void flush() {
    std::vector<std::byte> wire;
    stream_.take(wire);
    if (!wire.empty())
      static_cast<void>(::send(fd(), wire.data(), wire.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  Socket socket_;
  SecureStream stream_;
  std::vector<std::byte> heard_;
};

struct Guest {
  std::unique_ptr<Talk> talk;
  std::string remote;
  SimTime until;
  bool invited = false;  // it has its certificate
};

class Listener {
 public:
  Listener(const Welcome& welcome, const trust::Authority& authority, const Clock& clock)
      : welcome_(welcome), authority_(authority), clock_(clock) {}

  Status listen(const trust::Credentials& own) {
    context_ = TRY(SecureContext::for_inviter(own));
    const sockaddr_in at = address_of(welcome_.at);
    const int yes = 1;
    setsockopt(listener_.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (listener_.fd() < 0 ||
        bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
        ::listen(listener_.fd(), static_cast<int>(kGuestsMax)) != 0)
      return fail(socket_error("listen on " + welcome_.at.text()));
    sockaddr_in here{};
    socklen_t size = sizeof here;
    getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&here), &size);
    if (welcome_.on_listen) welcome_.on_listen(ntohs(here.sin_port));
    return {};
  }

  Result<std::string> wait() {
    while (true) {
      const SimTime now = clock_.now();
      guests_.remove_if([&](const Guest& guest) { return over(guest, now); });
      if (joined_ && guests_.empty()) return *joined_;
      if (joined_ && now >= linger_) return *joined_;
      if (!joined_ && now >= welcome_.deadline)
        return failed(fmt::format("\"{}\" did not join in time", welcome_.name),
                      "tombolo init --invite once more, --for with a longer time");
      look();
    }
  }

 private:
  // The certificate is on its way; the guest hangs up when it has it.
  bool over(const Guest& guest, SimTime now) {
    if (now < guest.until) return false;
    if (!guest.invited) refuse(guest, "it did not ask within 10 s");
    return true;
  }
  void refuse(const Guest& guest, const std::string& why) {
    if (welcome_.log)
      welcome_.log(fmt::format("refused a connection from {}: {}", guest.remote, why));
  }

  void look() {
    std::vector<pollfd> all;
    for (const Guest& guest : guests_) all.push_back({guest.talk->fd(), POLLIN, 0});
    const bool open = !joined_ && guests_.size() < kGuestsMax;
    if (open) all.push_back({listener_.fd(), POLLIN, 0});
    if (poll(all.data(), all.size(), milliseconds(kLookAgain)) <= 0) return;
    size_t i = 0;
    guests_.remove_if([&](Guest& guest) { return all[i++].revents != 0 && !serve(guest); });
    if (open && all.back().revents != 0) accept();
  }

  void accept() {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    Socket socket(accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC));
    if (socket.fd() < 0) return;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &from.sin_addr, text.data(), text.size());
    guests_.push_back(
        {std::make_unique<Talk>(std::move(socket), context_, SecureStream::Role::kAnswers),
         fmt::format("{}:{}", text.data(), ntohs(from.sin_port)),
         clock_.now() + kUnauthenticatedMax});
  }

  // False when there is nothing more to talk about.
  bool serve(Guest& guest) {
    const auto there = guest.talk->read();
    if (guest.invited) return there && *there;
    if (!there || !*there) {
      refuse(guest, there ? "it hung up" : there.error().message);
      return false;
    }
    const auto question = trust::decode_question(guest.talk->heard());
    if (!question) {
      refuse(guest, question.error().message);
      return false;
    }
    if (!*question) return true;
    const auto certificate = answer(**question);
    guest.talk->say_last(trust::encode_answer(certificate));
    if (!certificate) {
      refuse(guest, certificate.error().message);
      return false;
    }
    guest.invited = true;
    joined_ = guest.remote;
    linger_ = clock_.now() + kUnauthenticatedMax;
    return true;
  }

  Result<std::string> answer(const trust::JoinQuestion& question) {
    if (joined_ || clock_.now() >= welcome_.deadline) return failed("the invitation is over");
    if (!welcome_.invitation.matches(question.secret))
      return failed("this is no invitation of ours");
    return authority_.sign(question.request, welcome_.name,
                           trust::host_validity(trust::wall_time()));
  }

  const Welcome& welcome_;
  const trust::Authority& authority_;
  const Clock& clock_;
  Socket listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::shared_ptr<const SecureContext> context_;
  std::list<Guest> guests_;
  std::optional<std::string> joined_;
  SimTime linger_;
};

}  // namespace

Result<std::string> welcome_host(const Welcome& welcome, const trust::Authority& authority,
                                 const trust::Credentials& own, const Clock& clock) {
  TRY(trust::check_name(welcome.name));
  Listener listener(welcome, authority, clock);
  TRY(listener.listen(own));
  return listener.wait();
}

Result<trust::Credentials> join_host(const Address& inviter, const trust::Invitation& invitation,
                                     SimDuration patience, const Clock& clock,
                                     const std::string& key) {
  CHECK(patience.ns > 0, "a patience of {} ns", patience.ns);
  const SimTime deadline = clock.now() + patience;
  const Address at{TRY(resolve(inviter.host)), inviter.port};
  const sockaddr_in to = address_of(at);
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Linux bounds connect() by this, too.
  const timeval limit{patience.ns / 1'000'000'000, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    Error error = socket_error("reach " + inviter.text());
    error.hint = "tombolo init --invite NAME on that host, which waits there while it lasts";
    return fail(std::move(error));
  }
  Talk talk(std::move(socket), TRY(SecureContext::for_joiner(invitation.fingerprint())),
            SecureStream::Role::kDials);
  const trust::SigningRequest own = TRY(trust::make_request(key));
  bool asked = false;
  while (true) {
    if (clock.now() >= deadline) return failed(inviter.text() + " did not answer in time");
    pollfd one{talk.fd(), POLLIN, 0};
    if (poll(&one, 1, milliseconds(deadline - clock.now())) <= 0) continue;
    const bool there = TRY(during(talk.read(), "joining " + inviter.text()));
    if (talk.ready() && !std::exchange(asked, true))
      talk.say(trust::encode_question(invitation, own.request));
    const auto certificate =
        TRY(during(trust::decode_answer(talk.heard()), "joining " + inviter.text()));
    if (certificate) {
      const std::string authority = TRY(talk.shown_authority());
      trust::Credentials out{authority, *certificate, own.key};
      TRY(during(trust::check(out, trust::wall_time()),
                 "reading what " + inviter.text() + " sent"));
      return out;
    }
    if (!there) return failed(inviter.text() + " hung up");
  }
}

}  // namespace tombolo::transport
