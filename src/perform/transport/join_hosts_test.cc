// A host joins over loopback, while unauthenticated connections come.
#include "perform/transport/join_hosts.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

namespace tombolo::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trust::Invitation;

class JoinHostsTest : public testing::Test {
 protected:
  // Listens on a thread of its own and waits until it can be called.
  void open_listener(SimDuration lasts = {60'000'000'000}) {
    auto listening = std::make_shared<std::promise<uint16_t>>();
    welcome_.name = "paris";
    welcome_.at = {"127.0.0.1", 0};
    welcome_.deadline = clock_.now() + lasts;
    welcome_.on_listen = [listening](uint16_t port) { listening->set_value(port); };
    welcome_.log = [this](const std::string& line) { lines_.push_back(line); };
    joined_ = std::async(std::launch::async,
                         [this] { return welcome_host(welcome_, authority_, own_, clock_); });
    at_ = {"127.0.0.1", listening->get_future().get()};
  }
  Result<trust::Credentials> join(const Invitation& invitation) {
    return join_host(at_, invitation, {30'000'000'000}, clock_);
  }

  SystemClock clock_;
  const trust::WallTime now_ = trust::wall_time();
  const trust::Authority authority_ = *trust::Authority::create(now_);
  const trust::Credentials own_ = *authority_.issue("first", trust::host_validity(now_));
  const std::string fingerprint_ = *trust::fingerprint_of(authority_.certificate());
  Welcome welcome_{.invitation = *Invitation::create(fingerprint_)};
  std::future<Result<std::string>> joined_;
  Address at_;
  std::vector<std::string> lines_;  // read only after the listener is closed
};

TEST_F(JoinHostsTest, AnInvitedHostGetsItsCertificate) {
  open_listener();
  const auto invitation = Invitation::parse(welcome_.invitation.text());
  ASSERT_TRUE(invitation);
  const auto mine = join(*invitation);
  ASSERT_TRUE(mine) << mine.error().text();
  EXPECT_EQ(trust::check(*mine, now_)->name, "paris");
  EXPECT_EQ(mine->authority, authority_.certificate());
  const auto from = joined_.get();
  ASSERT_TRUE(from) << from.error().text();
  EXPECT_THAT(*from, HasSubstr("127.0.0.1:"));
  EXPECT_FALSE(join(*invitation)) << "once is enough";
  EXPECT_THAT(lines_, ElementsAre());
}

TEST_F(JoinHostsTest, StrangersGetALineAndNoCertificate) {
  open_listener();
  const auto wrong_secret = join(*Invitation::create(fingerprint_));
  EXPECT_THAT(wrong_secret.error().text(), HasSubstr("it refused: this is no invitation of ours"));
  // A process that claims to be the inviting host, and has another authority.
  const std::string other = *trust::fingerprint_of(trust::Authority::create(now_)->certificate());
  EXPECT_THAT(join(*Invitation::create(other)).error().text(),
              HasSubstr("it does not have the authority that the token names"));
  {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(at_.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    EXPECT_GT(::send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
    char some[100];
    while (recv(fd, some, sizeof some, 0) > 0) {
    }
    close(fd);
  }
  ASSERT_TRUE(join(welcome_.invitation));
  ASSERT_TRUE(joined_.get());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("this is no invitation of ours"),
                                  HasSubstr("it refused this host"),
                                  HasSubstr("it does not speak TLS 1.3")));
  for (const std::string& line : lines_)
    EXPECT_THAT(line, Not(HasSubstr(welcome_.invitation.text().substr(72))));
}

TEST_F(JoinHostsTest, AnInvitationEnds) {
  open_listener({20'000'000});
  EXPECT_THAT(joined_.get().error().text(), HasSubstr("\"paris\" did not join in time"));
  const auto late = join(welcome_.invitation);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().text(), HasSubstr("tombolo init --invite"));
}

using JoinHostsDeathTest = JoinHostsTest;

TEST_F(JoinHostsDeathTest, WhoJoinsHasSomePatience) {
  EXPECT_DEATH(static_cast<void>(join_host({}, welcome_.invitation, {}, clock_)),
               "a patience of 0 ns");
}

}  // namespace
}  // namespace tombolo::transport
