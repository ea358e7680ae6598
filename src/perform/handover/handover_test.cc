// A front, who reads prompts and a decode worker over loopback, with a toy for a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "perform/handover/cache_sender.h"
#include "perform/handover/decode_front.h"
#include "perform/handover/decode_worker.h"
#include "support/toy_shard.h"

namespace tombolo::handover {
namespace {

using generate::Engine;
using generate::FrontWord;
using generate::Share;
using generate::WorkerMessage;
using generate::WorkerWord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kToken = "00112233445566778899aabbccddeeff";
constexpr std::chrono::seconds kGuard{60};  // a hang is a failure

// What a front hears; its listener writes, the test reads.
class Heard {
 public:
  void hear(const WorkerMessage& message) {
    const std::lock_guard lock(mutex_);
    if (message.kind == WorkerWord::kToken)
      tokens_[message.id].push_back(message.token);
    else
      ends_[message.id].push_back(message.kind);
    changed_.notify_all();
  }
  void end(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
    changed_.notify_all();
  }
  // Until the front has heard that of a prompt.
  bool heard(int64_t id, WorkerWord word) {
    return wait([&] { return std::ranges::count(ends_[id], word) > 0; });
  }
  bool ended() {
    return wait([&] { return !why_.empty(); });
  }
  std::vector<int64_t> tokens(int64_t id) {
    const std::lock_guard lock(mutex_);
    return tokens_[id];
  }

 private:
  template <class Done>
  bool wait(const Done& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kGuard, done);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::vector<int64_t>> tokens_;
  std::map<int64_t, std::vector<WorkerWord>> ends_;
  std::string why_;
};

class HandOver : public testing::Test {
 protected:
  void SetUp() override { start(); }
  void TearDown() override { stop(); }

