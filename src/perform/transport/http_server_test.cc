#include "perform/transport/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace tombolo::transport {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A client that says what it likes, byte by byte.
class HttpCaller {
 public:
  explicit HttpCaller(const Address& at, const char* from = "127.0.0.1") {
    sockaddr_in own{}, to{};
    own.sin_family = to.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    inet_pton(AF_INET, at.host.c_str(), &to.sin_addr);
    to.sin_port = htons(at.port);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0, "no address {}", from);
    CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "nobody at {}",
          at.text());
  }
  HttpCaller(HttpCaller&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~HttpCaller() {
    if (fd_ >= 0) close(fd_);
  }
  int socket() const { return fd_; }
  bool say(std::string_view text) const {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  }
  // Until the server closes; "reset" behind it where it did so before all was read.
  std::string hear() const {
    std::string out;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(fd_, bytes, sizeof bytes, 0)) > 0)
      out.append(bytes, static_cast<size_t>(got));
    return got < 0 ? out + "reset" : out;
  }
  std::string ask(std::string_view text) const {
    say(text);
    return hear();
  }

 private:
  int fd_ = -1;
};

class Echo : public testing::Test {
 protected:
  // Says back what it was asked.
  void open(HttpLimits limits = {.body_bytes = 100}) {
    auto server = HttpServer::open(
        {.listen = {"127.0.0.1", 0}, .limits = limits},
        {.answer =
             [](const HttpRequest& request, HttpClient&) {
               return HttpReply{
                   .content_type = "text/plain",
                   .body = fmt::format("{} {} [{}]", request.method, request.path, request.body)};
             },
         .before_body = [](const HttpRequest& head) -> std::optional<HttpReply> {
           if (head.path != "/secret") return std::nullopt;
           return HttpReply{.status = 401};
         }});
    ASSERT_TRUE(server) << server.error().text();
    server_ = std::move(*server);
  }
  std::string ask(std::string_view text) { return HttpCaller(server_->address()).ask(text); }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(Echo, AnswersOneRequestAndCloses) {
  open();
  const std::string answer =
      ask("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain\r\nContent-Length: 15\r\n\r\n"));
  EXPECT_THAT(answer, EndsWith("POST /a [hello]"));
}

