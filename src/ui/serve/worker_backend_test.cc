#include "ui/serve/worker_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/folder_test.h"

namespace tombolo::serve {
namespace {

using generate::FrontMessage;
using generate::FrontWord;
using generate::WorkerMessage;
using generate::WorkerWord;
using ::testing::HasSubstr;

constexpr SimDuration kSecond{1'000'000'000};

// A rank's socket, at which a test says what the rank says.
class OfARun : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    path_ = at("prompts.socket");
    sockaddr_un here{};
    here.sun_family = AF_UNIX;
    path_.copy(here.sun_path, sizeof here.sun_path - 1);
    door_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(door_, reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
    ASSERT_EQ(listen(door_, 1), 0);
  }
  void TearDown() override {
    if (front_ >= 0) close(front_);
    close(door_);
  }

  // A rank that greets each front at once.
  void start(SimDuration silence) {
    std::thread rank([this] {
      front_ = accept(door_, nullptr, nullptr);
      say({.kind = WorkerWord::kReady,
           .facts = generate::WorkerFacts{.vocabulary = 10,
                                          .positions = 64,
                                          .weight_bytes = 100,
                                          .kv_bytes_per_token = 8,
                                          .kv_bytes_max = 800}});
    });
    auto made = WorkerBackend::start({.run = path_, .silence = silence}, never_);
    rank.join();
    ASSERT_TRUE(made) << made.error().text();
    backend_ = std::move(*made);
  }
  void say(const WorkerMessage& message) {
    const std::string line = to_line(message) + "\n";
    EXPECT_EQ(send(front_, line.data(), line.size(), MSG_NOSIGNAL), std::ssize(line));
  }
  FrontMessage hear() {
    for (;;) {
      if (const auto line = lines_.next()) return generate::parse_front(*line).value();
      char bytes[4096];
      const ssize_t got = recv(front_, bytes, sizeof bytes, 0);
      EXPECT_GT(got, 0);
      if (got <= 0) return {};
      EXPECT_TRUE(lines_.add({bytes, static_cast<size_t>(got)}));
    }
  }
  // The next one that is no beat.
  FrontMessage hear_more() {
    for (;;) {
      if (FrontMessage out = hear(); out.kind != FrontWord::kBeat) return out;
    }
  }
  std::unique_ptr<Answer> admitted() {
    std::thread rank([this] {
      say({.kind = WorkerWord::kAdmitted, .id = hear_more().request.id});
      say({.kind = WorkerWord::kToken, .id = 1, .token = 7});
    });
    auto answer = backend_->admit({.tokens = {1}, .tokens_max = 4});
    rank.join();
    EXPECT_TRUE(answer);
    return answer ? std::move(*answer) : nullptr;
  }
  static Step step(Answer& answer) {
    for (;;) {
      if (Step out = answer.next(kSecond); out.kind != StepKind::kWaiting) return out;
    }
  }

  const std::atomic<bool> never_{false};
  std::string path_;
  int door_ = -1, front_ = -1;
  generate::Lines lines_;
  std::unique_ptr<WorkerBackend> backend_;
};

TEST_F(OfARun, LosesWhatARankHadThatGoes) {
  start(kSecond * 30);
  const auto answer = admitted();
  EXPECT_EQ(step(*answer).token, 7);
  EXPECT_TRUE(backend_->alive());
  shutdown(front_, SHUT_RDWR);
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
  EXPECT_FALSE(backend_->alive());
  EXPECT_TRUE(backend_->may_return());
  EXPECT_EQ(backend_->end(), "the worker has gone");
  EXPECT_FALSE(backend_->admit({.tokens = {1}}));
}

// A rank that is stopped keeps its socket.
TEST_F(OfARun, NoticesSilence) {
  start(kSecond * 3);
  EXPECT_EQ(hear().kind, FrontWord::kBeat);
  say({.kind = WorkerWord::kBeat});
  const auto answer = admitted();
  EXPECT_EQ(step(*answer).token, 7);
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
  EXPECT_EQ(backend_->end(), "the worker has said nothing for 3 s");
  EXPECT_TRUE(backend_->may_return());
}

// After hang_up() the other end sees the line closed, while its answers still exist.
TEST_F(OfARun, HangsUp) {
  start(kSecond * 30);
  const auto answer = admitted();
  EXPECT_EQ(step(*answer).token, 7);
  backend_->hang_up();
  EXPECT_EQ(step(*answer).kind, StepKind::kLost);
  char byte;
  while (recv(front_, &byte, 1, 0) > 0) {
  }
  EXPECT_EQ(recv(front_, &byte, 1, 0), 0);
}

TEST_F(OfARun, ThatDoesNotGreet) {
  const auto silent =
      WorkerBackend::start({.run = path_, .greeting = SimDuration{50'000'000}}, never_);
  ASSERT_FALSE(silent);
  EXPECT_THAT(silent.error().text(), HasSubstr("did not greet within 50 ms"));
  const std::atomic<bool> stopped{true};
  EXPECT_FALSE(WorkerBackend::start({.run = path_, .greeting = kSecond * 3600}, stopped));
  const auto nobody = WorkerBackend::start({.run = path_ + "x"}, never_);
  ASSERT_FALSE(nobody);
  EXPECT_THAT(nobody.error().text(), HasSubstr("no run answers prompts there"));
}

// A client in the queue of a rank that accepts no connection is not blocked by it.
TEST_F(OfARun, ThatAcceptsNobody) {
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(WorkerBackend::start({.run = path_, .greeting = SimDuration{1}}, never_));
}

}  // namespace
}  // namespace tombolo::serve