  void start() {
    auto worker = DecodeWorker::listen(
        shard_, {.kv_bytes = 24 * 40, .requests_max = 4}, place_, [](const std::string&) {},
        HostServices{clock_});
    ASSERT_TRUE(worker) << worker.error().text();
    worker_ = std::move(*worker);
    place_.port = worker_->port();
    stopped_ = false;
    thread_ = std::thread([this] { EXPECT_TRUE(worker_->serve(stopped_)); });
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // A front; what it hears goes to `heard`.
  std::unique_ptr<DecodeFront> call(Heard& heard) {
    const SimTime until = clock_.now() + SimDuration{60'000'000'000};
    for (;;) {  // the worker may just be leaving those before
      auto front = DecodeFront::open(
          place_, [&](const WorkerMessage& message) { heard.hear(message); },
          [&](const std::string& why) { heard.end(why); }, HostServices{clock_});
      if (front || clock_.now() > until) {
        EXPECT_TRUE(front) << front.error().text();
        return front ? std::move(*front) : nullptr;
      }
    }
  }
  // Reads a prompt, and sends its cache.
  void read(generate::Request request, CacheSender& sender) {
    ManualClock clock;
    const generate::ToyShard shard(clock, SimDuration{1000});
    Engine engine(shard, {}, clock);
    request.share = Share::kPrefill;
    EXPECT_FALSE(engine.admit(request));
    engine.work_until(kNever, [](const generate::EngineEvent&) {});
    for (auto& prompt : engine.take_handed_over()) sender.give(std::move(prompt));
  }
  // What a sender says, once it says anything.
  CacheSender::News news(CacheSender& sender) {
    const SimTime until = clock_.now() + SimDuration{60'000'000'000};
    for (;;) {
      const auto news = sender.news();
      if (news.linked || !news.left.empty() || news.failed || clock_.now() > until) return news;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  SystemClock clock_;
  ManualClock toy_clock_;
  generate::ToyShard shard_{toy_clock_, SimDuration{1000}};
  generate::DecodePlace place_{.host = "127.0.0.1", .token = kToken};
  std::unique_ptr<DecodeWorker> worker_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

const generate::Request kRequest{
    .id = 5, .tokens = {3, 4}, .tokens_max = 4, .share = Share::kDecode};

// 7 is the first token, of who read the prompt; 4, 8, 6 follow it (engine_test.cc).
TEST_F(HandOver, AnswersWhatWasReadElsewhere) {
  Heard heard;
  const auto front = call(heard);
  ASSERT_TRUE(front);
  EXPECT_EQ(front->facts(), worker_->facts());
  EXPECT_TRUE(front->say({.kind = FrontWord::kBeat}));
  EXPECT_TRUE(heard.heard(0, WorkerWord::kBeat));
  EXPECT_TRUE(front->say({.request = kRequest}));
  ASSERT_TRUE(heard.heard(5, WorkerWord::kAdmitted));
  CacheSender sender(place_, HostServices{clock_});
  read(kRequest, sender);
  ASSERT_TRUE(heard.heard(5, WorkerWord::kLength));
  EXPECT_THAT(heard.tokens(5), ElementsAre(4, 8, 6));
  EXPECT_TRUE(news(sender).linked);
}

// Its memory is bounded, a cancelled prompt's is free again, and what is no decode worker's is refused.
TEST_F(HandOver, AdmitsWhatItHasRoomFor) {
  Heard heard;
  const auto front = call(heard);
  ASSERT_TRUE(front);
  // 24 bytes a token: 30 + 6 - 1 = 35 of 40 tokens.
  generate::Request large{
      .id = 1, .tokens = std::vector<int64_t>(30, 1), .tokens_max = 6, .share = Share::kDecode};
  EXPECT_TRUE(front->say({.request = large}));
  ASSERT_TRUE(heard.heard(1, WorkerWord::kAdmitted));
  large.id = 2;
  EXPECT_TRUE(front->say({.request = large}));
  ASSERT_TRUE(heard.heard(2, WorkerWord::kRefused));
  EXPECT_TRUE(front->say({.kind = FrontWord::kCancel, .request = {.id = 1}}));
  large.id = 3;
  EXPECT_TRUE(front->say({.request = large}));
  ASSERT_TRUE(heard.heard(3, WorkerWord::kAdmitted));
}

// Everything of a front that leaves is dropped, and the next one is served; also after a reader has
// sent what is no rows.
TEST_F(HandOver, ServesTheNextFront) {
  for (int turn = 0; turn < 3; ++turn) {
    Heard heard;
    const auto front = call(heard);
    ASSERT_TRUE(front);
    EXPECT_TRUE(front->say({.request = kRequest}));
    ASSERT_TRUE(heard.heard(5, WorkerWord::kAdmitted));
    if (turn == 0) continue;  // leaves without a word
    auto endpoint = open_endpoint(place_, kPrefillRank, HostServices{clock_});
    ASSERT_TRUE(endpoint);
    ASSERT_TRUE(call_decode_worker(**endpoint, place_, kPrefillRank, clock_));
    EXPECT_TRUE((*endpoint)->send(kDecodeRank, kDecodeTag, to_payload("no rows")));
    ASSERT_TRUE(heard.ended());
    EXPECT_FALSE(front->say({.request = kRequest}));
  }
}

// A second front with the same token is refused and receives the reason; the first one loses nothing.
TEST_F(HandOver, ASecondFrontIsRefusedAndHurtsNobody) {
  Heard heard;
  const auto front = call(heard);
  ASSERT_TRUE(front);
  EXPECT_TRUE(front->say({.request = kRequest}));
  ASSERT_TRUE(heard.heard(5, WorkerWord::kAdmitted));
  const auto second = DecodeFront::open(
      place_, [](const WorkerMessage&) {}, [](const std::string&) {}, HostServices{clock_});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(second.error().message, HasSubstr("works for another front already"));
  CacheSender sender(place_, HostServices{clock_});
  read(kRequest, sender);
  ASSERT_TRUE(heard.heard(5, WorkerWord::kLength));
  EXPECT_THAT(heard.tokens(5), ElementsAre(4, 8, 6));
}

TEST_F(HandOver, ALostWorkerIsNoticedByBoth) {
  Heard heard;
  const auto front = call(heard);
  ASSERT_TRUE(front);
  CacheSender sender(place_, HostServices{clock_});
  EXPECT_TRUE(news(sender).linked);
  stop();
  ASSERT_TRUE(heard.ended());
  EXPECT_FALSE(front->say({.request = kRequest}));
  read(kRequest, sender);
  EXPECT_TRUE(news(sender).failed);
}

TEST_F(HandOver, NobodyWithoutTheToken) {
  place_.token = "ffeeddccbbaa99887766554433221100";
  Heard heard;
  const auto front = DecodeFront::open(
      place_, [](const WorkerMessage&) {}, [](const std::string&) {}, HostServices{clock_});
  ASSERT_FALSE(front);
  EXPECT_THAT(front.error().text(), HasSubstr("calling the decode worker"));
  place_.token = "short";
  EXPECT_FALSE(endpoint_options(place_, kFrontRank));
}

// A sender that is destroyed while it still calls does not wait for an answer.
TEST_F(HandOver, ASenderThatIsGivenUpAtOnce) {
  place_.host = "127.0.0.77";  // no process listens there
  const SimTime begin = clock_.now();
  { CacheSender sender(place_, HostServices{clock_}); }
  EXPECT_LT(clock_.now() - begin, SimDuration{4'000'000'000});
}

}  // namespace
}  // namespace tombolo::handover
