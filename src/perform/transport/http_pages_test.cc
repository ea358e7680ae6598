#include "perform/transport/http_pages.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tombolo::transport {
namespace {

using ::testing::HasSubstr;

std::map<std::string, HttpPage> one_page(int& served) {
  return {{"/metrics", {"text/plain", [&served] { return fmt::format("served {}\n", ++served); }}}};
}

TEST(HttpPages, ServesItsPagesAndNoOthers) {
  int served = 0;
  const auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener) << listener.error().text();
  EXPECT_EQ(http_page((*listener)->address(), "/metrics").value(), "served 1\n");
  EXPECT_EQ(http_page((*listener)->address(), "/metrics").value(), "served 2\n");
  const auto missing = http_page((*listener)->address(), "/secrets");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("answers 404"));
}

TEST(HttpPages, SaysThatItsPortIsTaken) {
  int served = 0;
  const auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener);
  const auto second = serve_pages((*listener)->address(), one_page(served));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnusable);
}

// A connection to the server, as any client has it.
int call(const Address& at) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(at.port);
  inet_pton(AF_INET, at.host.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

// Without a bound on lines these 400 MiB would all be kept.
TEST(HttpPages, HearsNoMoreThanARequest) {
  int served = 0;
  const auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener);
  const int stranger = call((*listener)->address());
  const std::string babble(1 << 20, 'a');
  size_t taken = 0;
  while (taken < size_t{400} << 20) {
    const ssize_t sent = send(stranger, babble.data(), babble.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    taken += static_cast<size_t>(sent);
  }
  close(stranger);
  EXPECT_LT(taken, size_t{32} << 20);  // what sockets hold
  EXPECT_EQ(http_page((*listener)->address(), "/metrics").value(), "served 1\n");
}

// 2,700 ranges in 8 KiB would be an answer of 2,700 pages.
TEST(HttpPages, AnswersWithTheWholePageOnce) {
  int served = 0;
  const auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener);
  const int stranger = call((*listener)->address());
  std::string asked = "GET /metrics HTTP/1.1\r\nHost: x\r\nRange: bytes=0-";
  for (int i = 1; i < 2'600; ++i) asked += ",0-";
  asked += "\r\n\r\n";
  ASSERT_EQ(send(stranger, asked.data(), asked.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(asked.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(stranger, bytes, sizeof bytes, 0)) > 0;)
    answer.append(bytes, static_cast<size_t>(got));
  close(stranger);
  EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\nserved 1\n"));
}

// Silent clients are disconnected after 2 s at most, two at a time, or at once where too many wait.
TEST(HttpPages, TheSilentDoNotKeepOthersOut) {
  int served = 0;
  const auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener);
  std::vector<int> silent(20);
  for (int& fd : silent) fd = call((*listener)->address());
  bool came = false;
  for (int attempt = 0; attempt < 100 && !came; ++attempt) {
    came = http_page((*listener)->address(), "/metrics").has_value();
  }
  EXPECT_TRUE(came);
  for (const int fd : silent) close(fd);
}

TEST(HttpPages, IsClosedWhenItGoes) {
  int served = 0;
  auto listener = serve_pages({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(listener);
  const Address at = (*listener)->address();
  listener->reset();
  EXPECT_FALSE(http_page(at, "/metrics"));
}

TEST(HttpPagesDeathTest, APageHasAPathAndAnAuthor) {
  const std::map<std::string, HttpPage> nowhere = {{"metrics", {"", [] { return "x"; }}}};
  const std::map<std::string, HttpPage> nobody = {{"/metrics", {"", {}}}};
  EXPECT_DEATH(static_cast<void>(serve_pages({}, nowhere)), "no writer of the page \"metrics\"");
  EXPECT_DEATH(static_cast<void>(serve_pages({}, nobody)), "no writer of the page \"/metrics\"");
}

}  // namespace
}  // namespace tombolo::transport
