#include "perform/worker/serve_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "perform/generate/front_message.h"
#include "support/toy_shard.h"

namespace tombolo::worker {
namespace {

using generate::FrontMessage;
using generate::FrontWord;
using generate::to_line;
using generate::WorkerMessage;
using generate::WorkerWord;
using ::testing::ElementsAre;

// A worker with a toy in a thread, and the front's end of its socket.
class ServedPrompts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    thread_ = std::thread([this] {
      status_ = serve_prompts(shard_, {.kv_bytes = 24 * 10, .requests_max = 4}, ends_[1], clock_);
      close(ends_[1]);
    });
    const WorkerMessage ready = hear();
    EXPECT_EQ(ready.kind, WorkerWord::kReady);
    EXPECT_EQ(ready.facts->kv_bytes_per_token, 24);
    EXPECT_EQ(ready.facts->positions, 64);
  }
  void TearDown() override {
    close(ends_[0]);
    thread_.join();
  }

  void say(const std::string& bytes) {
    EXPECT_EQ(send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(const FrontMessage& message) { say(to_line(message) + "\n"); }
  WorkerMessage hear() {
    for (;;) {
      if (const auto line = lines_.next()) return generate::parse_worker(*line).value();
      char bytes[4096];
      const ssize_t got = recv(ends_[0], bytes, sizeof bytes, 0);
      if (got <= 0) return {.kind = WorkerWord::kFailed, .message = "the worker has gone"};
      EXPECT_TRUE(lines_.add({bytes, static_cast<size_t>(got)}));
    }
  }

  ManualClock clock_;
  generate::ToyShard shard_{clock_, SimDuration{1000}};
  int ends_[2] = {-1, -1};
  std::thread thread_;
  generate::Lines lines_;
  Status status_;
};

TEST_F(ServedPrompts, AnswersUntilTheOtherEndCloses) {
  say({.request = {.id = 5, .tokens = {3, 4}, .tokens_max = 2}});
  EXPECT_EQ(hear().kind, WorkerWord::kAdmitted);
  EXPECT_EQ(hear().token, 7);
  EXPECT_EQ(hear().token, 4);
  const WorkerMessage end = hear();
  EXPECT_EQ(end.kind, WorkerWord::kLength);
  EXPECT_EQ(end.id, 5);
}

TEST_F(ServedPrompts, RefusesWhatHasNoRoom) {
  say({.request = {.id = 1, .tokens = {3, 4}, .tokens_max = 12}});
  const WorkerMessage refused = hear();
  EXPECT_EQ(refused.kind, WorkerWord::kRefused);
  EXPECT_EQ(refused.why, generate::Refusal::kTooLong);
}

TEST_F(ServedPrompts, ForgetsWhatIsCancelled) {
  say(to_line(FrontMessage{.request = {.id = 1, .tokens = {3}, .tokens_max = 10}}) + "\n" +
      to_line(FrontMessage{.kind = FrontWord::kCancel, .request = {.id = 1}}) + "\n" +
      to_line(FrontMessage{.request = {.id = 2, .tokens = {3}, .tokens_max = 10}}) + "\n");
  EXPECT_EQ(hear().id, 1);  // admitted, and never heard of again
  EXPECT_EQ(hear().kind, WorkerWord::kAdmitted);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(hear().id, 2);
  EXPECT_EQ(hear().kind, WorkerWord::kLength);
}

TEST_F(ServedPrompts, EndsAtWhatIsNoMessage) {
  say("hello\n");
  EXPECT_EQ(hear().message, "the worker has gone");
  thread_.join();
  EXPECT_FALSE(status_);
  thread_ = std::thread([] {});
}

}  // namespace
}  // namespace tombolo::worker