// Of RFC 9112: the section stands behind each.
TEST_F(Echo, ReadsRequestsAsTheStandardHasThem) {
  open();
  const auto body = [&](std::string_view text) {
    const std::string answer = ask(text);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  EXPECT_EQ(body("\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n"), "GET /a []");       // 2.2
  EXPECT_EQ(body("GET http://x:80/a?b HTTP/1.1\r\nHost: x\r\n\r\n"), "GET /a []");  // 3.2.2
  EXPECT_EQ(body("GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"), "GET / []");          // 3.2.2
  EXPECT_EQ(body("GET /a%2Fb%20c%zz%4 HTTP/1.1\r\nHost: x\r\n\r\n"), "GET /a/b c%zz%4 []");
  EXPECT_EQ(body("GET /a HTTP/1.0\r\n\r\n"), "GET /a []");  // 3.2
  EXPECT_EQ(body("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: y\r\n\r\n"),
            "POST /a [abcde]");  // 7.1
}

TEST_F(Echo, RefusesWhatTwoServersWouldReadInTwoWays) {
  open();
  const auto post = [&](std::string_view headers, std::string_view rest = "") {
    return ask(fmt::format("POST /a HTTP/1.1\r\n{}\r\n\r\n{}", headers, rest));
  };
  EXPECT_THAT(post("Host: x\r\nContent-Length: 5\r\nContent-Length: 6", "hello!"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(post("Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(post("Host: x\r\nContent-Length: five", "hello"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(post("Host: x\r\nContent-Length: -1", "hello"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(post("Host: x\r\nTransfer-Encoding: gzip", "hello"), StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(post("Host: x\r\nHost: y"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(post("Accept: x"), StartsWith("HTTP/1.1 400 "));  // no host
  EXPECT_THAT(ask("GET /a HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_THAT(ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_THAT(ask("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(Echo, BoundsHeadsAndBodies) {
  open();
  const std::string head = "POST /a HTTP/1.1\r\nHost: x\r\n";
  EXPECT_THAT(ask(head + "Content-Length: 101\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask(head + "Content-Length: 100\r\n\r\n" + std::string(100, 'x')),
              StartsWith("HTTP/1.1 200 "));
  std::string chunks = head + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 101; ++i) chunks += "1\r\nx\r\n";
  EXPECT_THAT(ask(chunks), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask(head + "A: " + std::string(9000, 'a') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(std::string(9000, 'a')), StartsWith("HTTP/1.1 4"));
  // An extension of a chunk has no bound of its own.
  EXPECT_THAT(ask(head + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(200'000, 'e')),
              StartsWith("HTTP/1.1 4"));
}

// A client that asks whether it may send its body hears so, or the answer.
TEST_F(Echo, SaysWhetherABodyIsWanted) {
  open();
  const std::string end = "Host: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  HttpCaller asks(server_->address());
  asks.say("POST /a HTTP/1.1\r\n" + end);
  char first[25];
  for (size_t at = 0; at < sizeof first;) {
    const ssize_t got = recv(asks.socket(), first + at, sizeof first - at, 0);
    ASSERT_GT(got, 0);
    at += static_cast<size_t>(got);
  }
  EXPECT_EQ(std::string(first, sizeof first), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(asks.ask("ok"), EndsWith("POST /a [ok]"));
  EXPECT_THAT(ask("POST /secret HTTP/1.1\r\n" + end), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: more\r\n\r\n"),
              StartsWith("HTTP/1.1 417 "));
}

TEST_F(Echo, AHeadHasTheLengthOfItsAnswerAndNoBody) {
  open();
  const std::string answer = ask("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

// A client that is answered before its request was read whole still reads the answer.
TEST_F(Echo, ResetsNobodyWhoStillSends) {
  open();
  const std::string head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
  const std::string answer = ask(head + std::string(1'000'000, 'x'));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer, Not(EndsWith("reset")));
}

TEST_F(Echo, ASlowRequestIsToldThatItsTimeIsOver) {
  open({.body_bytes = 100, .request_time = std::chrono::milliseconds(100)});
  EXPECT_THAT(ask("GET /a HT"), StartsWith("HTTP/1.1 408 "));
}

// Four times as many as are held, from one address, none of which ever says more.
TEST_F(Echo, SlowOnesOfOneAddressKeepNobodyOut) {
  open({.connections = 32});
  std::vector<HttpCaller> slow;
  for (int i = 0; i < 128; ++i) {
    slow.emplace_back(server_->address(), "127.0.0.2");
    slow.back().say("GET /a HT");
  }
  HttpCaller early(server_->address());  // of another address, and as slow as they are
  early.say("GET /early HTTP/1.1\r\n");
  for (int i = 0; i < 64; ++i) {
    slow.emplace_back(server_->address(), "127.0.0.2");
    slow.back().say("GET /a HT");
    if (i % 8 == 0) {
      EXPECT_THAT(ask("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"), EndsWith("GET /b []"));
    }
  }
  EXPECT_THAT(early.ask("Host: x\r\n\r\n"), EndsWith("GET /early []"));
}

// Answers wait until the test lets them go.
class Held : public testing::Test {
 protected:
  void open(HttpLimits limits) {
    server_ = *HttpServer::open({.listen = {"127.0.0.1", 0}, .limits = limits},
                                {.answer = [this](const HttpRequest&, HttpClient& client) {
                                  std::unique_lock lock(mutex_);
                                  ++begun_;
                                  changed_.notify_all();
                                  while (!open_ && !client.gone())
                                    changed_.wait_for(lock, std::chrono::milliseconds(5));
                                  if (client.gone()) ++gone_;
                                  changed_.notify_all();
                                  return HttpReply{.body = "done"};
                                }});
  }
  void await(const int& count, int least) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count >= least; });
  }
  void let_go() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0, gone_ = 0;
  bool open_ = false;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

// Two are answered, three wait, and all others of a burst hear so at once.
TEST_F(Held, ABurstIsRefusedAndNotReset) {
  open({.threads = 2, .waiting = 3});
  std::vector<HttpCaller> callers;
  for (int i = 0; i < 5; ++i) {
    callers.emplace_back(server_->address());
    callers.back().say(kGet);
    if (i < 2) await(begun_, i + 1);
  }
  std::vector<HttpCaller> late;
  for (int i = 0; i < 40; ++i) {
    late.emplace_back(server_->address());
    late.back().say(kGet);
  }
  int refused = 0;
  for (HttpCaller& each : late) {
    const std::string answer = each.hear();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 "));
    refused += answer.starts_with("HTTP/1.1 429 ");
  }
  EXPECT_EQ(refused, 40);
  let_go();
  for (HttpCaller& each : callers) EXPECT_THAT(each.hear(), EndsWith("done"));
}

TEST_F(Held, NoticesWhoLeaves) {
  open({});
  {
    const HttpCaller leaves(server_->address());
    leaves.say(kGet);
    await(begun_, 1);
  }
  await(gone_, 1);
}

TEST_F(Held, StopsWhileOthersWait) {
  open({.threads = 1});
  const HttpCaller first(server_->address()), waits(server_->address());
  first.say(kGet);
  await(begun_, 1);
  waits.say(kGet);
  std::thread stops([this] { server_.reset(); });
  let_go();
  EXPECT_THAT(first.hear(), EndsWith("done"));
  waits.hear();  // nothing, or its answer, and then the end
  stops.join();
}

TEST(HttpServer, StreamsInChunksOrToTheEnd) {
  const auto server = *HttpServer::open({.listen = {"127.0.0.1", 0}},
                                        {.answer = [](const HttpRequest&, HttpClient&) {
                                          return HttpReply{.stream = [](HttpClient& client) {
                                            for (const char* piece : {"ab", "", "cde"})
                                              EXPECT_TRUE(client.write(piece));
                                          }};
                                        }});
  EXPECT_THAT(HttpCaller(server->address()).ask(kGet),
              EndsWith("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"));
  EXPECT_THAT(HttpCaller(server->address()).ask("GET / HTTP/1.0\r\n\r\n"),
              EndsWith("\r\n\r\nabcde"));
}

TEST(HttpServer, AnAnswerThatThrowsIsAnError) {
  std::atomic<int> status = 0;
  auto server = *HttpServer::open(
      {.listen = {"127.0.0.1", 0}},
      {.answer = [](const HttpRequest&, HttpClient&) -> HttpReply { throw std::bad_alloc(); },
       .answered = [&](const HttpRequest&, int of) { status = of; }});
  EXPECT_THAT(HttpCaller(server->address()).ask(kGet), StartsWith("HTTP/1.1 500 "));
  server.reset();
  EXPECT_EQ(status, 500);
}

TEST(HttpServerDeathTest, HasSomethingToSay) {
  EXPECT_DEATH(static_cast<void>(HttpServer::open({}, {})), "a server that answers nothing");
}

}  // namespace
}  // namespace tombolo::transport
